package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ghostgym/ghostgym/agent/metrics"
)

// columns are the figures of the table for people. The best is the least, but for throughput.
var columns = []struct {
	figure, title string
	most          bool
}{
	{"wait_mean_us", "wait µs", false}, {"slowdown_mean", "slowdown", false}, {"wakeup_p50_us", "wakeup p50 µs", false},
	{"wakeup_p99_us", "wakeup p99 µs", false}, {"throughput_per_s", "bursts/s", true}, {"age_max_us", "longest wait µs", false},
	{"censored", "censored", false},
}

// pairColumns are those of the table of differences.
var pairColumns = []struct{ figure, title string }{
	{"wait_mean_us", "wait µs"}, {"slowdown_mean", "slowdown"}, {"wakeup_p99_us", "wakeup p99 µs"},
}

// Markdown is summary.md: a table per workload, and what the paired differences say.
func (r *Report) Markdown() string {
	var b strings.Builder
	m := &r.Manifest
	over := fmt.Sprintf("%d repetitions", m.Reps)
	if m.Finished < m.Runs {
		over = fmt.Sprintf("what was finished of %d repetitions", m.Reps)
	}
	fmt.Fprintf(&b, "# Comparison\n\nMean ± sample standard deviation over %s (seeds from %d). The best mean of a column is\n"+
		"bold; whether it is better by more than chance, the differences say: they are paired, on the same instances,\n"+
		"with 95 %% intervals; percentages compare geometric means. An interval that includes zero shows no difference,\n"+
		"which does not say that there is none. Each holds for itself: they are not adjusted for their number.\n", over, m.Seed)
	if m.Finished < m.Runs {
		fmt.Fprintf(&b, "\n**Stopped before the end: %d of %d runs were finished, and only those are in here.**\n", m.Finished, m.Runs)
	}
	for _, name := range ordered(r.Workloads, m.Workloads) {
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		switch specs := m.Specs[name]; {
		case len(specs) > 1:
			fmt.Fprintf(&b, "- Repetitions take turns: `%s`.\n", strings.Join(specs, "`, `"))
		case len(specs) == 1 && specs[0] != name:
			fmt.Fprintf(&b, "- It is `%s`.\n", specs[0])
		}
		r.Workloads[name].markdown(&b, m.Schedulers)
	}
	version, commit := cmp.Or(m.Version, "of unknown version"), cmp.Or(m.Commit, "unknown")
	fmt.Fprintf(&b, "\n## How\n\nghostgym %s, commit %s, %s, %d CPUs, %s; horizon %v bursts, warm-up %v, timing %s, events %s.\n", version, commit, m.Machine,
		m.CPUs, m.Go, m.Bursts, m.Warmup, m.Timing, m.Events)
	if m.Model != "" {
		fmt.Fprintf(&b, "Model %s, SHA-256 %s.\n", m.Model, m.ModelHash)
	}
	if m.Command != "" {
		fmt.Fprintf(&b, "\n    %s\n", m.Command)
	}
	return b.String()
}

// ordered is the keys of a map, in the order given where it has them all.
func ordered[V any](m map[string]V, order []string) []string {
	if len(order) == len(m) && !slices.ContainsFunc(order, func(k string) bool { _, ok := m[k]; return !ok }) {
		return order
	}
	return slices.Sorted(maps.Keys(m))
}

