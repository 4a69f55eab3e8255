package env

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

// RolloutRequest asks for whole episodes with policies inside: every policy on every instance.
type RolloutRequest struct {
	Policies  []PolicyRef    `msgpack:"policies"`
	Instances []InstanceSpec `msgpack:"instances"`
	Options   Options        `msgpack:"options"`
	Fallback  string         `msgpack:"fallback"` // of models; "": DefaultFallback
	Workers   int            `msgpack:"workers"`  // 0: one per CPU
}

// PolicyRef is a model, as ONNX bytes, or the name of a scheduler.
type PolicyRef struct {
	Model []byte
	Name  string
}

// DecodeMsgpack reads bytes as a model and a string as a name.
func (p *PolicyRef) DecodeMsgpack(d *msgpack.Decoder) error {
	v, err := d.DecodeInterface()
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case []byte:
		p.Model = v
	case string:
		p.Name = v
	default:
		return fmt.Errorf("a policy is a model's bytes or a scheduler's name, not %T", v)
	}
	return nil
}

// Rollouts holds results by policy and instance: index policy × number of instances + instance.
type Rollouts struct {
	Results   []Result
	Decisions []uint64
}

// maxRollouts bounds what one request can ask for.
const maxRollouts = 1 << 22

// Rollout runs every policy on every instance. What it returns does not depend on the number of workers. When ctx is cancelled it
// returns ctx's error.
func Rollout(ctx context.Context, r RolloutRequest) (*Rollouts, error) {
	if len(r.Policies) == 0 || len(r.Instances) == 0 {
		return nil, badConfig("rollout: %d policies and %d instances: at least one of each is needed", len(r.Policies), len(r.Instances))
	}
	if len(r.Policies) > maxRollouts/len(r.Instances) {
		return nil, badConfig("rollout: %d policies on %d instances are too many for one call (at most %d episodes)",
			len(r.Policies), len(r.Instances), maxRollouts)
	}
	if err := r.Options.resolve(); err != nil {
		return nil, err
	}
	if err := checkWorkers(r.Workers); err != nil {
		return nil, err
	}
	if r.Workers == 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	schedulers := make([]*Scheduler, len(r.Policies))
	for i, p := range r.Policies {
		var err error
		if schedulers[i], err = p.scheduler(&r); err != nil {
			return nil, fmt.Errorf("rollout: policy %d: %w", i, err)
		}
	}
	n := len(r.Policies) * len(r.Instances)
	out := &Rollouts{Results: make([]Result, n), Decisions: make([]uint64, n)}
	rollers := make([]*roller, min(r.Workers, n))
	var next atomic.Int64
	var wg sync.WaitGroup
	for i := range rollers {
		w := &roller{r: &r, schedulers: schedulers, out: out, instances: map[string]*workload.Instance{}}
		rollers[i] = w
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() {
				if p := recover(); p != nil {
					w.err = PanicError(p)
				}
				if w.err != nil {
					next.Store(int64(n)) // the others end what they have begun
				}
			}()
			w.err = w.run(ctx, &next, n)
		}()
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var failed *roller // of the first job that fails, however many workers there are
	for _, w := range rollers {
		if w.err != nil && (failed == nil || w.job < failed.job) {
			failed = w
		}
	}
	if failed != nil {
		return nil, failed.err
	}
	return out, nil
}

func (p *PolicyRef) scheduler(r *RolloutRequest) (*Scheduler, error) {
	if p.Model == nil {
		return ParseScheduler(p.Name, nil, r.Fallback)
	}
	m, err := models.Load(p.Model)
	if err != nil {
		return nil, err
	}
	name := "learned"
	if r.Options.Preempt {
		name += "+wp"
	}
	s, err := ParseScheduler(name, m, r.Fallback)
	if err == nil && m.Schema() != r.Options.schema {
		err = badConfig("the model is for %s and the options say %s", m.Schema().Kind, r.Options.Schema)
	}
	return s, err
}

// roller is one worker: a machine, and what it keeps between episodes.
type roller struct {
	r          *RolloutRequest
	schedulers []*Scheduler
	out        *Rollouts
	machine    Machine
	policy     policy.Policy
	which      int
	instances  map[string]*workload.Instance
	job        int // the last that was begun
	err        error
}

