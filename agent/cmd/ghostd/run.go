package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/compare"
	"github.com/ghostgym/ghostgym/models"
)

const runUsage = `Usage: ghostd run --workload W [--scheduler P[+wp][@profile]] [--model FILE] [flags]

Runs the agent on a kernel until the workload ends, and prints what became of tasks and decisions. The
scheduler is "learned" unless said otherwise: it asks the model, by default the one built in, and the
fallback where the model cannot answer. SIGINT and SIGTERM stop cleanly; SIGUSR2 writes --json meanwhile.

Examples:
  ghostd run --workload bimodal:load=0.8
  ghostd run --workload frame --scheduler learned+wp --model model.onnx --timeline frame.json
  ghostd run --workload app.json --scheduler cfs@linux --json stats.json
  ghostd run --workload bimodal --timing async+135ms          # what a slow policy is worth

Flags:
`

// kernels that there are. More come with backends of their own.
var kernels = []string{"sim"}

// options are the flags.
type options struct {
	kernel, model, scheduler, timing, events, fallback, workload string
	record, timeline, json                                       string
	seed                                                         uint64
	bursts, warmup                                               float64
	inference, ageBound                                          time.Duration
}

func parse(args []string, stdout io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("ghostd run", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.kernel, "kernel", "sim", "`kernel` to schedule: sim")
	f.StringVar(&o.model, "model", "", "ONNX `FILE` that answers for learned; by default the one built in")
	f.StringVar(&o.scheduler, "scheduler", "learned", "policy[+wp][@profile]; 'ghostlab list' names all")
	f.StringVar(&o.timing, "timing", "sync", "when an answer takes effect: sync, async[+DELAY] or hold=BOUND[+DELAY]")
	f.StringVar(&o.events, "events", "default", "which enqueues are asked about: default, fork or all")
	f.StringVar(&o.fallback, "fallback", "", "`heuristic` that answers where the model cannot; by default las for keys, rr for places")
	f.StringVar(&o.workload, "workload", "", "kind:key=value:… or the path of an rt-app file")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the workload")
	f.Float64Var(&o.bursts, "bursts", 2000, "horizon, in mean interarrivals, where the workload has no duration of its own")
	f.Float64Var(&o.warmup, "warmup", 0, "`share` of the horizon left out of means and percentiles")
	f.DurationVar(&o.inference, "inference", -1, "what a decision costs on the machine; by default the profile's")
	f.DurationVar(&o.ageBound, "age-bound", time.Second, "a task that waits longer goes first, whatever the policy says")
	f.StringVar(&o.record, "record", "", "write the trace, turn by turn, to `FILE`")
	f.StringVar(&o.timeline, "timeline", "", "write a timeline for ui.perfetto.dev to `FILE`")
	f.StringVar(&o.json, "json", "", "write figures and fates to `FILE`; - is standard output")
	f.StringVar(&o.json, "stats-file", "", "another name of --json")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, runUsage)
			f.SetOutput(stdout)
			f.PrintDefaults()
			return nil, err
		}
		return nil, usage("%w; 'ghostd run --help' lists the flags", err)
	}
	if f.NArg() > 0 {
		return nil, usage("%q is no flag", f.Arg(0))
	}
	known := false
	for _, k := range kernels {
		known = known || k == o.kernel
	}
	if !known {
		return nil, usage("--kernel: there is no kernel %q; there is %v", o.kernel, kernels)
	}
	if o.workload == "" {
		return nil, usage("--workload is needed; 'ghostlab list' names all there is")
	}
	return o, nil
}

