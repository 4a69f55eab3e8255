package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/compare"
)

// Stats is what --json gets.
type Stats struct {
	Scheduler string                 `json:"scheduler"`
	Workload  string                 `json:"workload"`
	Kernel    string                 `json:"kernel"`
	Seed      uint64                 `json:"seed"`
	Timing    string                 `json:"timing"`
	Events    string                 `json:"events"`
	Setup     Setup                  `json:"setup"`
	Commit    string                 `json:"commit"`
	Model     string                 `json:"model,omitempty"`
	ModelHash string                 `json:"model_hash,omitempty"` // SHA-256 of the file
	Schema    string                 `json:"schema,omitempty"`     // hash
	ModelTime time.Duration          `json:"model_ns,omitempty"`   // that a decision takes on this machine, by its clock, beside setup.inference_ns
	Notes     []string               `json:"notes,omitempty"`
	Outside   []string               `json:"outside_training,omitempty"` // which of CPUs, load and scale lie outside of what the model was trained on
	Running   bool                   `json:"running,omitempty"`          // written while the run went on
	Stopped   bool                   `json:"stopped,omitempty"`          // by a signal, before the end
	Result    env.Result             `json:"result"`
	Commits   map[string]uint64      `json:"transactions"` // by outcome
	Refused   uint64                 `json:"refused"`      // transactions whose outcome is not "done"
	Turns     uint64                 `json:"turns"`
	Lost      uint64                 `json:"messages_lost"`
	Fallback  *policy.FallbackCounts `json:"fallback_causes,omitempty"`

	delay time.Duration // of the timing
}

// Setup is what a run was made of besides, whether it was asked for or is a default.
type Setup struct {
	Profile   string      `json:"profile"`               // the scheduler's, else the workload's
	CPUs      int         `json:"cpus"`                  // of the machine, an agent's own included
	Fallback  string      `json:"fallback,omitempty"`    // of the model
	AgeBound  kernel.Time `json:"age_bound_ns"`          // after which a task is next in its queue
	Inference kernel.Time `json:"inference_ns"`          // simulated cost of a decision
	Bursts    float64     `json:"bursts,omitempty"`      // horizon in mean interarrivals; absent where
	Duration  kernel.Time `json:"duration_ns,omitempty"` // it is a time, of --duration or of the workload
	Warmup    float64     `json:"warmup"`                // share of the horizon left out of means and percentiles
}

func newSetup(s *session) Setup {
	m := s.machine.Setup()
	x := Setup{CPUs: len(s.machine.Sim.Topology().CPUs), Profile: cmp.Or(m.Profile, m.Instance.Profile), AgeBound: m.AgeBound, Inference: m.Inference,
		Duration: m.Instance.Duration, Warmup: m.Warmup}
	if x.Duration == 0 {
		x.Bursts = m.Bursts
	}
	return x
}

func newStats(s *session, scheduler *env.Scheduler) (Stats, error) {
	in := s.setup.Instance
	st := Stats{Scheduler: s.o.scheduler, Workload: s.o.workload, Kernel: s.o.kernel, Seed: s.o.seed, Timing: s.setup.Timing.String(),
		Events: s.setup.Events.String(), Setup: newSetup(s), Commit: compare.Commit(), Notes: slices.Concat(in.Notes, scheduler.Notes(in)),
		Outside: scheduler.Warnings(in)}
	if !scheduler.Learned() {
		for _, x := range []struct{ flag, value string }{{"model", s.o.model}, {"fallback", s.o.fallback}} {
			if x.value != "" {
				st.Notes = append(st.Notes, fmt.Sprintf("--%s is not used by %s", x.flag, scheduler))
			}
		}
		return st, nil
	}
	st.Model, st.ModelHash, st.Schema = s.model.Name(), s.model.Hash(), s.model.Schema().Hash()
	st.Setup.Fallback = cmp.Or(s.o.fallback, env.DefaultFallback(s.model.Schema().Order()))
	var err error
	st.ModelTime, err = s.model.Time()
	st.delay = time.Duration(s.setup.Timing.Delay)
	if note := cli.Slow(st.ModelTime, time.Duration(st.Setup.Inference)+st.delay); note != "" {
		st.Notes = append(st.Notes, note+fmt.Sprintf(": pass --inference %v to see what it costs", cli.Rounded(st.ModelTime)))
	}
	return st, err
}

