package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/ghostgym/ghostgym/agent/metrics"
)

// JSON is summary.json.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	return append(b, '\n'), err
}

// CSV is results.csv: one row per run.
func (r *Report) CSV() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := []string{"workload", "spec", "scheduler", "rep", "seed"}
	for _, m := range reported {
		head = append(head, m.Name)
	}
	head = append(head, "bursts", "requested", "applied", "fallback", "trivial", "aged", "trace_hash")
	rows := [][]string{head}
	for i := range r.Runs {
		run := &r.Runs[i]
		row := []string{run.Workload, run.Spec, run.Scheduler, strconv.Itoa(run.Rep), strconv.FormatUint(run.Seed, 10)}
		for _, m := range reported {
			v := m.get(&run.Result)
			if math.IsNaN(v) {
				row = append(row, "")
			} else {
				row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
			}
		}
		f := &run.Result.Figures
		for _, n := range []uint64{f.Bursts, f.Fates.Requested, f.Fates.Applied, f.Fates.Fallback, f.Fates.Trivial, f.Fates.Aged} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		rows = append(rows, append(row, run.Result.TraceHash))
	}
	err := w.WriteAll(rows)
	return b.Bytes(), err
}

// shown are the figures of the table for people.
var shown = []struct{ metric, title string }{
	{"wait_mean_us", "wait µs"}, {"slowdown_mean", "slowdown"}, {"wakeup_p50_us", "wakeup p50 µs"}, {"wakeup_p99_us", "wakeup p99 µs"},
	{"throughput_per_s", "bursts/s"}, {"age_max_us", "longest wait µs"},
}

// Markdown is summary.md: a table per workload, and what the paired differences say.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Comparison\n\nMean ± sample standard deviation over %d repetitions (seeds from %d). ", r.Manifest.Reps, r.Manifest.Seed)
	b.WriteString("\"Against\" rows are paired differences on the same instances with 95 % intervals.\n")
	for _, name := range r.names() {
		w := r.Workloads[name]
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		if w.HeldOut != "" {
			fmt.Fprintf(&b, "Held out from training in: %s.\n", w.HeldOut)
		}
		if w.Closed {
			b.WriteString("A closed loop: between schedulers only service times and sleeps match.\n")
		}
		for _, n := range w.Notes {
			fmt.Fprintf(&b, "Note: %s.\n", strings.TrimSuffix(n, "."))
		}
		b.WriteString("\n| scheduler |")
		for _, s := range shown {
			fmt.Fprintf(&b, " %s |", s.title)
		}
		b.WriteString(" censored | aged | fallback |\n|---|" + strings.Repeat("---|", len(shown)+3) + "\n")
		for _, s := range w.names() {
			fmt.Fprintf(&b, "| %s |", s)
			for _, c := range shown {
				fmt.Fprintf(&b, " %s |", cell(w.summary(s, c.metric)))
			}
			f := w.fates(s)
			fmt.Fprintf(&b, " %s | %v | %v |\n", cell(w.summary(s, "censored")), f["aged"], f["fallback"])
		}
		w.pairs(&b)
	}
	m := &r.Manifest
	fmt.Fprintf(&b, "\n## How\n\nCommit %s, %s, %d CPUs, %s; horizon %v bursts, warm-up %v, timing %s, events %s.\n", orUnknown(m.Commit), m.Machine,
		m.CPUs, m.Go, m.Bursts, m.Warmup, m.Timing, m.Events)
	if m.Command != "" {
		fmt.Fprintf(&b, "\n    %s\n", m.Command)
	}
	return b.String()
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (r *Report) names() []string {
	if len(r.order) == len(r.Workloads) {
		return r.order
	}
	return sortedKeys(r.Workloads)
}