func (w *WorkloadReport) markdown(b *strings.Builder, order []string) {
	if w.HeldOut != "" {
		fmt.Fprintf(b, "- Held out from training in: %s.\n", w.HeldOut)
	}
	if w.Closed {
		b.WriteString("- A closed loop: between schedulers only service times and sleeps match.\n")
	}
	for _, n := range w.Notes {
		fmt.Fprintf(b, "- Note: %s.\n", strings.TrimSuffix(n, "."))
	}
	if b.String()[b.Len()-2:] != "\n\n" {
		b.WriteByte('\n')
	}
	b.WriteString("| scheduler |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	b.WriteString(" aged | fallback |\n|---|" + strings.Repeat("---:|", len(columns)+2) + "\n")
	best := make([]string, len(columns))
	for i, c := range columns {
		best[i] = w.best(c.figure, c.most)
	}
	for _, name := range ordered(w.Schedulers, order) {
		s := w.Schedulers[name]
		fmt.Fprintf(b, "| %s |", name)
		for i, c := range columns {
			fmt.Fprintf(b, " %s |", s.cell(c.figure, best[i]))
		}
		fmt.Fprintf(b, " %d | %d |\n", s.Fates.Aged, s.Fates.Fallback)
	}
	if len(w.Paired) == 0 {
		return
	}
	b.WriteString("\n| scheduler | against |")
	for _, c := range pairColumns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(pairColumns)) + "\n")
	type key struct{ a, b string }
	pairs := map[key]map[string]*Pair{}
	var keys []key
	for i := range w.Paired {
		p := &w.Paired[i]
		k := key{p.A, p.B}
		if pairs[k] == nil {
			pairs[k] = map[string]*Pair{}
			keys = append(keys, k)
		}
		pairs[k][p.Metric] = p
	}
	for _, k := range keys {
		fmt.Fprintf(b, "| %s | %s |", k.a, k.b)
		for _, c := range pairColumns {
			fmt.Fprintf(b, " %s |", pairs[k][c.figure].verdict())
		}
		b.WriteByte('\n')
	}
}

// figure is one of the report, by its name.
func (s *SchedulerReport) figure(name string) *Summary {
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
	return figures[i].at(s)
}

// best is the best mean of a figure as it is printed: means that look the same share it. There is none where all look the same.
func (w *WorkloadReport) best(name string, most bool) string {
	best, differ, text := math.Inf(1), false, ""
	for _, s := range w.Schedulers {
		x := s.figure(name)
		if x.N == 0 {
			continue
		}
		differ = differ || text != "" && short(float64(x.Mean)) != text
		text = short(float64(x.Mean))
		if v := float64(x.Mean); most {
			best = min(best, -v)
		} else {
			best = min(best, v)
		}
	}
	switch {
	case !differ:
		return ""
	case most:
		best = -best
	}
	return short(best)
}

func (s *SchedulerReport) cell(name, best string) string {
	x := s.figure(name)
	if x.N == 0 {
		return "–"
	}
	text := short(float64(x.Mean))
	if text == best {
		text = "**" + text + "**"
	}
	if !math.IsNaN(float64(x.SD)) {
		text += " ± " + short(float64(x.SD))
	}
	return text
}

// verdict words a paired difference: none is shown where its interval includes zero.
func (p *Pair) verdict() string {
	if p == nil || p.N == 0 {
		return "–"
	}
	lo, hi := float64(p.Lo), float64(p.Hi)
	if lo <= 0 && hi >= 0 {
		return fmt.Sprintf("no difference shown (%s to %s)", signed(lo), signed(hi))
	}
	s := within(p.Diff, p.Lo, p.Hi, "")
	if !math.IsNaN(float64(p.Percent)) {
		s += ", " + within(p.Percent, p.PercentLo, p.PercentHi, " %")
	}
	if math.IsNaN(lo) {
		s += "; no interval"
	}
	return s
}

// within writes a figure with its interval, if it has one.
func within(mean, lo, hi metrics.Number, unit string) string {
	s := signed(float64(mean)) + unit
	if !math.IsNaN(float64(lo)) {
		s += fmt.Sprintf(" (%s to %s)", signed(float64(lo)), signed(float64(hi)))
	}
	return s
}

// short writes about three significant digits, and no exponent where it can be avoided.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e9 || a > 0 && a < 1e-3:
		return strconv.FormatFloat(x, 'e', 1, 64)
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a == 0:
		return "0"
	case a < 0.1:
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

func signed(x float64) string {
	if x > 0 {
		return "+" + short(x)
	}
	return strings.Replace(short(x), "-", "−", 1)
}
