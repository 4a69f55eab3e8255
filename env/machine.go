package env

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env/reward"
	"github.com/ghostgym/ghostgym/env/workload"
)

// DefaultHorizonBursts is how many nominal interarrivals a run lasts when nothing else is said: fewer are biased, not only noisy.
const DefaultHorizonBursts = 2000

// Setup is everything that determines a run. Equal setups give equal traces, bit for bit.
type Setup struct {
	Instance  *workload.Instance
	Seed      uint64
	Episode   uint64
	Profile   string      // "": the instance's
	Slice     kernel.Time // 0: the instance's, else the profile's
	Bursts    float64     // horizon in nominal interarrivals; 0: DefaultHorizonBursts
	MaxSteps  int64       // answers after which the run is truncated; 0: none
	Warmup    float64     // share of the horizon excluded from means and percentiles
	Order     sched.Order
	Preempt   bool
	ToBlock   bool // the common slice lasts until the task blocks
	Events    sched.Events
	AgeBound  kernel.Time // 0: sched.DefaultAgeBound
	Timing    agent.Timing
	Inference kernel.Time // per decision; negative: the profile's
	Reward    string      // see package reward; "": slowdown
	Policy    policy.Policy
	Sinks     []trace.Sink
}

// Machine is a simulated machine and its agent. It is used by one goroutine.
type Machine struct {
	Sim     sim.Sim
	Agent   agent.Agent
	Metrics *metrics.Collector

	setup    Setup
	horizon  kernel.Time
	finished bool
	cut      bool // truncated by MaxSteps
	stopped  bool // by an error, or by whoever cancelled it
	reward   reward.Func
	last     reward.Reading
	total    float64 // of the rewards
	out      []sched.Placement
	pulse    func() error // while RunWith runs
	beat     func() error // calls pulse; made once: a method value is allocated
}

// Reset makes the machine ready for a run, keeping its memory. Its errors are about the setup.
func (m *Machine) Reset(s Setup) error { return AsConfig(m.reset(s)) }

func (m *Machine) reset(s Setup) error {
	if s.Instance == nil {
		return errors.New("env: a workload instance is needed")
	}
	if s.Bursts == 0 {
		s.Bursts = DefaultHorizonBursts
	}
	if !(s.Bursts > 0 && s.Bursts <= math.MaxFloat64) {
		return fmt.Errorf("bursts: a horizon of %v: want a positive number", s.Bursts)
	}
	if !(s.Warmup >= 0 && s.Warmup < 1) {
		return fmt.Errorf("warmup: %v: want a share of the horizon, from 0 to below 1", s.Warmup)
	}
	if s.Reward == "" {
		s.Reward = "slowdown"
	}
	f, err := reward.Find(s.Reward)
	if err != nil {
		return err
	}
	name := s.Profile
	if name == "" {
		name = s.Instance.Profile
	}
	profile, err := sim.LoadProfile(name)
	if err != nil {
		return err
	}
	m.horizon = s.Instance.Duration
	if m.horizon == 0 {
		h := s.Bursts * float64(s.Instance.Interarrival)
		if h > math.MaxInt64/4 {
			return fmt.Errorf("bursts: a horizon of %v, %v ns each, is too long", s.Bursts, s.Instance.Interarrival)
		}
		if m.horizon = kernel.Time(math.Round(h)); m.horizon < 1 {
			return fmt.Errorf("bursts: a horizon of %v, %v ns each, is over before it begins", s.Bursts, s.Instance.Interarrival)
		}
	}
	slice := s.Slice
	if slice == 0 && s.Profile == "" {
		slice = s.Instance.Slice
	}
	if slice == 0 {
		slice = profile.Slice
	}
	if s.ToBlock && s.Slice > 0 {
		return fmt.Errorf("slice: %v ns: this scheduler runs tasks until they block", s.Slice)
	}
	if s.ToBlock {
		slice = kernel.Forever
	}
	if s.Inference < 0 {
		s.Inference = profile.Inference
	}
	err = m.Sim.Reset(sim.Config{
		Profile: profile, CPUs: machineCPUs(profile, s.Instance), Horizon: m.horizon, Slack: s.Instance.Slack,
		Seed: s.Seed, Episode: s.Episode, Workload: s.Instance.Workload,
	})
	if err != nil {
		return err
	}
	if r, ok := s.Policy.(policy.Resetter); ok {
		r.Reset(s.Seed ^ s.Episode<<32)
	}
	figures := metrics.Config{Warmup: kernel.Time(s.Warmup * float64(m.horizon)), SwitchCost: profile.Switch}
	if m.Metrics == nil {
		m.Metrics = metrics.New(figures)
	} else {
		m.Metrics.Reset(figures)
	}
	m.setup, m.finished, m.cut, m.stopped, m.reward, m.last, m.total = s, false, false, false, f, reward.Reading{}, 0
	if m.beat == nil {
		m.beat = m.interrupt
	}
	return m.Agent.Reset(agent.Config{
		Interrupt: m.beat, Kernel: &m.Sim, Timing: s.Timing, Inference: s.Inference, Until: m.horizon, Sinks: s.Sinks, Policy: s.Policy,
		Core: sched.Config{
			Order: s.Order, Preempt: s.Preempt, Events: s.Events, Slice: slice, AgeBound: s.AgeBound,
			Nominal: s.Instance.MeanBurst, SwitchCost: profile.Switch, Observer: m.Metrics,
		},
	})
}