// fill adds what the agent has counted.
func (s *session) fill(st *Stats) {
	a := &s.machine.Agent
	st.Turns, st.Lost, st.Refused = a.Turns(), a.Lost(), 0
	st.Commits = map[string]uint64{}
	for state, n := range a.Core().Refused() {
		if n == 0 {
			continue
		}
		st.Commits[kernel.TxnState(state).String()] = n
		if kernel.TxnState(state) != kernel.StateDone {
			st.Refused += n
		}
	}
	if l, ok := s.setup.Policy.(*policy.Learned); ok {
		c := l.Counts()
		st.Fallback = &c
	}
}

func (st *Stats) write(w io.Writer) error {
	b, err := json.MarshalIndent(st, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// table prints the figures for people.
func (st *Stats) table(w io.Writer) {
	state := "ended at its horizon"
	switch {
	case st.Running:
		state = "is running"
	case st.Stopped:
		state = "was stopped"
	case len(st.Result.Deadlock) > 0:
		state = "is blocked for ever"
	case st.Result.Terminated:
		state = "has finished"
	}
	f, d := &st.Result.Figures, &st.Result.Figures.Fates
	fmt.Fprintf(w, "%s on %s: the workload %s after %.3f s; %d events, trace %s\n", st.Scheduler, st.Workload, state,
		float64(st.Result.EndNs)/1e9, st.Result.Events, st.Result.TraceHash)
	for _, line := range st.Result.Deadlock {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintf(w, "  waiting       mean %s µs, slowdown %s, longest %s µs; wakeup p50 %s, p99 %s, max %s µs\n", number(f.WaitMean),
		number(f.SlowdownMean), number(f.AgeMax), number(f.WakeupP50), number(f.WakeupP99), number(f.WakeupMax))
	fmt.Fprintf(w, "  work          %d bursts, %s per s, utilisation %s, %d switches, %d bursts censored\n", f.Bursts,
		number(f.Throughput), number(f.Utilisation), f.Switches, f.Censored)
	fallback := "the fallback"
	if name := st.Setup.Fallback; name != "" {
		fallback += ", " + name
	}
	fmt.Fprintf(w, "  decisions     %d requested: %d applied (%d by %s), %d late, %d superseded, %d expired, %d dropped, "+
		"%d undelivered, %d abandoned\n", d.Requested, d.Applied, d.Fallback, fallback, d.Late, d.Superseded, d.Expired, d.Dropped, d.Undelivered,
		d.Abandoned)
	fmt.Fprintf(w, "  by the policy %s %% of the decisions; besides %d trivial, %d aged, %d stale, %d unused, %d clipped\n",
		number(metrics.Number(100*d.AppliedShare())), d.Trivial, d.Aged, d.Stale, d.Unused, d.Clipped)
	fmt.Fprintf(w, "  transactions  %d done, %d refused; %d messages lost\n", st.Commits[kernel.StateDone.String()], st.Refused, st.Lost)
	if st.ModelTime > 0 {
		fmt.Fprintf(w, "  model         %v a decision on this machine, simulated as %v\n", cli.Rounded(st.ModelTime),
			time.Duration(st.Setup.Inference)+st.delay)
	}
	if c := st.Fallback; c != nil && c.Errors+c.NonFinite > 0 {
		fmt.Fprintf(w, "  fallback      %d decisions that the model failed on, %d scores not finite\n", c.Errors, c.NonFinite)
	}
}

func number(x metrics.Number) string {
	if math.IsNaN(float64(x)) {
		return "–"
	}
	return fmt.Sprintf("%.4g", float64(x))
}
