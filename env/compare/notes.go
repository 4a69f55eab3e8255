package compare

import (
	"fmt"
	"slices"
	"strings"
)

// notes are what a reader of a workload's figures must know of the runs behind them.
func (c *Comparison) notes(w *Workload, runs []*Run, by map[string]results) []string {
	all := blocked(runs)
	all = append(all, c.repeated(w, by)...)
	return append(all, few(runs)...)
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

// few names the percentiles that stand on too few values.
func few(runs []*Run) []string {
	var met []string
	for _, run := range runs {
		met = append(met, run.Result.Figures.Few...)
	}
	names := slices.DeleteFunc(Figures(), func(name string) bool { return !slices.Contains(met, name) })
	if len(names) == 0 {
		return nil
	}
	return []string{"fewer than ten values lie beyond " + strings.Join(names, ", ") + " in some runs"}
}
