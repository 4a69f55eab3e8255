// Package policy holds what answers decisions: heuristics, one file each, and the learned policy, which asks a model.
//
// A policy is used by one goroutine and keeps nothing of what it is shown. What it remembers is its own, and Reset forgets it.
// Policies differ in the order they can answer for: a queue by slots wants a place, a queue by keys a number, smaller first.
package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/spell"
)

// Policy answers each decision of a batch, all against the same View, into out, which is as long.
type Policy interface {
	Place(v *sched.View, batch []sched.Decision, out []sched.Placement)
}

// Resetter is a policy with a memory. Reset makes it as new; the agent calls it at the start of every episode. Chance follows
// the seed alone.
type Resetter interface{ Reset(seed uint64) }

// BurstObserver is a policy that learns from finished bursts. The agent calls it before the decisions of the turn, with the
// index of the task, whose incarnation View.Task(task).ID tells.
type BurstObserver interface {
	BurstEnded(v *sched.View, task int32, burst kernel.Time)
}

// Orders is the set of orders that a policy can answer for.
type Orders uint8

// Sets of orders.
const (
	Slot Orders = 1 << sched.BySlot
	Key  Orders = 1 << sched.ByKey
)

// Has reports whether the order is one of the set.
func (o Orders) Has(order sched.Order) bool { return o&(1<<order) != 0 }

func (o Orders) String() string {
	switch o {
	case Slot:
		return sched.BySlot.String()
	case Key:
		return sched.ByKey.String()
	}
	return "key or slot"
}

// Choose is the order that a queue should have: by key where wakeup preemption needs it or nothing else is offered.
func (o Orders) Choose(preempt bool) (sched.Order, error) {
	switch {
	case preempt && !o.Has(sched.ByKey):
		return 0, errors.New("wakeup preemption (+wp) needs keys, and this policy names slots")
	case preempt || !o.Has(sched.BySlot):
		return sched.ByKey, nil
	}
	return sched.BySlot, nil
}

// Config is what a policy may need to be made. Heuristics need nothing.
type Config struct {
	Schema   *feature.Schema // learned: what the model was trained on
	Scorer   Scorer          // learned: the model
	Fallback string          // learned: the heuristic that answers where the model cannot
}

// Entry is a policy by name.
type Entry struct {
	Name       string
	Doc        string
	Orders     Orders
	RunToBlock bool // its common slice is kernel.Forever
	NeedsModel bool
	New        func(Config) (Policy, error)
}

// table returns every policy. It is a function, since the learned policy finds its fallback in it.
func table() []Entry {
	plain := func(p func() Policy) func(Config) (Policy, error) {
		return func(Config) (Policy, error) { return p(), nil }
	}
	return []Entry{
		{"fifo", "first come, first served: a task runs until it blocks, and one that lost its CPU goes first", Slot | Key, true, false,
			plain(func() Policy { return fifo{} })},
		{"rr", "round robin: the back of the queue at the common slice", Slot | Key, false, false, plain(func() Policy { return rr{} })},
		{"cfs", "least virtual runtime: CPU time weighted by nice value", Key, false, false, plain(func() Policy { return cfs{} })},
		{"las", "least attained service: the burst that has used the least CPU time", Key, false, false, plain(func() Policy { return las{} })},
		{"sept", "shortest expected burst; one that overruns counts as twice what it has used", Key, false, false,
			plain(func() Policy { return sept{} })},
		{"gittins", "Gittins index from histograms of each task's bursts over those of all", Key, false, false,
			plain(func() Policy { return new(gittins) })},
		{"front", "the front of the queue: last come, first served", Slot, false, false, plain(func() Policy { return front{} })},
		{"random", "one of the places that may be named, by chance", Slot, false, false, plain(func() Policy { return newRandom() })},
		{"learned", "a model: an ONNX file that gives keys, or logits over slots", Slot | Key, false, true, newLearnedByName},
	}
}

// Names lists every policy.
func Names() []string {
	var names []string
	for _, e := range table() {
		names = append(names, e.Name)
	}
	return names
}

// Entries describes every policy, in the order of Names.
func Entries() []Entry { return table() }

// Find is the policy with the name given. The error for another lists what there is.
func Find(name string) (Entry, error) {
	entries := table()
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, unknown("policy", name, Names())
	}
	return entries[i], nil
}

// FindFallback is the heuristic with the name given, if it answers by one of the orders. The error for another lists those that do.
func FindFallback(name string, orders Orders) (Entry, error) {
	var choices []string
	for _, e := range table() {
		if e.NeedsModel || e.Orders&orders == 0 {
			continue
		}
		if e.Name == name {
			return e, nil
		}
		choices = append(choices, e.Name)
	}
	e, err := Find(name)
	switch {
	case err != nil:
		return Entry{}, fmt.Errorf("fallback: %w", unknown("policy", name, choices))
	case e.NeedsModel:
		return Entry{}, fmt.Errorf("fallback: %s is no heuristic: want one of %s", name, strings.Join(choices, ", "))
	}
	return Entry{}, fmt.Errorf("fallback: %s does not answer by %s, as the model does: want one of %s", name, orders, strings.Join(choices, ", "))
}

// Spec is a scheduler's name, policy[+wp][@profile].
type Spec struct {
	Policy  string
	Preempt bool   // wakeup preemption by key
	Profile string // "": the workload's own
}

func (s Spec) String() string {
	name := s.Policy
	if s.Preempt {
		name += "+wp"
	}
	if s.Profile != "" {
		name += "@" + s.Profile
	}
	return name
}

// ParseSpec reads a scheduler's name. Where profiles are given, the profile must be one of them.
func ParseSpec(text string, profiles ...string) (Spec, error) {
	name, profile, hasProfile := strings.Cut(text, "@")
	name, option, hasOption := strings.Cut(name, "+")
	fail := func(err error) (Spec, error) { return Spec{}, fmt.Errorf("scheduler %q: %w", text, err) }
	if name == "" {
		return fail(fmt.Errorf("no policy: want policy[+wp][@profile], with policy one of %s", strings.Join(Names(), ", ")))
	}
	entry, err := Find(name)
	if err != nil {
		return fail(err)
	}
	if hasOption && option != "wp" {
		return fail(fmt.Errorf("%q after + is unknown: only +wp (wakeup preemption) is", option))
	}
	if hasProfile {
		switch {
		case profile == "":
			return fail(errors.New("no profile after @"))
		case len(profiles) > 0 && !slices.Contains(profiles, profile):
			return fail(unknown("profile", profile, profiles))
		case strings.ContainsAny(profile, "@+ "):
			return fail(fmt.Errorf("profile %q: a name has no @, + or space", profile))
		}
	}
	if _, err := entry.Orders.Choose(hasOption); err != nil {
		return fail(err)
	}
	return Spec{Policy: name, Preempt: hasOption, Profile: profile}, nil
}

// unknown is the error for a name that is none of the choices; it names the closest where one is near.
func unknown(what, name string, choices []string) error {
	return fmt.Errorf("%s %q is unknown: want one of %s%s", what, name, strings.Join(choices, ", "), spell.Hint(name, choices))
}