func (w *roller) run(ctx context.Context, next *atomic.Int64, n int) error {
	w.which = -1
	for {
		job := int(next.Add(1)) - 1
		if job >= n || ctx.Err() != nil {
			return ctx.Err()
		}
		w.job = job
		if err := w.episode(ctx, job); err != nil {
			return err
		}
	}
}

func (w *roller) episode(ctx context.Context, job int) error {
	p, i := job/len(w.r.Instances), job%len(w.r.Instances)
	s := w.schedulers[p]
	if p != w.which {
		var err error
		if w.policy, err = s.Policy(&w.machine); err != nil {
			return err
		}
		w.which = p
	}
	spec := w.r.Instances[i]
	in := w.instances[spec.Workload]
	if in == nil {
		var err error
		if in, err = BuildInstance(spec.Workload); err != nil {
			return fmt.Errorf("rollout: instance %d: %w", i, err)
		}
		if len(w.instances) >= 256 {
			clear(w.instances)
		}
		w.instances[spec.Workload] = in
	}
	setup := w.r.Options.setup
	setup.Instance, setup.Seed, setup.Episode = in, spec.Seed, spec.Episode
	if err := s.Setup(&setup, w.policy); err != nil {
		return err
	}
	if err := w.machine.Reset(setup); err != nil {
		return fmt.Errorf("rollout: instance %d (%s): %w", i, spec.Workload, err)
	}
	res, err := w.machine.Run(ctx)
	if err != nil {
		return fmt.Errorf("rollout: policy %d, instance %d (%s): %w", p, i, spec.Workload, err)
	}
	w.out.Results[job], w.out.Decisions[job] = res, w.machine.Agent.Core().Fates().Requested
	return nil
}

// columns are the figures that a reply carries as one array each.
var columns = []struct {
	name string
	get  func(r *Result) float64
}{
	{"wait_mean_us", func(r *Result) float64 { return float64(r.Figures.WaitMean) }},
	{"wait_p99_us", func(r *Result) float64 { return float64(r.Figures.WaitP99) }},
	{"wakeup_p50_us", func(r *Result) float64 { return float64(r.Figures.WakeupP50) }},
	{"wakeup_p99_us", func(r *Result) float64 { return float64(r.Figures.WakeupP99) }},
	{"wakeup_max_us", func(r *Result) float64 { return float64(r.Figures.WakeupMax) }},
	{"slowdown_mean", func(r *Result) float64 { return float64(r.Figures.SlowdownMean) }},
	{"slowdown_p99", func(r *Result) float64 { return float64(r.Figures.SlowdownP99) }},
	{"turnaround_ms", func(r *Result) float64 { return float64(r.Figures.Turnaround) }},
	{"utilisation", func(r *Result) float64 { return float64(r.Figures.Utilisation) }},
	{"throughput_per_s", func(r *Result) float64 { return float64(r.Figures.Throughput) }},
	{"age_max_us", func(r *Result) float64 { return float64(r.Figures.AgeMax) }},
	{"switches", func(r *Result) float64 { return float64(r.Figures.Switches) }},
	{"censored", func(r *Result) float64 { return float64(r.Figures.Censored) }},
	{"bursts", func(r *Result) float64 { return float64(r.Figures.Bursts) }},
}

// rolloutCall serves Rollout over msgpack.
func rolloutCall(ctx context.Context, req []byte) ([]byte, error) {
	var r RolloutRequest
	if err := Decode(req, &r); err != nil {
		return nil, err
	}
	out, err := Rollout(ctx, r)
	if err != nil {
		return nil, err
	}
	n := len(out.Results)
	returns, cells := make([]float64, n), make([]float64, n)
	hashes := make([]string, n)
	var decisions []byte
	for i := range out.Results {
		returns[i], hashes[i] = out.Results[i].Return, out.Results[i].TraceHash
		decisions = binary.LittleEndian.AppendUint64(decisions, out.Decisions[i])
	}
	figures := map[string][]byte{}
	for _, c := range columns {
		for i := range out.Results {
			cells[i] = c.get(&out.Results[i])
		}
		figures[c.name] = floats(cells)
	}
	return msgpack.Marshal(map[string]any{
		"returns": floats(returns), "figures": figures, "decisions": decisions, "trace_hash": hashes,
	})
}

// floats is a tensor as msgpack carries it: little-endian bytes.
func floats(x []float64) []byte {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}