// setup resolves the flags.
func (o *options) setup(m *env.Machine) (env.Setup, *models.Model, policy.Policy, error) {
	fail := func(err error) (env.Setup, *models.Model, policy.Policy, error) {
		return env.Setup{}, nil, nil, usageError{err}
	}
	spec, err := policy.ParseSpec(o.scheduler)
	needsModel := o.model != "" || err == nil && spec.Policy == "learned"
	var model *models.Model
	if needsModel {
		if o.model != "" {
			model, err = models.LoadFile(o.model)
		} else {
			model, err = models.Default()
		}
		if err != nil {
			return fail(err)
		}
		if err := model.Check(); err != nil {
			return fail(err)
		}
	}
	s, err := env.ParseScheduler(o.scheduler, model, o.fallback)
	if err != nil {
		return fail(err)
	}
	in, err := env.BuildInstance(o.workload)
	if err != nil {
		return fail(err)
	}
	setup := env.Setup{Instance: in, Seed: o.seed, Bursts: o.bursts, Warmup: o.warmup, Inference: kernel.Time(o.inference),
		AgeBound: kernel.Time(o.ageBound)}
	if setup.Timing, err = agent.ParseTiming(o.timing); err != nil {
		return fail(err)
	}
	if setup.Events, err = sched.ParseEvents(o.events); err != nil {
		return fail(err)
	}
	p, err := s.Policy(m)
	if err != nil {
		return fail(err)
	}
	if err := s.Setup(&setup, p); err != nil {
		return fail(err)
	}
	if err := m.Reset(setup); err != nil {
		return fail(err)
	}
	return setup, model, p, nil
}

// Stats is what --json gets.
type Stats struct {
	Scheduler string                 `json:"scheduler"`
	Workload  string                 `json:"workload"`
	Kernel    string                 `json:"kernel"`
	Seed      uint64                 `json:"seed"`
	Timing    string                 `json:"timing"`
	Commit    string                 `json:"commit"`
	Model     string                 `json:"model,omitempty"`
	Notes     []string               `json:"notes,omitempty"`
	Warnings  []string               `json:"warnings,omitempty"`
	Running   bool                   `json:"running,omitempty"` // written while the run went on
	Stopped   bool                   `json:"stopped,omitempty"` // by a signal, before the end
	Result    env.Result             `json:"result"`
	Commits   map[string]uint64      `json:"transactions"`
	Turns     uint64                 `json:"turns"`
	Lost      uint64                 `json:"messages_lost"`
	Fallback  *policy.FallbackCounts `json:"fallback_causes,omitempty"`
}

func runAgent(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	var m env.Machine
	setup, model, p, err := o.setup(&m)
	if err != nil {
		return err
	}
	for _, path := range []string{o.record, o.timeline, o.json} {
		if path != "" && path != "-" {
			if err := compare.CheckDir(filepath.Dir(path)); err != nil {
				return usageError{err}
			}
		}
	}
	st := Stats{Scheduler: o.scheduler, Workload: o.workload, Kernel: o.kernel, Seed: o.seed, Timing: o.timing, Commit: compare.Commit(),
		Notes: setup.Instance.Notes}
	if model != nil {
		st.Model = model.Name()
		st.Warnings = model.Outside(map[string]float64{"cpus": float64(setup.Instance.CPUs), "load": setup.Instance.Params.Load,
			"scale": setup.Instance.Params.Scale})
	}
	for _, n := range append(st.Notes, st.Warnings...) {
		fmt.Fprintln(stderr, "note:", n)
	}
	var files sinks
	defer files.discard()
	if err := files.open(o, &m, &setup); err != nil {
		return err
	}
	if len(setup.Sinks) > 0 {
		if err := m.Reset(setup); err != nil {
			return err
		}
	}
	usr2 := make(chan os.Signal, 1)
	signal.Notify(usr2, syscall.SIGUSR2)
	defer signal.Stop(usr2)
	st.Result, err = m.RunWith(ctx, func() {
		select {
		case <-usr2:
			now := st
			now.Running, now.Result = true, m.Peek()
			fill(&now, &m, p)
			if err := o.write(&now, stdout); err != nil {
				fmt.Fprintln(stderr, "ghostd run: SIGUSR2:", err)
			}
		default:
		}
	})
	if errors.Is(err, context.Canceled) {
		st.Stopped, err = true, nil
	}
	fill(&st, &m, p)
	err = errors.Join(err, files.close(&m), o.write(&st, stdout))
	if o.json != "-" {
		report(stdout, &st)
	}
	return err
}

func fill(st *Stats, m *env.Machine, p policy.Policy) {
	st.Turns, st.Lost = m.Agent.Turns(), m.Agent.Lost()
	st.Commits = map[string]uint64{}
	for s, n := range m.Agent.Core().Refused() {
		if n > 0 {
			st.Commits[kernel.TxnState(s).String()] = n
		}
	}
	if l, ok := p.(*policy.Learned); ok {
		c := l.Counts()
		st.Fallback = &c
	}
}

