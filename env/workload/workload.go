// Package workload holds what tasks do: generators of synthetic load, one file each, and rt-app files (package rtapp).
//
// A workload is named by a spec, "kind:key=value:key=value" or "path/to/file.json:key=value"; [Parse] reads it and [Build]
// makes an [Instance], which drives one simulated machine at a time.
//
// Every task draws from a random stream of its own, a function of (seed, episode, task) and of nothing else. So every
// scheduler meets the same arrivals, bursts and sleeps: the k-th burst of a task is as long under one as under another.
//
// The eight kinds and their ranges are those whose headroom has been measured: constant bursts (sched_bench), three open
// loops of microsecond services (dispersive, bimodal, rocksdb), and four closed loops (interactive, heavytail, phase,
// frame). All burst lengths of a kind are multiplied by the scale; none is below MinBurst. In the nominal figures of closed loops
// that floor is left out: at scale 1/64 it lifts the mean burst by 4 % (heavytail), 1 % (interactive) or less, from 1/16 on by nothing
// that can be measured.
package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/spell"
)

// MinBurst is the shortest CPU burst that a generator draws.
const MinBurst kernel.Time = 500

// Params are what a spec may set. Zero is the kind's default; Doc(name) tells it.
type Params struct {
	CPUs    int     // 1 to 128; an rt-app file: at least as many as it names
	Load    float64 // demand for CPU time over CPUs, 0.01 to 2; hogs come on top. An instance of few threads or one game may have less
	Scale   float64 // multiplies burst lengths, 1/64 to 64; slice and sleeps go with it, the period of frames does not
	Threads int     // 1 to 10000, in place of the load (sched_bench, interactive) or sharing it (heavytail, phase)
	Cycles  int     // sched_bench: bursts per thread, -1 without end
	Lenient bool    // rt-app files: repair what can be repaired, and list it in Notes
}

// Limits of Params, shared by Parse and Build.
const (
	maxCPUs            = 128
	minLoad, maxLoad   = 0.01, 2
	minScale, maxScale = 1.0 / 64, 64
	maxThreads         = 10000
	maxCycles          = 1 << 30
)

// Instance is one workload with its parameters settled. Its Workload may start any number of episodes, on one machine at a
// time: it holds the state of the running episode.
type Instance struct {
	Name         string // the kind, or the path of the file
	Params       Params // with defaults filled in
	Workload     sim.Workload
	CPUs         int
	Pinned       kernel.CPUSet // CPUs that tasks name: an agent that wants a CPU for itself leaves these alone
	Profile      string        // default profile: "uthread" for microsecond services, else "kthread"
	Slice        kernel.Time   // default slice; 0: the profile's
	Slack        kernel.Time   // timer slack of the machine
	Interarrival kernel.Time   // nominal mean time between bursts: 1 / sum over tasks of 1/(mean burst + mean sleep); hogs excluded; files: measured
	MeanBurst    kernel.Time   // nominal, hogs excluded
	Duration     kernel.Time   // the horizon that the workload asks for; 0: a number of interarrivals
	Open         bool          // arrivals do not depend on service
	Notes        []string      // what a reader of results must know
}

// kind is a line of the table.
type kind struct {
	name, doc string
	cpus      int
	load      float64
	threads   bool    // takes threads=
	exclusive bool    // threads and load set each other
	cycles    int     // default of cycles=; 0: takes none
	sampled   float64 // factor on the sampled load
	maxScale  float64 // cap on the sampled scale
	build     func(p Params, in *Instance) error
}

var kinds = []kind{schedBench, dispersive, bimodal, rocksdb, interactive, heavytail, phase, frame}

// Names lists the kinds.
func Names() []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].name
	}
	return names
}

// Doc describes a kind, its parameters and defaults, or says what rt-app files are; "" for an unknown name.
func Doc(name string) string {
	if IsFile(name) {
		return "rt-app file: tasks, phases and events as rt-app runs them. Parameters: cpus (default: 4, or as many as the file " +
			"names), lenient=1."
	}
	k := find(name)
	if k == nil {
		return ""
	}
	params := fmt.Sprintf("cpus=%d (1-%d), load=%.3g (%g-%d), scale=1 (1/64-%d)", k.cpus, maxCPUs, k.load, minLoad, maxLoad, maxScale)
	if k.threads {
		params += fmt.Sprintf(", threads (1-%d", maxThreads)
		if k.exclusive {
			params += ", in place of load"
		}
		params += ")"
	}
	if k.cycles != 0 {
		params += fmt.Sprintf(", cycles=%d (-1: no end)", k.cycles)
	}
	return k.doc + " Parameters: " + params + "."
}

