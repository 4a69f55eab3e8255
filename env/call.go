package env

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/env/reward"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

// Calls are the stateless requests that the C library serves, msgpack in and out, by name.
func Calls() map[string]func(ctx context.Context, req []byte) ([]byte, error) {
	return map[string]func(context.Context, []byte) ([]byte, error){
		"spec": specCall, "sample": sampleCall, "inspect": inspectCall, "rollout": rolloutCall, "describe": describeCall,
	}
}

type progressKey struct{}

// WithProgress makes a context whose calls tell f how far they are.
func WithProgress(ctx context.Context, f func(done, total int)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// Progress is what a long call tells how far it is; nil if nobody asks.
func Progress(ctx context.Context) func(done, total int) {
	f, _ := ctx.Value(progressKey{}).(func(done, total int))
	return f
}

// specCall tells all that Python derives its spaces and lists from.
func specCall(context.Context, []byte) ([]byte, error) {
	schemas := map[string]any{}
	for _, s := range feature.Schemas() {
		var fs []map[string]any
		for _, f := range s.Features {
			fs = append(fs, map[string]any{
				"name": f.Name, "unit": f.Unit, "lo": f.Lo, "hi": f.Hi, "presence": f.Presence, "doc": f.Formula,
			})
		}
		schemas[s.Kind] = map[string]any{
			"hash": s.Hash(), "text": s.Text(), "width": s.Width(), "features": fs,
			"action": map[string]any{"kind": s.Action.Kind, "lo": s.Action.Lo, "hi": s.Action.Hi, "n": s.Action.Width()},
		}
	}
	var workloads, schedulers []map[string]any
	for _, n := range workload.Names() {
		in, err := workload.Build(n, workload.Params{})
		if err != nil {
			return nil, fmt.Errorf("workload %s: %w", n, err)
		}
		workloads = append(workloads, map[string]any{"name": n, "doc": workload.Doc(n), "profile": in.Profile})
	}
	for _, e := range Schedulers() {
		var orders []string
		if e.Orders&policy.Slot != 0 {
			orders = append(orders, "slot")
		}
		if e.Orders&policy.Key != 0 {
			orders = append(orders, "key")
		}
		schedulers = append(schedulers, map[string]any{"name": e.Name, "doc": e.Doc, "orders": orders})
	}
	return msgpack.Marshal(map[string]any{
		"schemas": schemas, "workloads": workloads, "schedulers": schedulers, "profiles": sim.Profiles(), "rewards": reward.Names(),
		"events": []string{"default", "fork", "all"}, "autoresets": autoresets,
	})
}

// sampleCall draws instances from the distribution that models are trained on, or that they are held out from.
func sampleCall(_ context.Context, req []byte) ([]byte, error) {
	var r struct {
		Kinds []string `msgpack:"kinds"`
		N     int      `msgpack:"n"` // of each kind
		Seed  uint64   `msgpack:"seed"`
		Held  bool     `msgpack:"held_out"`
	}
	if err := Decode(req, &r); err != nil {
		return nil, err
	}
	if r.N < 1 || r.N > 1<<16 {
		return nil, badConfig("sample: n %d is not between 1 and %d", r.N, 1<<16)
	}
	if len(r.Kinds) == 0 {
		r.Kinds = workload.Names()
	}
	var out []InstanceSpec
	for _, k := range r.Kinds {
		index := slices.Index(workload.Names(), k)
		if index < 0 {
			_, err := workload.Build(k, workload.Params{})
			return nil, badConfig("sample: kind %q: %v", k, err)
		}
		rng := rand.New(rand.NewPCG(r.Seed, uint64(index)))
		for range r.N {
			p := workload.Sample(k, rng, r.Held)
			out = append(out, InstanceSpec{Workload: workload.Format(k, p), Seed: rng.Uint64() >> 1})
		}
	}
	return msgpack.Marshal(map[string]any{"instances": out})
}

// inspectCall tells what a model is.
func inspectCall(_ context.Context, req []byte) ([]byte, error) {
	var r struct {
		Model []byte `msgpack:"model"`
	}
	if err := Decode(req, &r); err != nil {
		return nil, err
	}
	m, err := models.Load(r.Model)
	if err != nil {
		return nil, err
	}
	return m.Info()
}

// describeCall tells what a workload spec settles to.
func describeCall(_ context.Context, req []byte) ([]byte, error) {
	var r struct {
		Workload string `msgpack:"workload"`
	}
	if err := Decode(req, &r); err != nil {
		return nil, err
	}
	in, err := BuildInstance(r.Workload)
	if err != nil {
		return nil, err
	}
	return msgpack.Marshal(map[string]any{
		"name": in.Name, "cpus": in.CPUs, "profile": in.Profile, "slice_ns": in.Slice, "slack_ns": in.Slack, "open": in.Open,
		"interarrival_ns": in.Interarrival, "mean_burst_ns": in.MeanBurst, "duration_ns": in.Duration, "notes": in.Notes,
	})
}