func (w *WorkloadReport) names() []string {
	if len(w.order) == len(w.Schedulers) {
		return w.order
	}
	return sortedKeys(w.Schedulers)
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// summary reads a figure also from a report that was decoded from JSON.
func (w *WorkloadReport) summary(scheduler, metric string) Summary {
	switch v := w.Schedulers[scheduler][metric].(type) {
	case Summary:
		return v
	case map[string]any:
		s := Summary{Mean: metrics.Number(math.NaN()), SD: metrics.Number(math.NaN())}
		if x, ok := v["mean"].(float64); ok {
			s.Mean = metrics.Number(x)
		}
		if x, ok := v["sd"].(float64); ok {
			s.SD = metrics.Number(x)
		}
		if x, ok := v["n"].(float64); ok {
			s.N = int(x)
		}
		return s
	}
	return Summary{}
}

func (w *WorkloadReport) fates(scheduler string) map[string]any {
	b, err := json.Marshal(w.Schedulers[scheduler]["fates"])
	f := map[string]any{}
	if err == nil {
		_ = json.Unmarshal(b, &f) // what Marshal wrote
	}
	return f
}

func cell(s Summary) string {
	if math.IsNaN(float64(s.Mean)) || s.N == 0 {
		return "–"
	}
	if math.IsNaN(float64(s.SD)) {
		return short(float64(s.Mean))
	}
	return short(float64(s.Mean)) + " ± " + short(float64(s.SD))
}

// short writes three significant digits, and no exponent where it can be avoided.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e9 || a > 0 && a < 1e-3:
		return strconv.FormatFloat(x, 'e', 1, 64)
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// pairs words the paired differences of waiting and slowdown.
func (w *WorkloadReport) pairs(b *strings.Builder) {
	if len(w.Paired) == 0 {
		return
	}
	b.WriteString("\n| | against | wait | slowdown |\n|---|---|---|---|\n")
	type key struct{ a, b string }
	said := map[key]bool{}
	for _, p := range w.Paired {
		k := key{p.A, p.B}
		if said[k] {
			continue
		}
		said[k] = true
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", p.A, p.B, w.verdict(p.A, p.B, "wait_mean_us"), w.verdict(p.A, p.B, "slowdown_mean"))
	}
}

func (w *WorkloadReport) verdict(a, b, metric string) string {
	for _, p := range w.Paired {
		if p.A != a || p.B != b || p.Metric != metric {
			continue
		}
		lo, hi := float64(p.Lo), float64(p.Hi)
		if math.IsNaN(lo) || math.IsNaN(hi) {
			return "too few repetitions"
		}
		if lo <= 0 && hi >= 0 {
			return fmt.Sprintf("no difference (%s to %s)", signed(lo), signed(hi))
		}
		s := fmt.Sprintf("%s (%s to %s)", signed(float64(p.Diff)), signed(lo), signed(hi))
		if x := float64(p.Percent); !math.IsNaN(x) {
			s += fmt.Sprintf(", %+.0f %%", x)
		}
		return s
	}
	return "–"
}

func signed(x float64) string {
	if x > 0 {
		return "+" + short(x)
	}
	return strings.Replace(short(x), "-", "−", 1)
}

// CheckDir makes a folder, and reports whether files can be written there, before any work is done for them.
func CheckDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".probe*")
	if err != nil {
		return fmt.Errorf("output folder %s: %w", dir, err)
	}
	return errClose(f, os.Remove(f.Name()))
}

func errClose(f *os.File, err error) error {
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// WriteWhole writes a file whole or not at all.
func WriteWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errClose(f, err); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Save writes summary.json, summary.md and results.csv into a folder.
func (r *Report) Save(dir string) error {
	j, err := r.JSON()
	if err != nil {
		return err
	}
	c, err := r.CSV()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{"summary.json", j}, {"summary.md", []byte(r.Markdown())}, {"results.csv", c}} {
		if err := WriteWhole(filepath.Join(dir, f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}

// Load reads a summary.json.
func Load(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: it is no summary of a comparison: %w", path, err)
	}
	return &r, nil
}