func find(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// IsFile reports whether a name means a file rather than a kind: it ends in .json or contains a path separator.
func IsFile(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.ContainsAny(name, `/\`)
}

// Build makes an instance of a kind, or of the rt-app file at a path. Errors name the parameter and its range, or the place
// in the file.
func Build(name string, p Params) (*Instance, error) {
	if IsFile(name) {
		return buildFile(name, p)
	}
	k := find(name)
	if k == nil {
		return nil, unknownKind(name)
	}
	if err := k.settle(&p); err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	in := &Instance{Name: name, CPUs: p.CPUs, Profile: "kthread"}
	if err := k.build(p, in); err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	if in.Params == (Params{}) {
		in.Params = p
	}
	return in, nil
}

// settle fills defaults in and refuses what the kind does not take.
func (k *kind) settle(p *Params) error {
	switch {
	case p.Threads != 0 && !k.threads:
		return fmt.Errorf("threads: not a parameter of this kind (%s)", Doc(k.name))
	case p.Cycles != 0 && k.cycles == 0:
		return fmt.Errorf("cycles: only sched_bench has them")
	case p.Lenient:
		return fmt.Errorf("lenient: only for rt-app files")
	}
	if p.CPUs == 0 {
		p.CPUs = k.cpus
	}
	if p.Load == 0 && !(k.exclusive && p.Threads != 0) {
		p.Load = k.load
	}
	if p.Scale == 0 {
		p.Scale = 1
	}
	if p.Cycles == 0 {
		p.Cycles = k.cycles
	}
	return p.check()
}

// exchange settles threads and load of a kind where each sets the other; share is what a thread wants of a CPU.
func (p *Params) exchange(share float64) error {
	threads := max(1, int(math.Round(p.Load*float64(p.CPUs)/share)))
	switch {
	case p.Threads == 0:
		p.Threads = threads
	case p.Load == 0:
		p.Load = float64(p.Threads) * share / float64(p.CPUs)
	case p.Threads != threads:
		return fmt.Errorf("threads %d and load %g: give one of them, each sets the other", p.Threads, p.Load)
	}
	if p.Load > maxLoad {
		return fmt.Errorf("threads %d: on %d CPUs they are a load of %.3g, at most %d is allowed: fewer threads or more cpus",
			p.Threads, p.CPUs, p.Load, maxLoad)
	}
	return nil
}

func (p *Params) check() error {
	switch {
	case p.CPUs < 0 || p.CPUs > maxCPUs:
		return fmt.Errorf("cpus %d: allowed are 1 to %d", p.CPUs, maxCPUs)
	case p.Load != 0 && !(p.Load >= minLoad && p.Load <= maxLoad):
		return fmt.Errorf("load %g: allowed are %g to %d", p.Load, minLoad, maxLoad)
	case p.Scale != 0 && !(p.Scale >= minScale && p.Scale <= maxScale):
		return fmt.Errorf("scale %g: allowed are 1/64 to %d", p.Scale, maxScale)
	case p.Threads < 0 || p.Threads > maxThreads:
		return fmt.Errorf("threads %d: allowed are 1 to %d", p.Threads, maxThreads)
	case p.Cycles < -1 || p.Cycles > maxCycles:
		return fmt.Errorf("cycles %d: allowed are 1 to %d, or -1 for no end", p.Cycles, maxCycles)
	}
	return nil
}

// Sample draws parameters of a kind from the training distribution: CPUs from {4, 6, 8}, load uniform in 0.5-0.95 (times 0.5
// for frame, 0.8 for interactive), scale 2^U(-1, 1) (at most 1.2 for frame). Held: parameters outside of it, CPUs from
// {2, 12, 16} and scale 1/4 or 4. An unknown kind gives zero Params, which Build refuses with the kind.
func Sample(name string, r *rand.Rand, held bool) Params {
	cpus := [...]int{4, 6, 8}[r.IntN(3)]
	load := .5 + .45*r.Float64()
	scale := math.Exp2(2*r.Float64() - 1)
	if held {
		cpus = [...]int{2, 12, 16}[r.IntN(3)]
		scale = [...]float64{.25, 4}[r.IntN(2)]
	}
	k := find(name)
	if k == nil {
		return Params{}
	}
	p := Params{CPUs: cpus, Load: load * k.sampled, Scale: min(scale, k.maxScale)}
	if k.cycles != 0 {
		p.Cycles = -1 // an episode ends at its horizon
	}
	return p
}

func unknownKind(name string) error {
	return fmt.Errorf("workload %q is unknown: there is %s, and rt-app files (a path that ends in .json or contains /)%s",
		name, strings.Join(Names(), ", "), spell.Hint(name, Names()))
}
