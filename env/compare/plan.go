package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

// Plan is what to compare.
type Plan struct {
	Workloads  []Workload
	Schedulers []string      // policy[+wp][@profile]
	Model      *models.Model // answers for "learned"; nil if no scheduler is
	Fallback   string        // of the model; "": env.DefaultFallback
	Reps       int
	Seed       uint64
	Bursts     float64 // horizon in mean interarrivals
	Warmup     float64 // share of the horizon
	Events     sched.Events
	Timing     agent.Timing
	Workers    int // 0: one per CPU
	CDF        bool
	Command    string                // for the manifest: what was typed
	Version    string                // for the manifest: of the program
	Progress   func(done, total int) // called by one goroutine at a time
}

// Workload is a line of the report: one spec, or several of which repetition r takes number r modulo their count.
type Workload struct {
	Name    string
	Specs   []string
	HeldOut string // from training, in: "seed", "parameters", "kind"; "" if nothing is claimed
}

// Run is one scheduler on one instance.
type Run struct {
	Workload  string     `msgpack:"workload"`
	Spec      string     `msgpack:"spec"`
	Scheduler string     `msgpack:"scheduler"`
	Rep       int        `msgpack:"rep"`
	Seed      uint64     `msgpack:"seed"`
	Result    env.Result `msgpack:"result"`

	scheduler *env.Scheduler
	done      bool
}

// Comparison is a plan that can be run.
type Comparison struct {
	plan       Plan
	schedulers []*env.Scheduler
	runs       []Run
	lines      []line            // one per workload of the plan
	files      map[string]string // SHA-256 of the workloads' files, by path
}

// line is what is known of a workload before it runs.
type line struct {
	closed bool
	notes  []string
}

// maxRuns bounds what a slip of the pen can ask for.
const maxRuns = 1 << 20

// Prepare checks a plan: every workload is built, and a machine set up for it under every scheduler. Its errors are those of whoever
// made the plan.
func Prepare(p Plan) (*Comparison, error) {
	if len(p.Workloads) == 0 || len(p.Schedulers) == 0 {
		return nil, errors.New("at least one workload and one scheduler are needed")
	}
	if most := maxRuns / len(p.Workloads) / len(p.Schedulers); p.Reps < 1 || p.Reps > most {
		return nil, fmt.Errorf("reps: %d: with %d workloads under %d schedulers, from 1 to %d are possible", p.Reps,
			len(p.Workloads), len(p.Schedulers), most)
	}
	if p.Seed+uint64(p.Reps-1) < p.Seed {
		return nil, fmt.Errorf("seed %d: of %d repetitions, each with the next seed, the last would be beyond %d", p.Seed, p.Reps,
			uint64(math.MaxUint64))
	}
	if !(p.Bursts > 0) {
		return nil, fmt.Errorf("bursts: %v is no horizon: want a positive number, as in %d", p.Bursts, env.DefaultHorizonBursts)
	}
	if p.Workers < 0 {
		return nil, fmt.Errorf("workers: %d is negative; 0 is one per CPU", p.Workers)
	}
	if p.Workers == 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	c := &Comparison{plan: p, files: map[string]string{}}
	for i, name := range p.Schedulers {
		if slices.Contains(p.Schedulers[:i], name) {
			return nil, fmt.Errorf("scheduler %q stands twice", name)
		}
		s, err := env.ParseScheduler(name, p.Model, p.Fallback)
		if err != nil {
			return nil, err
		}
		c.schedulers = append(c.schedulers, s)
	}
	probe := newWorker(&c.plan)
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if slices.ContainsFunc(p.Workloads[:i], func(x Workload) bool { return x.Name == w.Name }) {
			return nil, fmt.Errorf("workload %q stands twice", w.Name)
		}
		l, err := c.check(w, probe)
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
		for _, s := range c.schedulers {
			for r := range p.Reps {
				c.runs = append(c.runs, Run{Workload: w.Name, Spec: w.Specs[r%len(w.Specs)], Scheduler: s.String(), Rep: r,
					Seed: p.Seed + uint64(r), scheduler: s})
			}
		}
	}
	return c, nil
}

func (c *Comparison) check(w *Workload, probe *worker) (l line, err error) {
	if len(w.Specs) == 0 {
		return l, fmt.Errorf("workload %q has no instances", w.Name)
	}
	if !slices.Contains([]string{"", "seed", "parameters", "kind"}, w.HeldOut) {
		return l, fmt.Errorf("workload %q is held out in %q: it is none of seed, parameters, kind", w.Name, w.HeldOut)
	}
	note := func(all []string) {
		for _, n := range all {
			if !slices.Contains(l.notes, n) {
				l.notes = append(l.notes, n)
			}
		}
	}
	for _, spec := range w.Specs {
		for _, s := range c.schedulers {
			if err := probe.reset(&Run{Spec: spec, scheduler: s, Seed: c.plan.Seed}); err != nil {
				return l, fmt.Errorf("%s under %s: %w", spec, s, err)
			}
			in := probe.machine.Setup().Instance
			l.closed = l.closed || !in.Open
			note(in.Notes)
			note(s.Warnings(in))
			note(s.Notes(in))
		}
		in := probe.instances[spec]
		note(c.bounds(in))
		if workload.IsFile(in.Name) {
			if c.files[in.Name], err = hashFile(in.Name); err != nil {
				return l, err
			}
		}
	}
	return l, nil
}

// interleave is the order in which runs are taken: repetition by repetition, so that a comparison cut short has whole ones, and
// within each at random.
func interleave(runs []Run, seed uint64) []int {
	order := rand.New(rand.NewPCG(seed, 0x6f72646572)).Perm(len(runs))
	slices.SortStableFunc(order, func(a, b int) int { return runs[a].Rep - runs[b].Rep })
	return order
}
