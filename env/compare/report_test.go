package compare

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
	"github.com/ghostgym/ghostgym/models"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// figuresOf makes results whose mean waits and slowdowns are given.
func figuresOf(waits, slowdowns []float64) results {
	all := results{}
	for i := range waits {
		r := &env.Result{TraceHash: strconv.Itoa(i)}
		r.Figures.WaitMean, r.Figures.SlowdownMean = metrics.Number(waits[i]), metrics.Number(slowdowns[i])
		r.Figures.WakeupP99 = metrics.Number(math.NaN())
		all[i] = r
	}
	return all
}

func figureNamed(name string) *figure {
	return &figures[slices.IndexFunc(figures, func(f figure) bool { return f.name == name })]
}

func TestPairsByHand(t *testing.T) {
	a := figuresOf([]float64{10, 20, 40, 5}, []float64{2, 2, 2, 2})
	b := figuresOf([]float64{20, 40, 80, 10}, []float64{1, 2, 4, 2})
	p := pair("a", "b", figureNamed("wait_mean_us"), a, b, samples(1, a, b))
	if p.Diff != -18.75 || math.Abs(float64(p.Percent)+50) > 1e-9 || math.Abs(float64(p.PercentLo)+50) > 1e-6 || p.N != 4 {
		t.Errorf("a waits half as long each time: %+v", p)
	}
	p = pair("a", "b", figureNamed("slowdown_mean"), a, b, samples(1, a, b))
	if p.Diff != -0.25 || math.Abs(float64(p.Percent)) > 1e-9 || !(p.Lo < 0 && p.Hi > 0) {
		t.Errorf("geometric means are equal: %+v", p)
	}
	delete(b, 3)
	if p := pair("a", "b", figureNamed("wait_mean_us"), a, b, samples(1, a, b)); p.N != 3 || math.Abs(float64(p.Diff)+70.0/3) > 1e-9 {
		t.Errorf("a repetition that only one has counts for nothing: %+v", p)
	}
	b[0].Figures.WaitMean = 0
	if p := pair("a", "b", figureNamed("wait_mean_us"), a, b, samples(1, a, b)); p.N != 3 || !math.IsNaN(float64(p.Percent)) {
		t.Errorf("no ratio to nothing: %+v", p)
	}
	if p := pair("a", "b", figureNamed("wakeup_p99_us"), a, b, samples(1, a, b)); p.N != 0 || !math.IsNaN(float64(p.Diff)) {
		t.Errorf("a figure that does not exist: %+v", p)
	}
}