// Horizon is the end of the run.
func (m *Machine) Horizon() kernel.Time { return m.horizon }

// Setup is what the machine was reset with.
func (m *Machine) Setup() *Setup { return &m.setup }

func (m *Machine) reading() reward.Reading {
	w, s := m.Agent.Core().Integrals(m.Agent.Now())
	return reward.Reading{Wait: w, Slowdown: s}
}

// Finish ends the run and folds in what was still open. It may be called more than once.
func (m *Machine) Finish() error {
	if m.finished {
		return nil
	}
	m.finished = true
	err := m.Agent.Stop()
	m.Metrics.Close(m.Agent.Core(), m.Agent.Now(), func(t *sched.Task) (kernel.Time, bool) {
		return t.Attained(m.Agent.Now()) + m.Sim.BurstLeft(t.ID), true
	})
	return err
}

// Result is what a finished run has to show.
type Result struct {
	Figures    metrics.Figures `json:"figures" msgpack:"figures"`
	Return     float64         `json:"return" msgpack:"return"`
	TraceHash  string          `json:"trace_hash" msgpack:"trace_hash"`
	EndNs      int64           `json:"end_ns" msgpack:"end_ns"`
	HorizonNs  int64           `json:"horizon_ns" msgpack:"horizon_ns"`
	Events     uint64          `json:"events" msgpack:"events"`
	Terminated bool            `json:"terminated" msgpack:"terminated"`
	Deadlock   []string        `json:"deadlock,omitempty" msgpack:"deadlock,omitempty"`
}

// Peek reads a run that goes on: bursts still open are not in it.
func (m *Machine) Peek() Result {
	r := m.Result()
	r.Figures.Fates, r.Terminated = *m.Agent.Core().Fates(), false
	return r
}

// Result reads a finished run.
func (m *Machine) Result() Result {
	st := m.Sim.Stats()
	r := Result{
		Figures: m.Metrics.Figures(), Return: m.total, TraceHash: fmt.Sprintf("%016x", uint64(m.Agent.Hash())),
		EndNs: int64(m.Agent.Now()), HorizonNs: int64(m.horizon), Events: st.Events,
		Terminated: m.Agent.Now() < m.horizon && !m.cut && !m.stopped,
	}
	if m.Sim.Deadlocked() {
		for _, w := range m.Sim.Waits() {
			r.Deadlock = append(r.Deadlock, w.String())
		}
	}
	return r
}

func (m *Machine) interrupt() error {
	if m.pulse == nil {
		return nil
	}
	return m.pulse()
}

// Observe goes on to the next decisions and returns the reward for the time that has passed. more is false when the run is over.
func (m *Machine) Observe() (more bool, r float64, err error) {
	more, err = m.Agent.Observe()
	if errors.Is(err, ErrUnderWay) { // what passed is read when the decision comes: two sums would not be that of one run, to the bit
		return false, 0, err
	}
	now := m.reading()
	r = m.reward(m.last, now, m.setup.Instance.Interarrival)
	m.last = now
	m.total += r
	return more, r, err
}

// Run runs the machine with its policy to the end and returns what it showed. When ctx is cancelled, the result covers what was
// run. The sum of rewards is the same, to the bit, as that of an Episode whose actions are the policy's answers.
func (m *Machine) Run(ctx context.Context) (Result, error) {
	return m.RunWith(ctx, func() {})
}

// RunWith is Run, with a call of meanwhile now and then, between turns.
func (m *Machine) RunWith(ctx context.Context, meanwhile func()) (Result, error) {
	p := m.setup.Policy
	if p == nil {
		return Result{}, errors.New("env: Run needs a policy")
	}
	var err error
	steps, limit := 0, int(m.setup.MaxSteps)
	m.pulse = func() error {
		meanwhile()
		return ctx.Err()
	}
	defer func() { m.pulse = nil }()
	for {
		more, _, e := m.Observe()
		if e != nil || !more {
			err = e
			break
		}
		batch := m.Agent.Batch()
		if steps += len(batch); limit > 0 && steps > limit { // also within a batch, of which no answer counts then
			m.cut = true
			break
		}
		for len(m.out) < len(batch) {
			m.out = append(m.out, sched.Placement{})
		}
		p.Place(m.Agent.View(), batch, m.out[:len(batch)])
		if err = m.Agent.Place(m.out[:len(batch)]); err != nil {
			break
		}
	}
	m.stopped = err != nil
	err = errors.Join(err, m.Finish())
	return m.Result(), err
}
