package env

import (
	"math"
	"slices"
	"strings"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/spell"
	"github.com/ghostgym/ghostgym/env/workload"
)

// Autoreset is what a vector does when an episode ends.
type Autoreset uint8

// Modes, as Gymnasium names them.
const (
	NextStep Autoreset = iota // the next step ignores the action and returns the reset observation
	SameStep                  // reset at once; the last observation is kept apart
	Disabled                  // the caller resets
)

var (
	autoresets     = []string{"next_step", "same_step", "disabled"}
	invalidActions = []string{"back", "raise"}
)

func noneOf(what, name string, choices []string) error {
	return badConfig("%s: %q is none of %s%s", what, name, strings.Join(choices, ", "), spell.Hint(name, choices))
}

// Options say what an episode is like, besides its instance. Durations are in microseconds; those absent are as Setup says.
type Options struct {
	Schema         string   `msgpack:"schema"` // "priority" or "placement"
	Profile        string   `msgpack:"profile"`
	Preempt        bool     `msgpack:"wakeup_preemption"`
	Events         string   `msgpack:"events"`
	Timing         string   `msgpack:"timing"`
	Reward         string   `msgpack:"reward"`
	HorizonBursts  *float64 `msgpack:"horizon_bursts"`
	MaxSteps       int64    `msgpack:"max_episode_steps"`
	InvalidAction  string   `msgpack:"invalid_action"` // "back" or "raise"
	AgeBoundMicros *float64 `msgpack:"age_bound_us"`
	InferMicros    *float64 `msgpack:"inference_us"`
	SliceMicros    *float64 `msgpack:"slice_us"`
	Warmup         float64  `msgpack:"warmup"`

	schema *feature.Schema
	setup  Setup
}

// Config describes a vector.
type Config struct {
	Options   `msgpack:",inline"`
	NumEnvs   int      `msgpack:"num_envs"`
	Workloads []string `msgpack:"workloads"` // sub-environment i uses number i modulo their count
	Autoreset string   `msgpack:"autoreset"`
	Workers   int      `msgpack:"workers"` // 0: one per CPU
}

// maxEnvs bounds what a slip of the pen can ask for.
const maxEnvs = 1 << 16

// maxMicros bounds spans: eleven days.
const maxMicros = 1e12

// micros is an option's span; absent where v is nil.
func micros(name string, v *float64, least, absent kernel.Time) (kernel.Time, error) {
	if v == nil {
		return absent, nil
	}
	ns := math.Round(*v * 1e3)
	if !(ns >= float64(least) && *v <= maxMicros) {
		return 0, badConfig("%s: %v is not between %v and %g microseconds", name, *v, float64(least)/1e3, maxMicros)
	}
	return kernel.Time(ns), nil
}

// resolve checks the options and fills in the setup that they stand for.
func (o *Options) resolve() error {
	var err error
	if o.schema, err = schemaByName(o.Schema); err != nil {
		return err
	}
	s := Setup{Profile: o.Profile, MaxSteps: o.MaxSteps, Preempt: o.Preempt, Reward: o.Reward, Warmup: o.Warmup}
	if s.Order = o.schema.Order(); s.Preempt && s.Order != sched.ByKey {
		return badConfig("wakeup_preemption: it needs keys, and %s names slots", o.Schema)
	}
	if o.Events == "" {
		o.Events = "default"
	}
	if s.Events, err = sched.ParseEvents(o.Events); err != nil {
		return badConfig("%w", err)
	}
	if o.Timing == "" {
		o.Timing = "sync"
	}
	if s.Timing, err = agent.ParseTiming(o.Timing); err != nil {
		return badConfig("%w", err)
	}
	if o.InvalidAction != "" && !slices.Contains(invalidActions, o.InvalidAction) {
		return noneOf("invalid_action", o.InvalidAction, invalidActions)
	}
	if o.MaxSteps < 0 {
		return badConfig("max_episode_steps: %d is negative", o.MaxSteps)
	}
	if o.HorizonBursts != nil {
		if s.Bursts = *o.HorizonBursts; !(s.Bursts > 0 && s.Bursts <= math.MaxFloat64) {
			return badConfig("horizon_bursts: %v is no positive number", s.Bursts)
		}
	}
	if s.AgeBound, err = micros("age_bound_us", o.AgeBoundMicros, 1, 0); err != nil {
		return err
	}
	if s.Slice, err = micros("slice_us", o.SliceMicros, 1, 0); err != nil {
		return err
	}
	if s.Inference, err = micros("inference_us", o.InferMicros, 0, -1); err != nil {
		return err
	}
	o.setup = s
	return nil
}

func schemaByName(name string) (*feature.Schema, error) {
	for _, s := range feature.Schemas() {
		if s.Kind == name {
			return s, nil
		}
	}
	return nil, noneOf("schema", name, []string{feature.Priority.Kind, feature.Placement.Kind})
}

// maxWorkers bounds what a slip of the pen can ask for.
const maxWorkers = 256

func checkWorkers(n int) error {
	if n < 0 || n > maxWorkers {
		return badConfig("workers: %d is not between 0, one per CPU, and %d", n, maxWorkers)
	}
	return nil
}

func (c *Config) check() (Autoreset, error) {
	if c.NumEnvs < 1 || c.NumEnvs > maxEnvs {
		return 0, badConfig("num_envs: %d is not between 1 and %d", c.NumEnvs, maxEnvs)
	}
	if n := len(c.Workloads); n > c.NumEnvs {
		return 0, badConfig("workloads: %d for %d environments, so that %q would never be played", n, c.NumEnvs, c.Workloads[n-1])
	}
	if len(c.Workloads) == 0 {
		return 0, badConfig("workloads: none given; there are %s, and rt-app files", strings.Join(workload.Names(), ", "))
	}
	if err := checkWorkers(c.Workers); err != nil {
		return 0, err
	}
	if c.Autoreset == "" {
		return NextStep, nil
	}
	for i, n := range autoresets {
		if n == c.Autoreset {
			return Autoreset(i), nil
		}
	}
	return 0, noneOf("autoreset", c.Autoreset, autoresets)
}

// InstanceSpec names an instance: a workload with its parameters, and the seed and episode of its random streams.
type InstanceSpec struct {
	Workload string `msgpack:"workload" json:"workload"`
	Seed     uint64 `msgpack:"seed" json:"seed"`
	Episode  uint64 `msgpack:"episode" json:"episode"`
}

// BuildInstance makes what a workload spec names.
func BuildInstance(spec string) (*workload.Instance, error) {
	name, p, err := workload.Parse(spec)
	if err != nil {
		return nil, AsConfig(err)
	}
	in, err := workload.Build(name, p)
	return in, AsConfig(err)
}