func TestVerdicts(t *testing.T) {
	nan := metrics.Number(math.NaN())
	for want, p := range map[string]*Pair{
		"–":                                    {N: 0, Diff: nan, Lo: nan, Hi: nan},
		"+3.00; no interval":                   {N: 1, Diff: 3, Lo: nan, Hi: nan, Percent: nan},
		"+3.00, +20.0 %; no interval":          {N: 1, Diff: 3, Lo: nan, Hi: nan, Percent: 20, PercentLo: nan, PercentHi: nan},
		"no difference shown (−0.50 to +2.00)": {N: 5, Diff: 0.75, Lo: -0.5, Hi: 2},
		"no difference shown (0 to +2.00)":     {N: 5, Diff: 1, Lo: 0, Hi: 2},
		"+1.50 (+1.00 to +2.00)":               {N: 5, Diff: 1.5, Lo: 1, Hi: 2, Percent: nan},
		"−150 (−200 to −100), −50.0 % (−60.0 to −40.0)": {N: 5, Diff: -150, Lo: -200, Hi: -100, Percent: -50, PercentLo: -60,
			PercentHi: -40},
	} {
		if got := p.verdict(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
	if got := (*Pair)(nil).verdict(); got != "–" {
		t.Error(got)
	}
}

// TestMarkdownOfAFixedReport: the same summary.json gives the same page.
func TestMarkdownOfAFixedReport(t *testing.T) {
	r, err := Load(filepath.Join("testdata", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "summary.md")
	if *update {
		if err := os.WriteFile(path, []byte(r.Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Markdown(); got != string(want) {
		t.Errorf("%s differs; run go test -update and read the difference\n%s", path, got)
	}
}

// TestJSONThereAndBack: a report read back says the same, in the same order.
func TestJSONThereAndBack(t *testing.T) {
	p := plan()
	p.Reps = 1 // no standard deviation, no interval: nulls
	r := execute(t, p)
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"sd": null`) || !strings.Contains(string(b), `"lo": null`) {
		t.Error("what does not exist is not null")
	}
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if again.Markdown() != r.Markdown() {
		t.Errorf("%s\n%s", r.Markdown(), again.Markdown())
	}
	if c, err := again.JSON(); err != nil || string(c) != string(b) {
		t.Errorf("%v\n%s", err, c)
	}
}

func TestLoadRefusesWhatIsNoSummary(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", "null", `{"workloads": {"w": null}}`, `{"workloads": {"w": {"schedulers": {"s": null}}}}`,
		`{"workloads": 3}`, `{"workloads": {"w": {"paired": [{"lo": "low"}]}}}`} {
		path := filepath.Join(t.TempDir(), "s.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzReport(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("testdata", "summary.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"workloads": {"w": {"schedulers": {"s": {}}, "paired": [{}]}}, "manifest": {"workloads": ["w", "w"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseReport("s.json", b); err == nil && r.Markdown() == "" {
			t.Error("nothing is said")
		}
	})
}

func model(t *testing.T, ranges string) *models.Model {
	t.Helper()
	s := feature.Priority
	m, err := models.Load(onnxtest.MLP(s.Width(), []int{4}, 1, "Relu", 2, map[string]string{
		feature.MetaHash: s.Hash(), feature.MetaSchema: s.Text(), feature.MetaAction: "key", feature.MetaRanges: ranges}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLearnedAgainstAllOthers: rows for each scheduler that a model answers for, and no others.
func TestLearnedAgainstAllOthers(t *testing.T) {
	p := Plan{Workloads: []Workload{{Name: "w", Specs: []string{"bimodal:cpus=12"}}}, Reps: 1, Bursts: 50,
		Schedulers: []string{"rr", "learned", "las", "learned+wp"}, Model: model(t, `{"cpus": [4, 8], "load": [0.5, 0.9]}`)}
	r := execute(t, p)
	got := map[[2]string]int{}
	for _, x := range r.Workloads["w"].Paired {
		got[[2]string{x.A, x.B}]++
	}
	want := map[[2]string]int{}
	for _, a := range []string{"learned", "learned+wp"} {
		for _, b := range p.Schedulers {
			if a != b {
				want[[2]string{a, b}] = len(figures)
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if r.Manifest.ModelHash != p.Model.Hash() || len(r.Manifest.ModelHash) != 64 {
		t.Errorf("%+v", r.Manifest)
	}
	outside := 0
	for _, n := range r.Workloads["w"].Notes {
		if strings.Contains(n, "cpus is 12") {
			outside++
		}
	}
	if outside != 1 {
		t.Errorf("the range is noted %d times: %v", outside, r.Workloads["w"].Notes)
	}
}

// TestWhatBlocksForEverIsSaid, and who waits for whom.
func TestWhatBlocksForEverIsSaid(t *testing.T) {
	path := filepath.Join("..", "workload", "rtapp", "testdata", "deadlock.json")
	r := execute(t, Plan{Workloads: []Workload{{Name: "w", Specs: []string{path}}}, Reps: 2, Bursts: 100, Schedulers: []string{"rr", "las"}})
	said := map[string]int{}
	for _, n := range r.Workloads["w"].Notes {
		for _, s := range []string{"rr", "las"} {
			if strings.Contains(n, "under "+s+", seed 0, it blocks for ever: ") {
				said[s]++
			}
		}
	}
	if said["rr"] != 1 || said["las"] != 1 {
		t.Errorf("%v", r.Workloads["w"].Notes)
	}
}

// TestOneClock: nothing in a report comes from a clock but the time it was written.
func TestOneClock(t *testing.T) {
	var texts [2]string
	for i := range texts {
		p := plan()
		p.Workers, p.CDF = 1+2*i, true
		r := execute(t, p)
		c, err := r.CSV()
		if err != nil {
			t.Fatal(err)
		}
		r.Manifest.Written = time.Time{}
		b, err := json.Marshal([]any{r, r.Runs, r.CDF})
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b) + string(c) + r.Markdown()
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}

// TestInterleaving: every run once, repetition after repetition, and within each in an order that is not that of the plan.
func TestInterleaving(t *testing.T) {
	c, err := Prepare(Plan{Workloads: []Workload{{Name: "a", Specs: []string{"bimodal"}}, {Name: "b", Specs: []string{"rocksdb"}}},
		Schedulers: []string{"rr", "las", "cfs", "sept"}, Reps: 30, Bursts: 100, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	order := interleave(c.runs, 5)
	if !slices.Equal(order, interleave(c.runs, 5)) || slices.Equal(order, interleave(c.runs, 6)) {
		t.Error("the order is not a function of the seed")
	}
	sorted := slices.Clone(order)
	slices.Sort(sorted)
	for i, x := range sorted {
		if i != x {
			t.Fatalf("run %d stands %v", i, sorted)
		}
	}
	first := map[string]int{}
	for i, x := range order {
		if c.runs[x].Rep != i/8 {
			t.Fatalf("place %d has repetition %d", i, c.runs[x].Rep)
		}
		if i%8 == 0 {
			first[c.runs[x].Scheduler]++
		}
	}
	for s, n := range first { // each is expected first 7.5 times of 30
		if len(first) < 4 || n > 16 {
			t.Errorf("%s comes first %d times of 30", s, n)
		}
	}
}

// TestSameInstances: in an open loop every scheduler meets the same arrivals, so that as many bursts end or are left over.
func TestSameInstances(t *testing.T) {
	r := execute(t, Plan{Workloads: []Workload{{Name: "w", Specs: []string{"rocksdb:load=0.9"}}}, Reps: 5, Bursts: 300,
		Schedulers: []string{"fifo", "las", "random", "oracle+wp"}})
	total := map[int]uint64{}
	for _, run := range r.Runs {
		n := run.Result.Figures.Bursts + run.Result.Figures.Censored
		if total[run.Rep] == 0 {
			total[run.Rep] = n
		}
		if n != total[run.Rep] || run.Seed != uint64(run.Rep) {
			t.Errorf("%s, repetition %d, seed %d: %d bursts arrived, elsewhere %d", run.Scheduler, run.Rep, run.Seed, n, total[run.Rep])
		}
	}
	if total[0] == total[1] && total[1] == total[2] {
		t.Errorf("repetitions are all alike: %v", total)
	}
}

func TestStoppedIsSaid(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := run(ctx, plan())
	if err != ErrStopped || r.Manifest.Finished != 0 || r.Manifest.Runs != 24 {
		t.Fatalf("%v, %+v", err, r)
	}
	if !strings.Contains(r.Markdown(), "0 of 24 runs were finished") {
		t.Error(r.Markdown())
	}
}

// TestTheBestIsBold: the least of most figures, the most of throughput, all that look the same, and none where all do.
func TestTheBestIsBold(t *testing.T) {
	nothing := Summary{Mean: metrics.Number(math.NaN()), SD: metrics.Number(math.NaN())}
	scheduler := func(wait, throughput float64) *SchedulerReport {
		sd := metrics.Number(math.NaN())
		return &SchedulerReport{WaitMean: Summary{metrics.Number(wait), sd, 1}, Throughput: Summary{metrics.Number(throughput), sd, 1},
			SlowdownMean: Summary{2, 1, 2}, WakeupP50: nothing}
	}
	w := &WorkloadReport{Schedulers: map[string]*SchedulerReport{"a": scheduler(3, 70), "b": scheduler(2.0001, 80), "c": scheduler(2, 90)}}
	for name, want := range map[string]string{
		"a": "3.00 2.00 ± 1.00 – 70.0", "b": "**2.00** 2.00 ± 1.00 – 80.0", "c": "**2.00** 2.00 ± 1.00 – **90.0**",
	} {
		s := w.Schedulers[name]
		got := strings.Join([]string{s.cell("wait_mean_us", w.best("wait_mean_us", false)), s.cell("slowdown_mean", w.best("slowdown_mean", false)),
			s.cell("wakeup_p50_us", w.best("wakeup_p50_us", false)), s.cell("throughput_per_s", w.best("throughput_per_s", true))}, " ")
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
