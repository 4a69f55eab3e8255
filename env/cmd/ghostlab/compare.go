package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/compare"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

var compareCommand = command{
	name: "compare", line: "run schedulers on workloads and compare them pair by pair",
	usage: `
Usage: ghostlab compare --workload W[,W…] --schedulers S[,S…] [--model FILE] [flags]

Runs every scheduler on every workload, the same instances for each, repetitions interleaved at random, and
writes summary.json, summary.md and results.csv into --out. Differences are paired, with 95 % intervals.

A workload is a kind with parameters ("bimodal:load=0.8:cpus=6:scale=2") or the path of an rt-app file. A
scheduler is policy[+wp][@profile] ("gittins+wp", "cfs@linux"); "learned" asks the model, by default the one
built in. 'ghostlab list' names all there is. Ctrl-C keeps the repetitions that are finished. Files of an
earlier comparison in --out are replaced.

Examples:
  ghostlab compare --workload bimodal,rocksdb --schedulers rr,las,gittins --reps 20 --out out/heuristics
  ghostlab compare --workload frame --schedulers learned+wp,cfs+wp --model model.onnx --reps 20 --out out/frame
`,
	run: runCompare,
}

func runCompare(c *call) error {
	var p compare.Plan
	var workloads, schedulers, model, out, events, timing, heldOut string
	var quiet, lenient bool
	f := c.flags
	f.StringVar(&workloads, "workload", "", "workloads to run: `W[,W…]`")
	f.StringVar(&schedulers, "schedulers", "", "schedulers to compare: `S[,S…]`; the learned ones, or else the first, are set against all others")
	f.StringVar(&model, "model", "", "ONNX `FILE` that answers for learned; by default the one built in")
	f.StringVar(&p.Fallback, "fallback", "", "heuristic `NAME` that answers where the model cannot; by default las for keys, rr for places")
	f.IntVar(&p.Reps, "reps", 20, "`N` repetitions, each with a seed of its own")
	f.Uint64Var(&p.Seed, "seed", 0, "seed `S` of the first repetition; each later one has the next")
	f.StringVar(&out, "out", "", "`FOLDER` for summary.json, summary.md and results.csv; those that are there are replaced")
	f.Float64Var(&p.Bursts, "bursts", 2000, "horizon of `N` mean interarrivals, where the workload has no duration of its own")
	f.Float64Var(&p.Warmup, "warmup", 0.25, "share `X` of the horizon left out of means and percentiles")
	f.StringVar(&events, "events", "default", "which enqueues are asked about: `WHICH` is default, fork or all")
	f.StringVar(&timing, "timing", "sync", "when an answer takes effect: `WHEN` is sync, async[+DELAY] or hold=BOUND[+DELAY]")
	f.StringVar(&heldOut, "held-out", "", "what workloads differ in from training, for the report: `W=WHAT[,…]`, WHAT one of seed, parameters, kind")
	f.IntVar(&p.Workers, "workers", 0, "`N` threads; 0 is one per CPU. The result does not depend on it")
	f.BoolVar(&quiet, "quiet", false, "do not show progress")
	f.BoolVar(&lenient, "lenient", false, "repair rt-app files where that is possible, and list the repairs")
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) > 0 {
		return cli.Usage("%q is no flag; workloads go into --workload, schedulers into --schedulers", c.args[0])
	}
	if workloads == "" || schedulers == "" {
		return cli.Usage("--workload and --schedulers are needed; 'ghostlab list' names all there is")
	}
	if out == "" && c.json == "" {
		return cli.Usage("--out FOLDER or --json FILE is needed: where is the result to go?")
	}
	if !(p.Bursts > 0) {
		return cli.Usage("--bursts: %v is no horizon", p.Bursts)
	}
	held := map[string]string{}
	for _, pair := range split(heldOut) {
		i := strings.LastIndex(pair, "=") // parameters of the workload have an = too
		if i < 0 {
			return cli.Usage("--held-out: %q is not W=WHAT, as in bimodal=seed", pair)
		}
		held[pair[:i]] = pair[i+1:]
	}
	for _, w := range split(workloads) {
		spec := w
		if lenient && workload.IsFile(strings.SplitN(w, ":", 2)[0]) {
			spec += ":lenient=1"
		}
		p.Workloads = append(p.Workloads, compare.Workload{Name: w, Specs: []string{spec}, HeldOut: held[w]})
		delete(held, w)
	}
	for name := range held {
		return cli.Usage("--held-out: %q is none of the workloads", name)
	}
	p.Schedulers = split(schedulers)
	var err error
	if p.Events, err = sched.ParseEvents(events); err != nil {
		return cli.AsUsage(err)
	}
	if p.Timing, err = agent.ParseTiming(timing); err != nil {
		return cli.AsUsage(err)
	}
	asked := asksModel(p.Schedulers)
	switch {
	case model != "":
		p.Model, err = models.LoadFile(model)
	case asked:
		p.Model, err = models.Default()
	}
	if err != nil {
		return cli.AsUsage(err)
	}
	if !asked {
		p.Model = nil // the manifest names what has answered
		for flag, value := range map[string]string{"model": model, "fallback": p.Fallback} {
			if value != "" {
				fmt.Fprintf(c.stderr, "note: --%s is not used by %s\n", flag, schedulers)
			}
		}
	}
	if !quiet {
		p.Progress = progress(c)
	}
	p.Command, p.Version = "ghostlab compare "+cli.Quote(c.typed), version
	comparison, err := compare.Prepare(p)
	if err != nil {
		return cli.AsUsage(err)
	}
	if err := checkFiles(out, c.json, model, p.Workloads); err != nil {
		return err
	}
	if out != "" {
		if err := compare.CheckNewDir(out); err != nil {
			return cli.AsUsage(err)
		}
	}
	if err := cli.CheckPut("json", c.json); err != nil {
		return err
	}
	if p.Model != nil {
		takes, err := p.Model.Time()
		if err != nil {
			return err
		}
		if note := cli.Slow(takes, time.Duration(p.Timing.Delay)); note != "" {
			fmt.Fprintf(c.stderr, "note: %s; 'ghostd run --inference' shows what that costs\n", note)
		}
	}
	ctx, stop := cli.Signals(c.ctx)
	defer stop()
	report, err := comparison.Run(ctx)
	switch stopped := errors.Is(err, compare.ErrStopped); {
	case stopped && report.Manifest.Finished == 0:
		return fmt.Errorf("%w: no run was finished, and nothing is written", err)
	case stopped:
		err = fmt.Errorf("%w; what was finished is in the report", err)
	case err != nil:
		return err
	}
	if out != "" {
		if err := report.Save(out); err != nil {
			return err
		}
	}
	if e := c.put(report); e != nil {
		return e
	}
	fmt.Fprint(c.text(), report.Markdown())
	return err
}

