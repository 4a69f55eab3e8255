package main

import (
	"bytes"
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
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

const runPage = `
Usage: ghostd run --workload W [--scheduler P[+wp][@profile]] [--model FILE] [flags]

Runs the agent on a kernel until the workload ends, and prints what became of tasks and decisions. The
scheduler is "learned" unless said otherwise: it asks the model, by default the one built in, and the
fallback where the model cannot answer. The table says how long the model takes for a decision on this
machine, and how long that was simulated to take. A workload that blocks for ever is a result, too: exit
code 0, and the deadlock is in the table and in --json (result.deadlock).

SIGINT, SIGTERM and SIGHUP stop a run cleanly, with every file complete; a second signal ends the program.
SIGUSR2 writes --json meanwhile, or prints the table if there is none. Files appear when the run is over,
all of them; after a failure (exit code 1) none does. A report that standard output does not take is a
failure, but of the report alone. Folders are not made.

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
	cli.InputVar(f, &o.model, "model", "ONNX `FILE` that answers for learned; by default the one built in")
	f.StringVar(&o.scheduler, "scheduler", "learned", "`P[+wp][@profile]`: who decides, whether a waking task may preempt, costs of the machine")
	f.StringVar(&o.timing, "timing", "sync", "when an answer takes effect: `WHEN` is sync, at once; "+
		"async[+DELAY], when it comes, the task being at its default place meanwhile; or hold=BOUND[+DELAY], the task being kept back "+
		"meanwhile, for BOUND at most. An answer comes DELAY after the question, and what --inference says after that")
	f.StringVar(&o.events, "events", "default", "which enqueues are asked about: `WHICH` is default, fork or all")
	f.StringVar(&o.fallback, "fallback", "", "heuristic `NAME` that answers where the model cannot; by default las for keys, rr for places")
	f.StringVar(&o.workload, "workload", "", "`W`: kind:key=value:…, or the path of an rt-app file")
	f.Uint64Var(&o.seed, "seed", 0, "seed `S` of the workload (default 0)")
	f.Float64Var(&o.bursts, "bursts", env.DefaultHorizonBursts, "horizon of `N` mean interarrivals, where the workload has no duration of its own")
	f.DurationVar(&o.duration, "duration", 0, "horizon `D` as a time, as in 2s, in place of --bursts and of the workload's own")
	f.Float64Var(&o.warmup, "warmup", 0, "share `X` of the horizon left out of means and percentiles (default 0)")
	f.DurationVar(&o.inference, "inference", -1, "what a decision costs on the simulated machine: `D` as in 3us (default: the profile's, which is 0 in all that there are)")
	f.DurationVar(&o.ageBound, "age-bound", time.Second, "a task that waits longer than `D` is next in its queue, whatever the policy says; it does not preempt")
	cli.OutputVar(f, &o.record, "record", "write the trace, turn by turn, to `FILE`; 'ghostlab infer --rows' reads it")
	cli.OutputVar(f, &o.timeline, "timeline", fmt.Sprintf("write a timeline for ui.perfetto.dev to `FILE`: the first %d events of the run", trace.TimelineEvents))
	cli.OutputVar(f, &o.json, "json", "write figures and fates to `FILE`; - is standard output")
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
		return nil, cli.Usage("--age-bound: %v is no bound: want a time above 0, as in 1s", o.ageBound)
	case given["bursts"] && !(o.bursts > 0):
		return nil, cli.Usage("--bursts: %v is no horizon", o.bursts)
	case given["inference"] && o.inference < 0:
		return nil, cli.Usage("--inference: %v is no cost; leave it out for the profile's", o.inference)
	}
	return o, o.checkFiles()
}

// checkFiles refuses files that would be written over one another, or over what is read.
func (o *options) checkFiles() error {
	inputs := []cli.Path{{Name: "--model", Path: o.model}}
	if name, _, err := workload.Parse(o.workload); err == nil && workload.IsFile(name) {
		inputs = append(inputs, cli.Path{Name: "--workload", Path: name})
	}
	outputs := []cli.Path{{Name: "--record", Path: o.record}, {Name: "--timeline", Path: o.timeline}, {Name: "--json", Path: o.json}}
	for _, f := range outputs {
		if f.Path == "-" && f.Name != "--json" {
			return cli.Usage("%s: standard output is for the report; - goes with --json only", f.Name)
		}
	}
	return cli.CheckApart(inputs, outputs)
}

// session is one run of the agent.
type session struct {
	o       *options
	machine env.Machine
	setup   env.Setup
	model   *models.Model // nil: none is asked
	stats   Stats
	files   outputs
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
	s.stats, err = newStats(s, scheduler)
	return err
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
	defer s.files.discard()
	if err := s.files.create(s, true); err != nil { // while signals end the program: nobody may come to read
		return err
	}
	ctx, stop := cli.Signals(ctx)
	defer stop()
	if err := s.files.create(s, false); err != nil {
		return err
	}
	for _, n := range slices.Concat(s.stats.Notes, s.stats.Outside) {
		fmt.Fprintln(stderr, "note:", n)
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
	if err := s.files.keep(&s.machine, &s.stats); err != nil {
		return err
	}
	stop() // nor may anybody read the report
	if o.json == "-" {
		return s.stats.write(stdout)
	}
	s.stats.table(stdout)
	return nil
}

// meanwhile shows how far a run is, without ending it when that fails.
func (s *session) meanwhile() {
	now := s.stats
	now.Running, now.Result = true, s.machine.Peek()
	s.fill(&now)
	var err error
	switch {
	case s.o.json == "":
		now.table(s.stderr)
	case s.o.json == "-":
		err = now.write(s.stdout)
	case compare.InPlace(s.o.json):
		err = now.write(s.files.json)
	default:
		var b bytes.Buffer
		err = errors.Join(now.write(&b), compare.WriteFile(s.o.json, b.Bytes()))
	}
	if err != nil {
		fmt.Fprintln(s.stderr, "ghostd run: SIGUSR2:", err)
	}
}
