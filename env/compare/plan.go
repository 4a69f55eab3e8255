package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

// Plan is what to compare.
type Plan struct {
	Workloads  []Workload
	Schedulers []string
	Model      *models.Model // answers for "learned"; nil if no scheduler is
	Fallback   string        // of the model; "": env.DefaultFallback
	Reps       int
	Seed       uint64
	Bursts     float64 // horizon in mean interarrivals; 0: env.DefaultHorizonBursts
	Warmup     float64 // share of the horizon
	Events     sched.Events
	Timing     agent.Timing
	Workers    int // 0: one per CPU
	CDF        bool
	Progress   func(done, total int) // called from one goroutine at a time
}

// Workload is a line of the report: one spec, or several of which repetition r takes number r modulo their count.
type Workload struct {
	Name    string
	Specs   []string
	HeldOut string // from training, in: "seed", "parameters", "kind"; "" if nothing is claimed
}

// Run is one scheduler on one instance.
type Run struct {
	Workload  string     `json:"workload" msgpack:"workload"`
	Spec      string     `json:"spec" msgpack:"spec"`
	Scheduler string     `json:"scheduler" msgpack:"scheduler"`
	Rep       int        `json:"rep" msgpack:"rep"`
	Seed      uint64     `json:"seed" msgpack:"seed"`
	Result    env.Result `json:"result" msgpack:"result"`
	done      bool
}

// ErrStopped says that a comparison was cut short: the report has what was finished.
var ErrStopped = errors.New("compare: stopped before the end; the report has the repetitions that were finished")

// maxRuns bounds what a slip of the pen can ask for.
const maxRuns = 1 << 20

func (p *Plan) resolve() ([]*env.Scheduler, error) {
	if len(p.Workloads) == 0 || len(p.Schedulers) == 0 {
		return nil, errors.New("compare: at least one workload and one scheduler are needed")
	}
	if p.Reps < 1 || p.Reps > maxRuns/len(p.Workloads)/len(p.Schedulers) {
		return nil, fmt.Errorf("compare: %d repetitions of %d workloads under %d schedulers: from 1 to %d runs in all", p.Reps,
			len(p.Workloads), len(p.Schedulers), maxRuns)
	}
	var all []*env.Scheduler
	for i, name := range p.Schedulers {
		if slices.Contains(p.Schedulers[:i], name) {
			return nil, fmt.Errorf("compare: scheduler %q stands twice", name)
		}
		s, err := env.ParseScheduler(name, p.Model, p.Fallback)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	seen := map[string]bool{}
	for _, w := range p.Workloads {
		if seen[w.Name] {
			return nil, fmt.Errorf("compare: workload %q stands twice", w.Name)
		}
		seen[w.Name] = true
		if len(w.Specs) == 0 {
			return nil, fmt.Errorf("compare: workload %q has no instances", w.Name)
		}
		switch w.HeldOut {
		case "", "seed", "parameters", "kind":
		default:
			return nil, fmt.Errorf("compare: workload %q is held out in %q: it is none of seed, parameters, kind", w.Name, w.HeldOut)
		}
		for _, spec := range w.Specs {
			if _, err := env.BuildInstance(spec); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Execute runs the plan. When ctx is cancelled it reports what is finished, together with ErrStopped.
func Execute(ctx context.Context, p Plan) (*Report, error) {
	schedulers, err := p.resolve()
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, w := range p.Workloads {
		for _, s := range p.Schedulers {
			for r := range p.Reps {
				runs = append(runs, Run{Workload: w.Name, Spec: w.Specs[r%len(w.Specs)], Scheduler: s, Rep: r, Seed: p.Seed + uint64(r)})
			}
		}
	}
	order := rand.New(rand.NewPCG(p.Seed, 0x6f72646572)).Perm(len(runs))
	// repetitions come one after the other, so that a comparison cut short has whole ones; within each the order is random
	slices.SortStableFunc(order, func(a, b int) int { return runs[a].Rep - runs[b].Rep })
	x := &execution{plan: &p, schedulers: schedulers, runs: runs, order: order, cdf: map[string]*metrics.Histogram{}}
	if p.Workers <= 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range min(p.Workers, len(runs)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			x.work(ctx)
		}()
	}
	wg.Wait()
	if x.err != nil {
		return nil, x.err
	}
	report := newReport(&p, schedulers, runs, x.cdf)
	for i := range runs {
		if !runs[i].done {
			return report, ErrStopped
		}
	}
	return report, nil
}

type execution struct {
	plan       *Plan
	schedulers []*env.Scheduler
	runs       []Run
	order      []int
	mu         sync.Mutex
	next, done int
	err        error
	cdf        map[string]*metrics.Histogram // by workload and scheduler
}

func (x *execution) take() (*Run, *env.Scheduler) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil || x.next == len(x.order) {
		return nil, nil
	}
	run := &x.runs[x.order[x.next]]
	x.next++
	return run, x.schedulers[slices.Index(x.plan.Schedulers, run.Scheduler)]
}

func (x *execution) work(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 4096)
			x.fail(fmt.Errorf("compare: internal error: %v\n%s", p, buf[:runtime.Stack(buf, false)]))
		}
	}()
	var m env.Machine
	policies := map[*env.Scheduler]policy.Policy{}
	instances := map[string]*workload.Instance{}
	for ctx.Err() == nil {
		run, s := x.take()
		if run == nil {
			return
		}
		if err := x.one(ctx, run, s, &m, policies, instances); err != nil {
			if ctx.Err() == nil {
				x.fail(fmt.Errorf("compare: %s under %s, seed %d: %w", run.Spec, run.Scheduler, run.Seed, err))
			}
			return
		}
	}
}

func (x *execution) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *execution) one(ctx context.Context, run *Run, s *env.Scheduler, m *env.Machine, policies map[*env.Scheduler]policy.Policy,
	instances map[string]*workload.Instance) error {
	var err error
	if policies[s] == nil {
		if policies[s], err = s.Policy(m); err != nil {
			return err
		}
	}
	if instances[run.Spec] == nil {
		if instances[run.Spec], err = env.BuildInstance(run.Spec); err != nil {
			return err
		}
	}
	p := x.plan
	setup := env.Setup{Instance: instances[run.Spec], Seed: run.Seed, Bursts: p.Bursts, Warmup: p.Warmup, Events: p.Events,
		Timing: p.Timing, Inference: -1}
	if err := s.Setup(&setup, policies[s]); err != nil {
		return err
	}
	if err := m.Reset(setup); err != nil {
		return err
	}
	run.Result, err = m.Run(ctx)
	if err != nil {
		return err
	}
	run.done = true
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.CDF {
		key := run.Workload + "\x00" + run.Scheduler
		if x.cdf[key] == nil {
			x.cdf[key] = metrics.NewHistogram(1e3)
		}
		x.cdf[key].Merge(m.Metrics.Wakeup())
	}
	x.done++
	if p.Progress != nil {
		p.Progress(x.done, len(x.runs))
	}
	return nil
}
