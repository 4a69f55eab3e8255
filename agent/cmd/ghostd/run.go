package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/compare"
	"github.com/ghostgym/ghostgym/models"
)

const runPage = `
Usage: ghostd run --workload W [--scheduler P[+wp][@profile]] [--model FILE] [flags]

Runs the agent on a kernel until the workload ends, and prints what became of tasks and decisions. The
scheduler is "learned" unless said otherwise: it asks the model, by default the one built in, and the
fallback where the model cannot answer. SIGINT and SIGTERM stop cleanly, with every file complete; SIGUSR2
writes --json meanwhile, or prints the table if there is none.

A workload is a kind with parameters ("bimodal:load=0.8:cpus=6") or the path of an rt-app file; 'ghostlab
list' names all workloads, schedulers and profiles.

Examples:
  ghostd run --workload bimodal:load=0.8
  ghostd run --workload frame --scheduler learned+wp --model model.onnx --timeline frame.json
  ghostd run --workload app.json --scheduler cfs@linux --json stats.json
  ghostd run --workload bimodal --timing async+135ms          # what a slow policy is worth
`

// kernels that there are. More come with backends of their own.
var kernels = []string{"sim"}

// options are the flags.
type options struct {
	kernel, model, scheduler, timing, events, fallback, workload string
	record, timeline, json                                       string
	seed                                                         uint64
	bursts, warmup                                               float64
	duration, inference, ageBound                                time.Duration
}

func parse(args []string, stdout io.Writer) (*options, error) {
	o := &options{}
	f := cli.NewFlags("ghostd run")
	f.StringVar(&o.kernel, "kernel", "sim", "kernel `K` to schedule: "+strings.Join(kernels, ", "))
	f.StringVar(&o.model, "model", "", "ONNX `FILE` that answers for learned; by default the one built in")
	f.StringVar(&o.scheduler, "scheduler", "learned", "`P[+wp][@profile]`: who decides, whether a waking task may preempt, costs of the machine")
	f.StringVar(&o.timing, "timing", "sync", "when an answer takes effect: `WHEN` is sync, async[+DELAY] or hold=BOUND[+DELAY]")
	f.StringVar(&o.events, "events", "default", "which enqueues are asked about: `WHICH` is default, fork or all")
	f.StringVar(&o.fallback, "fallback", "", "heuristic `NAME` that answers where the model cannot; by default las for keys, rr for places")
	f.StringVar(&o.workload, "workload", "", "`W`: kind:key=value:…, or the path of an rt-app file")
	f.Uint64Var(&o.seed, "seed", 0, "seed `S` of the workload")
	f.Float64Var(&o.bursts, "bursts", env.DefaultHorizonBursts, "horizon of `N` mean interarrivals, where the workload has no duration of its own")
	f.DurationVar(&o.duration, "duration", 0, "horizon `D` as a time, as in 2s, in place of --bursts and of the workload's own")
	f.Float64Var(&o.warmup, "warmup", 0, "share `X` of the horizon left out of means and percentiles")
	f.DurationVar(&o.inference, "inference", -1, "what a decision costs on the machine: `D` as in 3us; by default the profile's")
	f.DurationVar(&o.ageBound, "age-bound", time.Second, "a task that waits longer than `D` goes first, whatever the policy says")
	f.StringVar(&o.record, "record", "", "write the trace, turn by turn, to `FILE`; 'ghostlab infer --rows' reads it")
	f.StringVar(&o.timeline, "timeline", "", fmt.Sprintf("write a timeline for ui.perfetto.dev to `FILE`: the first %d events of the run", trace.TimelineEvents))
	f.StringVar(&o.json, "json", "", "write figures and fates to `FILE`; - is standard output")
	rest, err := cli.Parse(f, args)
	if errors.Is(err, flag.ErrHelp) {
		cli.Help(stdout, runPage, f)
	}
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	switch {
	case len(rest) > 0:
		return nil, cli.Usage("%q is no flag", rest[0])
	case !slices.Contains(kernels, o.kernel):
		return nil, fmt.Errorf("--kernel: %w", cli.Unknown("kernel", o.kernel, kernels))
	case o.workload == "":
		return nil, cli.Usage("--workload is needed; 'ghostlab list' names all there is")
	case given["duration"] && given["bursts"]:
		return nil, cli.Usage("--duration and --bursts: give one of them")
	case given["duration"] && o.duration <= 0:
		return nil, cli.Usage("--duration: %v is no time to run", o.duration)
	case o.ageBound <= 0:
		return nil, cli.Usage("--age-bound: %v is none", o.ageBound)
	case given["bursts"] && !(o.bursts > 0):
		return nil, cli.Usage("--bursts: %v is no horizon", o.bursts)
	case given["inference"] && o.inference < 0:
		return nil, cli.Usage("--inference: %v is no cost; leave it out for the profile's", o.inference)
	}
	return o, o.checkFiles()
}

