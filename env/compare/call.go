package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/models"
)

// Calls are the requests that the C library, of the version given, serves with this package, msgpack in and out, by name.
func Calls(version string) map[string]func(ctx context.Context, req []byte) ([]byte, error) {
	return map[string]func(context.Context, []byte) ([]byte, error){
		"compare":  func(ctx context.Context, req []byte) ([]byte, error) { return compareCall(ctx, req, version) },
		"timeline": timelineCall,
	}
}

func asConfig(err error) error {
	if err == nil || errors.Is(err, env.ErrConfig) || errors.Is(err, context.Canceled) {
		return err
	}
	return env.AsConfig(err)
}

func compareCall(ctx context.Context, req []byte, version string) ([]byte, error) {
	var r struct {
		Groups     map[string][]string `msgpack:"groups"`
		Order      []string            `msgpack:"order"` // of the groups; nil: by name
		HeldOut    map[string]string   `msgpack:"held_out"`
		Schedulers []string            `msgpack:"schedulers"`
		Model      []byte              `msgpack:"model"`
		Fallback   string              `msgpack:"fallback"`
		Reps       int                 `msgpack:"reps"`
		Seed       uint64              `msgpack:"seed"`
		Bursts     float64             `msgpack:"bursts"`
		Warmup     float64             `msgpack:"warmup"`
		Events     string              `msgpack:"events"`
		Timing     string              `msgpack:"timing"`
		Workers    int                 `msgpack:"workers"`
		CDF        bool                `msgpack:"cdf"`
		Command    string              `msgpack:"command"`
		Out        string              `msgpack:"out"` // folder for the report's files; "": none
	}
	if err := env.Decode(req, &r); err != nil {
		return nil, err
	}
	p := Plan{Schedulers: r.Schedulers, Fallback: r.Fallback, Reps: r.Reps, Seed: r.Seed, Bursts: r.Bursts, Warmup: r.Warmup,
		Workers: r.Workers, CDF: r.CDF, Command: r.Command, Version: version, Progress: env.Progress(ctx)}
	if r.Order == nil {
		for name := range r.Groups {
			r.Order = append(r.Order, name)
		}
		sort.Strings(r.Order)
	}
	for name := range r.HeldOut {
		if _, known := r.Groups[name]; !known {
			return nil, asConfig(fmt.Errorf("held_out: %q is none of the workloads", name))
		}
	}
	if len(r.Order) != len(r.Groups) {
		return nil, asConfig(fmt.Errorf("order: it names %d of %d workloads", len(r.Order), len(r.Groups)))
	}
	for _, name := range r.Order {
		p.Workloads = append(p.Workloads, Workload{Name: name, Specs: r.Groups[name], HeldOut: r.HeldOut[name]})
	}
	var err error
	if r.Events != "" {
		if p.Events, err = sched.ParseEvents(r.Events); err != nil {
			return nil, asConfig(err)
		}
	}
	if r.Timing != "" {
		if p.Timing, err = agent.ParseTiming(r.Timing); err != nil {
			return nil, asConfig(err)
		}
	}
	if r.Model != nil {
		if p.Model, err = models.Load(r.Model); err != nil {
			return nil, asConfig(err)
		}
	}
	c, err := Prepare(p)
	if err != nil {
		return nil, asConfig(err)
	}
	if r.Out != "" {
		if err := CheckNewDir(r.Out); err != nil {
			return nil, asConfig(err)
		}
	}
	report, err := c.Run(ctx)
	if err != nil && !errors.Is(err, ErrStopped) {
		return nil, err
	}
	if r.Out != "" && report.Manifest.Finished > 0 {
		if err := report.Save(r.Out); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, context.Canceled
	}
	return msgpack.Marshal(report)
}

func timelineCall(ctx context.Context, req []byte) ([]byte, error) {
	var r struct {
		Workload  string  `msgpack:"workload"`
		Scheduler string  `msgpack:"scheduler"`
		Model     []byte  `msgpack:"model"`
		Fallback  string  `msgpack:"fallback"`
		Seed      uint64  `msgpack:"seed"`
		Bursts    float64 `msgpack:"bursts"`
		Path      string  `msgpack:"path"`
	}
	if err := env.Decode(req, &r); err != nil {
		return nil, err
	}
	var model *models.Model
	var err error
	if r.Model != nil {
		if model, err = models.Load(r.Model); err != nil {
			return nil, asConfig(err)
		}
	}
	s, err := env.ParseScheduler(r.Scheduler, model, r.Fallback)
	if err != nil {
		return nil, asConfig(err)
	}
	in, err := env.BuildInstance(r.Workload)
	if err != nil {
		return nil, err
	}
	if err := CheckDir(filepath.Dir(r.Path)); err != nil {
		return nil, asConfig(err)
	}
	var m env.Machine
	p, err := s.Policy(&m)
	if err != nil {
		return nil, asConfig(err)
	}
	setup := env.Setup{Instance: in, Seed: r.Seed, Bursts: r.Bursts, Inference: -1}
	if err := s.Setup(&setup, p); err != nil {
		return nil, asConfig(err)
	}
	res, err := WithTimeline(r.Path, &m, setup, func() (env.Result, error) { return m.Run(ctx) })
	if err != nil {
		return nil, err
	}
	return msgpack.Marshal(res)
}

// WithTimeline resets the machine with a timeline among its sinks, runs it, and leaves the file whole or not at all.
func WithTimeline(path string, m *env.Machine, setup env.Setup, run func() (env.Result, error)) (env.Result, error) {
	f, err := Create(path)
	if err != nil {
		return env.Result{}, err
	}
	if err := m.Reset(setup); err != nil { // the timeline wants to know the machine
		f.Discard()
		return env.Result{}, err
	}
	t := trace.NewTimeline(f, m.Sim.Topology(), m.Sim.TaskName, trace.TimelineEvents)
	setup.Sinks = append(setup.Sinks, t)
	var res env.Result
	if err = m.Reset(setup); err == nil {
		res, err = run()
	}
	if err = errors.Join(err, t.Close(m.Agent.Now())); err != nil {
		f.Discard()
		return res, err
	}
	return res, f.Keep()
}
