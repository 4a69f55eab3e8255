// Package reward turns successive readings of the core's integrals into rewards.
//
// A reward is the difference of two readings, so that the rewards of an episode add up to one figure of it, whatever the number of
// steps, and no policy can gain by asking more or less often. Integrals count every waiting task from time 0 on, held ones
// included, until it has a CPU.
package reward

import (
	"fmt"
	"sort"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/spell"
)

// Reading is the state of the core's integrals at an instant: see sched.Core.Integrals.
type Reading struct {
	Wait     float64 // ns × waiting tasks
	Slowdown float64 // sum over waiting tasks of ns waited per ns of expected burst
}

// Func is the reward for going from one reading to the next. nominal is the workload's nominal mean interarrival.
type Func func(from, to Reading, nominal kernel.Time) float64

type entry struct {
	doc string
	f   Func
}

var table = map[string]entry{
	"slowdown": {"minus the time waited, each task's in units of its expected burst (default)", slowdown},
	"wait":     {"minus the time waited, in units of the workload's mean interarrival", wait},
}

// slowdown is minus the waiting, each task's weighed by 1/its expected burst: the best proxy, known online, of mean slowdown.
func slowdown(from, to Reading, _ kernel.Time) float64 { return from.Slowdown - to.Slowdown }

// wait is minus the waiting in units of the nominal mean interarrival.
func wait(from, to Reading, nominal kernel.Time) float64 {
	return (from.Wait - to.Wait) / float64(nominal)
}

// Names lists the rewards.
func Names() []string {
	var names []string
	for n := range table {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Doc says in a line what a reward is; "" for an unknown name.
func Doc(name string) string { return table[name].doc }

// Find looks a reward up.
func Find(name string) (Func, error) {
	if e, ok := table[name]; ok {
		return e.f, nil
	}
	return nil, fmt.Errorf("reward: %q is none of %s%s", name, strings.Join(Names(), ", "), spell.Hint(name, Names()))
}
