package compare

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/env"
)

func plan() Plan {
	return Plan{
		Workloads: []Workload{
			{Name: "short and long", Specs: []string{"bimodal:load=0.8:cpus=4", "bimodal:load=0.6:cpus=2"}, HeldOut: "seed"},
			{Name: "frame", Specs: []string{"frame"}},
		},
		Schedulers: []string{"gittins", "rr", "random"}, Reps: 4, Bursts: 150, Warmup: 0.25,
	}
}

// run prepares a plan and runs it.
func run(ctx context.Context, p Plan) (*Report, error) {
	c, err := Prepare(p)
	if err != nil {
		return nil, err
	}
	return c.Run(ctx)
}

func execute(t *testing.T, p Plan) *Report {
	t.Helper()
	r, err := run(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func jsonOf(t *testing.T, r *Report) string {
	t.Helper()
	b, err := json.Marshal(r.Workloads)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWorkersDoNotMatter: neither the number of workers nor the order of runs changes a figure.
func TestWorkersDoNotMatter(t *testing.T) {
	one, three := plan(), plan()
	one.Workers, three.Workers = 1, 3
	if a, b := jsonOf(t, execute(t, one)), jsonOf(t, execute(t, three)); a != b {
		t.Errorf("one worker:\n%s\nthree:\n%s", a, b)
	}
	other := plan()
	other.Seed = 50
	if jsonOf(t, execute(t, plan())) == jsonOf(t, execute(t, other)) {
		t.Error("other seeds gave the same figures")
	}
}

func TestReportHasWhatItPromises(t *testing.T) {
	r := execute(t, plan())
	dir := filepath.Join(t.TempDir(), "deep", "er")
	if err := CheckNewDir(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); err == nil {
		t.Error("a folder is there before its files")
	}
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Workloads map[string]struct {
			HeldOut    string                                `json:"held_out"`
			Schedulers map[string]map[string]json.RawMessage `json:"schedulers"`
			Paired     []map[string]any                      `json:"paired"`
		} `json:"workloads"`
		Manifest map[string]any `json:"manifest"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	w := s.Workloads["short and long"]
	if w.HeldOut != "seed" || s.Workloads["frame"].HeldOut != "" || len(w.Schedulers) != 3 {
		t.Errorf("%+v", w)
	}
	for _, m := range []string{"wait_mean_us", "wakeup_p50_us", "wakeup_p99_us", "wakeup_max_us", "slowdown_mean", "turnaround_ms",
		"throughput_per_s", "switches", "age_max_us", "censored"} {
		var x struct {
			Mean, SD *float64
			N        *int
		}
		if err := json.Unmarshal(w.Schedulers["rr"][m], &x); err != nil || x.N == nil || *x.N != 4 || x.Mean == nil {
			t.Errorf("%s: %s, %v", m, w.Schedulers["rr"][m], err)
		}
	}
	var fates map[string]uint64
	if err := json.Unmarshal(w.Schedulers["rr"]["fates"], &fates); err != nil || fates["requested"] == 0 || fates["requested"] != fates["applied"] {
		t.Errorf("fates %v, %v", fates, err)
	}
	if len(w.Paired) != 2*10 { // without a learned one, the first against each other
		t.Errorf("%d paired rows", len(w.Paired))
	}
	for _, p := range w.Paired {
		if p["a"] != "gittins" || p["diff"] == nil || p["lo"] == nil || p["hi"] == nil {
			t.Errorf("%v", p)
		}
	}
	for _, k := range []string{"commit", "machine", "go", "cpus", "schemas", "seed", "reps"} {
		if _, there := s.Manifest[k]; !there {
			t.Errorf("the manifest has no %s", k)
		}
	}
	f, err := os.Open(filepath.Join(dir, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+2*3*4 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	again, err := Load(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"| gittins |", "Held out from training in: seed.", "closed loop"} {
		if !strings.Contains(r.Markdown(), part) || !strings.Contains(again.Markdown(), part) {
			t.Errorf("the summary has no %q", part)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestIntervals(t *testing.T) {
	mean, lo, hi := interval([]float64{1, 2, 3, 4, 5})
	// sd 1.5811, Student's t of 4 degrees of freedom 2.7764
	if mean != 3 || math.Abs(lo-(3-1.9632)) > 1e-3 || math.Abs(hi-(3+1.9632)) > 1e-3 {
		t.Errorf("%v (%v to %v)", mean, lo, hi)
	}
	if m, lo, _ := interval([]float64{7}); m != 7 || !math.IsNaN(lo) {
		t.Errorf("of one value: %v, %v", m, lo)
	}
	if m, _, _ := interval(nil); !math.IsNaN(m) {
		t.Errorf("of none: %v", m)
	}
	if s := summarise([]float64{2, 4}); s.Mean != 3 || math.Abs(float64(s.SD)-math.Sqrt2) > 1e-12 || s.N != 2 {
		t.Errorf("%+v", s)
	}
}

func TestStoppedComparisonsKeepWhatIsFinished(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := plan()
	p.Workers = 1
	p.Progress = func(done, _ int) {
		if done == 7 {
			cancel()
		}
	}
	r, err := run(ctx, p)
	if !errors.Is(err, ErrStopped) || r == nil || len(r.Runs) != 7 {
		t.Fatalf("%v, %v", err, r)
	}
	full := execute(t, plan())
	for _, run := range r.Runs {
		found := false
		for _, x := range full.Runs {
			found = found || x.Spec == run.Spec && x.Scheduler == run.Scheduler && x.Rep == run.Rep && x.Result.TraceHash == run.Result.TraceHash
		}
		if !found {
			t.Errorf("%+v is not among the runs of the whole", run)
		}
	}
	seen := map[int]int{}
	for _, run := range r.Runs {
		seen[run.Rep]++
	}
	if seen[0] != 6 {
		t.Errorf("repetitions come one after the other: %v", seen)
	}
}

func TestPlansAreChecked(t *testing.T) {
	for says, change := range map[string]func(p *Plan){
		"workload":  func(p *Plan) { p.Workloads = nil },
		"scheduler": func(p *Plan) { p.Schedulers = nil },
		"reps":      func(p *Plan) { p.Reps = 0 },
		"twice":     func(p *Plan) { p.Schedulers = []string{"rr", "rr"} },
		"linus":     func(p *Plan) { p.Schedulers = []string{"rr@linus"} },
		"model":     func(p *Plan) { p.Schedulers = []string{"learned"} },
		"bimodel":   func(p *Plan) { p.Workloads[0].Specs = []string{"bimodel"} },
		"held out":  func(p *Plan) { p.Workloads[0].HeldOut = "luck" },
		"instances": func(p *Plan) { p.Workloads[0].Specs = nil },
		"beyond":    func(p *Plan) { p.Seed = math.MaxUint64 - 2 }, // of 4
	} {
		p := plan()
		change(&p)
		if _, err := run(context.Background(), p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

// TestTheLastSeeds: those that there are can be used.
func TestTheLastSeeds(t *testing.T) {
	p := plan()
	p.Seed = math.MaxUint64 - 3
	if last := execute(t, p).Runs[3].Seed; last != math.MaxUint64 {
		t.Error(last)
	}
}

func TestCallsAreChecked(t *testing.T) {
	for says, req := range map[string]map[string]any{
		"seedz":    {"seedz": 1},
		"workload": {"schedulers": []string{"rr"}, "reps": 1},
		"timing":   {"timing": "later"},
		"events":   {"events": "some"},
	} {
		b, err := msgpack.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := compareCall(context.Background(), b, ""); !errors.Is(err, env.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q, or is of another class", err, says)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, check := range []func(string) error{CheckDir, CheckNewDir} {
		if err := check(filepath.Join(file, "sub")); err == nil {
			t.Error("a folder below a file was found writable")
		}
	}
	link := filepath.Join(filepath.Dir(file), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := CheckNewDir(link); err == nil {
		t.Error("a link to nowhere was found writable")
	}
}