func (o *options) write(st *Stats, stdout io.Writer) error {
	if o.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(st, "", " ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if o.json == "-" {
		_, err = stdout.Write(b)
		return err
	}
	return compare.WriteFile(o.json, b)
}

// sinks are the files that a run leaves, written beside their names and renamed at the end.
type sinks struct {
	record, timeline *os.File
	recordTo, lineTo string
	writer           *trace.Writer
	line             *trace.Timeline
}

func (s *sinks) open(o *options, m *env.Machine, setup *env.Setup) (err error) {
	temp := func(path string) (*os.File, error) {
		return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	}
	if o.record != "" {
		if s.record, err = temp(o.record); err != nil {
			return err
		}
		s.recordTo = o.record
		h := trace.Header{Scheduler: o.scheduler, Workload: o.workload, Profile: setup.Profile, Seed: o.seed, Machine: *m.Sim.Topology()}
		if l, ok := setup.Policy.(*policy.Learned); ok {
			h.Schema = l.Schema().Hash()
		}
		if s.writer, err = trace.NewWriter(s.record, &h); err != nil {
			return err
		}
		setup.Sinks = append(setup.Sinks, s.writer)
	}
	if o.timeline != "" {
		if s.timeline, err = temp(o.timeline); err != nil {
			return err
		}
		s.lineTo = o.timeline
		s.line = trace.NewTimeline(s.timeline, m.Sim.Topology(), m.Sim.TaskName, 0)
		setup.Sinks = append(setup.Sinks, s.line)
	}
	return nil
}

func (s *sinks) close(m *env.Machine) error {
	var errs []error
	if s.writer != nil {
		errs = append(errs, s.writer.Close(m.Agent.Core().Fates()), keep(s.record, s.recordTo))
		s.record = nil
	}
	if s.line != nil {
		errs = append(errs, s.line.Close(), keep(s.timeline, s.lineTo))
		s.timeline = nil
	}
	return errors.Join(errs...)
}

func keep(f *os.File, path string) error {
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (s *sinks) discard() {
	for _, f := range []*os.File{s.record, s.timeline} {
		if f != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}
}

func report(w io.Writer, st *Stats) {
	f, fates := &st.Result.Figures, &st.Result.Figures.Fates
	number := func(x float64) string {
		if math.IsNaN(x) {
			return "–"
		}
		return fmt.Sprintf("%.4g", x)
	}
	state := "ended at its horizon"
	switch {
	case st.Stopped:
		state = "was stopped"
	case len(st.Result.Deadlock) > 0:
		state = "is blocked for ever"
	case st.Result.Terminated:
		state = "has finished"
	}
	fmt.Fprintf(w, "%s on %s: the workload %s after %.3f s, %d events, trace %s\n", st.Scheduler, st.Workload, state,
		float64(st.Result.EndNs)/1e9, st.Result.Events, st.Result.TraceHash)
	for _, d := range st.Result.Deadlock {
		fmt.Fprintln(w, "  "+d)
	}
	fmt.Fprintf(w, "  waiting    mean %s µs, slowdown %s, wakeup p50 %s p99 %s max %s µs, longest %s µs\n", number(float64(f.WaitMean)),
		number(float64(f.SlowdownMean)), number(float64(f.WakeupP50)), number(float64(f.WakeupP99)), number(float64(f.WakeupMax)),
		number(float64(f.AgeMax)))
	fmt.Fprintf(w, "  work       %d bursts, %s per s, utilisation %s, %d switches, %d bursts censored\n", f.Bursts, number(float64(f.Throughput)),
		number(float64(f.Utilisation)), f.Switches, f.Censored)
	fmt.Fprintf(w, "  decisions  %d requested: %d applied (%d by the fallback), %d late, %d superseded, %d expired, %d dropped, %d undelivered, %d abandoned\n",
		fates.Requested, fates.Applied, fates.Fallback, fates.Late, fates.Superseded, fates.Expired, fates.Dropped, fates.Undelivered,
		fates.Abandoned)
	fmt.Fprintf(w, "  besides    %d trivial, %d aged, %d stale, %d unused answers; transactions %v\n", fates.Trivial, fates.Aged, fates.Stale,
		fates.Unused, st.Commits)
}