// checkFiles refuses files that would be written over one another.
func (o *options) checkFiles() error {
	files := []struct{ flag, path string }{{"record", o.record}, {"timeline", o.timeline}, {"json", o.json}}
	for i, f := range files {
		for _, g := range files[:i] {
			if f.path != "" && g.path != "" && compare.SameFile(f.path, g.path) {
				return cli.Usage("--%s and --%s: %s cannot be both", g.flag, f.flag, f.path)
			}
		}
	}
	return nil
}

// session is one run of the agent.
type session struct {
	o       *options
	machine env.Machine
	setup   env.Setup
	model   *models.Model // nil: none is asked
	stats   Stats
	stdout  io.Writer
	stderr  io.Writer
}

// prepare resolves the flags and sets the machine up. Its errors are about what was typed.
func (s *session) prepare() error {
	o := s.o
	spec, err := policy.ParseSpec(o.scheduler)
	switch {
	case o.model != "":
		s.model, err = models.LoadFile(o.model)
	case err == nil && spec.Policy == "learned":
		s.model, err = models.Default()
	default:
		err = nil // the oracle is no policy; what is wrong, ParseScheduler says
	}
	if err != nil {
		return err
	}
	if s.model != nil && s.model.Check() != nil {
		return s.model.Check()
	}
	scheduler, err := env.ParseScheduler(o.scheduler, s.model, o.fallback)
	if err != nil {
		return err
	}
	in, err := env.BuildInstance(o.workload)
	if err != nil {
		return err
	}
	if o.duration > 0 {
		in.Duration = kernel.Time(o.duration)
	}
	s.setup = env.Setup{Instance: in, Seed: o.seed, Bursts: o.bursts, Warmup: o.warmup, Inference: kernel.Time(o.inference),
		AgeBound: kernel.Time(o.ageBound)}
	if s.setup.Timing, err = agent.ParseTiming(o.timing); err != nil {
		return err
	}
	if s.setup.Events, err = sched.ParseEvents(o.events); err != nil {
		return err
	}
	p, err := scheduler.Policy(&s.machine)
	if err != nil {
		return err
	}
	if err := scheduler.Setup(&s.setup, p); err != nil {
		return err
	}
	if err := s.machine.Reset(s.setup); err != nil {
		return err
	}
	s.stats = newStats(s, scheduler.Warnings(in))
	return nil
}

func runAgent(ctx context.Context, args []string, usr2 <-chan os.Signal, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	s := &session{o: o, stdout: stdout, stderr: stderr}
	if err := s.prepare(); err != nil {
		return cli.AsUsage(err)
	}
	for flag, path := range map[string]string{"record": o.record, "timeline": o.timeline, "json": o.json} {
		if err := cli.CheckPut(flag, path); err != nil {
			return err
		}
	}
	for _, n := range append(s.stats.Notes, s.stats.Warnings...) {
		fmt.Fprintln(stderr, "note:", n)
	}
	var files outputs
	defer files.discard()
	if err := files.open(s); err != nil {
		return err
	}
	if err := s.machine.Reset(s.setup); err != nil { // once more, with the files among its sinks
		return err
	}
	s.stats.Result, err = s.machine.RunWith(ctx, func() {
		select {
		case <-usr2:
			s.meanwhile()
		default:
		}
	})
	if errors.Is(err, context.Canceled) {
		s.stats.Stopped, err = true, nil
	}
	if err != nil {
		return err
	}
	s.fill(&s.stats)
	if err := files.keep(&s.machine); err != nil {
		return err
	}
	if err := s.write(&s.stats); err != nil {
		return err
	}
	if o.json != "-" {
		s.stats.table(stdout)
	}
	return nil
}

// meanwhile shows how far a run is, without ending it when that fails.
func (s *session) meanwhile() {
	now := s.stats
	now.Running, now.Result = true, s.machine.Peek()
	s.fill(&now)
	if s.o.json == "" {
		now.table(s.stderr)
	} else if err := s.write(&now); err != nil {
		fmt.Fprintln(s.stderr, "ghostd run: SIGUSR2:", err)
	}
}
