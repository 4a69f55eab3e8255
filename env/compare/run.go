package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/workload"
)

// ErrStopped says that a comparison was cut short. The report that comes with it has the runs that were finished, if there are any.
var ErrStopped = errors.New("stopped before the end")

// Run carries the comparison out, once. When ctx is cancelled it reports what is finished, together with ErrStopped.
func (c *Comparison) Run(ctx context.Context) (*Report, error) {
	x := &execution{c: c, order: interleave(c.runs, c.plan.Seed), cdf: map[cell]*metrics.Histogram{}}
	var wg sync.WaitGroup
	for range min(c.plan.Workers, len(c.runs)) {
		wg.Go(func() { x.work(ctx) })
	}
	wg.Wait()
	if x.err != nil {
		return nil, x.err
	}
	report := c.report(x.cdf)
	if x.done < len(c.runs) {
		return report, ErrStopped
	}
	return report, nil
}

// cell is a scheduler on a workload.
type cell struct{ workload, scheduler string }

// execution hands runs to workers and collects what they bring.
type execution struct {
	c          *Comparison
	order      []int
	mu         sync.Mutex
	next, done int
	err        error
	cdf        map[cell]*metrics.Histogram
}

func (x *execution) take() *Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil || x.next == len(x.order) {
		return nil
	}
	x.next++
	return &x.c.runs[x.order[x.next-1]]
}

func (x *execution) work(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil { // nobody else could
			x.fail(env.PanicError(p))
		}
	}()
	w := newWorker(&x.c.plan)
	for ctx.Err() == nil {
		run := x.take()
		if run == nil {
			return
		}
		err := w.reset(run)
		if err == nil {
			run.Result, err = w.machine.Run(ctx)
		}
		if err != nil && ctx.Err() == nil {
			x.fail(fmt.Errorf("%s under %s, seed %d: %w", run.Spec, run.Scheduler, run.Seed, err))
		}
		if err != nil {
			return
		}
		x.finish(run, w)
	}
}

func (x *execution) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *execution) finish(run *Run, w *worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	run.done = true
	if x.c.plan.CDF {
		k := cell{run.Workload, run.Scheduler}
		if x.cdf[k] == nil {
			x.cdf[k] = metrics.NewHistogram(1e3)
		}
		x.cdf[k].Merge(w.machine.Metrics.Wakeup())
	}
	x.done++
	if x.c.plan.Progress != nil {
		x.c.plan.Progress(x.done, len(x.c.runs))
	}
}

// worker is one machine, with the policies and instances that have run on it.
type worker struct {
	plan      *Plan
	machine   env.Machine
	policies  map[*env.Scheduler]policy.Policy
	instances map[string]*workload.Instance
}

func newWorker(p *Plan) *worker {
	return &worker{plan: p, policies: map[*env.Scheduler]policy.Policy{}, instances: map[string]*workload.Instance{}}
}

// reset sets the machine up for a run.
func (w *worker) reset(run *Run) (err error) {
	s := run.scheduler
	if w.policies[s] == nil {
		if w.policies[s], err = s.Policy(&w.machine); err != nil {
			return err
		}
	}
	if w.instances[run.Spec] == nil {
		if w.instances[run.Spec], err = env.BuildInstance(run.Spec); err != nil {
			return err
		}
	}
	p := w.plan
	setup := env.Setup{Instance: w.instances[run.Spec], Seed: run.Seed, Bursts: p.Bursts, Warmup: p.Warmup, Events: p.Events,
		Timing: p.Timing, Inference: -1}
	if err := s.Setup(&setup, w.policies[s]); err != nil {
		return err
	}
	return w.machine.Reset(setup)
}
