package compare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/env/workload"
)

// notes are what a reader of a workload's figures must know of the runs behind them.
func (c *Comparison) notes(w *Workload, runs []*Run, by map[string]results) []string {
	all := blocked(runs)
	all = append(all, c.repeated(w, by)...)
	all = append(all, c.early(w, runs)...)
	return append(all, few(runs)...)
}

// bounds says so where slowdowns of an instance are bounded differently, because the machines of schedulers differ.
func (c *Comparison) bounds(in *workload.Instance) []string {
	var names []string
	least := map[kernel.Time]bool{}
	for _, s := range c.schedulers {
		p, err := s.Profile(in)
		if err != nil {
			return nil
		}
		bound := sched.MinSlowdownBurst(p.Switch)
		least[bound] = true
		if name := fmt.Sprintf("%s: %v", p.Name, time.Duration(bound)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(least) < 2 {
		return nil
	}
	return []string{"slowdown is relative to at least 5 switch costs, which differ between these schedulers' machines (" +
		strings.Join(names, ", ") + "): compare waits"}
}

// blocked names the first run of each scheduler that blocks for ever, and who waits for whom.
func blocked(runs []*Run) (notes []string) {
	met := map[string]bool{}
	for _, run := range runs {
		if why := run.Result.Deadlock; len(why) > 0 && !met[run.Scheduler] {
			met[run.Scheduler] = true
			notes = append(notes, fmt.Sprintf("under %s, seed %d, it blocks for ever: %s", run.Scheduler, run.Seed, strings.Join(why, "; ")))
		}
	}
	return notes
}

// repeated names the schedulers under which nothing is random.
func (c *Comparison) repeated(w *Workload, by map[string]results) []string {
	names := slices.DeleteFunc(slices.Clone(c.plan.Schedulers), func(s string) bool { return !by[s].deterministic(len(w.Specs)) })
	under, what := "", "the repetitions are one run, no interval"
	if len(names) == 0 {
		return nil
	}
	if len(names) < len(c.plan.Schedulers) {
		under, what = " under "+strings.Join(names, ", "), "the repetitions are one run, no interval between these"
	}
	if len(w.Specs) > 1 {
		what = "the repetitions of a spec are one run, and count once"
	}
	return []string{"deterministic" + under + ": " + what}
}

// early counts the runs that ended so soon that the warm-up, a share of the horizon, took all of them or most.
func (c *Comparison) early(w *Workload, runs []*Run) (notes []string) {
	within, soon := 0, 0
	for _, run := range runs {
		r := &run.Result
		switch end, warm := float64(r.EndNs), c.plan.Warmup*float64(r.HorizonNs); {
		case !r.Terminated:
		case end <= warm:
			within++
		case end < 2*warm:
			soon++
		}
	}
	share := fmt.Sprintf("%.3g %% of the horizon", 100*c.plan.Warmup)
	if len(w.Specs) == 1 && len(runs) > 0 {
		share += " of " + time.Duration(runs[0].Result.HorizonNs).String()
	}
	if within > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d runs ended within the warm-up (%s): no burst that ended is in their figures; use --warmup 0",
			within, len(runs), share))
	}
	if soon > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d runs ended before twice the warm-up (%s): most of each is not in its figures", soon,
			len(runs), share))
	}
	return notes
}

// few names the percentiles that stand on too few values.
func few(runs []*Run) []string {
	var met []string
	for _, run := range runs {
		met = append(met, run.Result.Figures.Few...)
	}
	names := slices.DeleteFunc(figureNames(), func(name string) bool { return !slices.Contains(met, name) })
	if len(names) == 0 {
		return nil
	}
	return []string{"fewer than ten values lie beyond " + strings.Join(names, ", ") + " in some runs"}
}