// asksModel reports whether one of the schedulers is learned.
func asksModel(schedulers []string) bool {
	return slices.ContainsFunc(schedulers, func(name string) bool {
		spec, err := policy.ParseSpec(name) // what is wrong with it, Prepare says
		if err != nil {
			return false
		}
		entry, err := policy.Find(spec.Policy)
		return err == nil && entry.NeedsModel
	})
}

// checkFiles refuses results that would be written over what the comparison reads, or over one another.
func checkFiles(out, json, model string, workloads []compare.Workload) error {
	inputs, outputs := []cli.Path{{Name: "--model", Path: model}}, []cli.Path{{Name: "--json", Path: json}}
	for _, w := range workloads {
		if path, _, _ := strings.Cut(w.Name, ":"); workload.IsFile(path) {
			inputs = append(inputs, cli.Path{Name: "--workload", Path: path})
		}
	}
	if out != "" {
		for _, path := range compare.Files(out) {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				return cli.Usage("--out: %s is a folder", path)
			}
			outputs = append(outputs, cli.Path{Name: "--out", Path: path})
		}
	}
	return cli.CheckApart(inputs, outputs)
}

// split reads a comma-separated list.
func split(s string) []string {
	var all []string
	for _, x := range strings.Split(s, ",") {
		if x = strings.TrimSpace(x); x != "" {
			all = append(all, x)
		}
	}
	return all
}

// progress prints a line now and then, with the time left.
func progress(c *call) func(done, total int) {
	start := time.Now()
	last := start
	return func(done, total int) {
		if now := time.Now(); now.Sub(last) > 2*time.Second && done < total {
			last = now
			left := time.Duration(float64(now.Sub(start)) / float64(done) * float64(total-done))
			fmt.Fprintf(c.stderr, "  %d of %d runs, %s left\n", done, total, left.Round(time.Second))
		}
	}
}
