package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
	"github.com/ghostgym/ghostgym/models"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func ghostd(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

// figures are what another machine's floating point may change: the golden files have # in their place.
var figures = regexp.MustCompile(`\b[0-9a-f]{16}\b|\b[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?\b`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run go test -update and read the difference\n%s", path, got)
	}
}

func modelBytes(change func(meta map[string]string)) []byte {
	s := feature.Priority
	meta := map[string]string{feature.MetaHash: s.Hash(), feature.MetaSchema: s.Text(), feature.MetaAction: "key",
		feature.MetaRanges: `{"cpus":[4,6]}`}
	if change != nil {
		change(meta)
	}
	return onnxtest.MLP(s.Width(), []int{8}, 1, "LeakyRelu", 3, meta)
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGolden(t *testing.T) {
	ctx := context.Background()
	for name, args := range map[string][]string{
		"help":      {"--help"},
		"help-run":  {"run", "--help"},
		"run":       {"run", "--workload=bimodal:load=0.8", "--scheduler=gittins+wp", "--bursts=200"},
		"terminate": {"run", "--workload=sched_bench:cycles=3", "--scheduler=rr"},
	} {
		code, out, err := ghostd(ctx, args...)
		if code != 0 || err != "" {
			t.Errorf("%v: code %d, %s", args, code, err)
		}
		if !strings.HasPrefix(name, "help") {
			head, rest, _ := strings.Cut(out, ": the workload")
			out = head + ": the workload" + figures.ReplaceAllString(rest, "#")
		}
		golden(t, name, out)
	}
}

// TestEveryFileOfARun: stats, trace and timeline agree with each other, and the scores in the trace are those of the model.
func TestEveryFileOfARun(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	model := write(t, "m.onnx", modelBytes(nil))
	code, out, said := ghostd(context.Background(), "run", "--workload=bimodal:load=0.9:cpus=12", "--scheduler=learned+wp", "--model", model,
		"--bursts=300", "--json", path("s.json"), "--record", path("r.trace"), "--timeline", path("t.json"))
	if code != 0 || !strings.Contains(said, "cpus is 12") {
		t.Fatalf("code %d: %s%s", code, said, out)
	}
	var s Stats
	b, err := os.ReadFile(path("s.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Outside) != 1 || !strings.Contains(s.Outside[0], "cpus is 12, and it was trained on 4 to 6") {
		t.Errorf("12 CPUs and a model for 4 to 6: outside are %q", s.Outside)
	}
	if f := s.Result.Figures.Fates; f.Requested == 0 || f.Applied != f.Requested || s.Fallback == nil || s.Commits["done"] == 0 {
		t.Errorf("%+v", s)
	}
	f, err := os.Open(path("r.trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := trace.NewReader(f, "r.trace")
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.LoadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	session, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	decisions := uint64(0)
	for {
		turn, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n := len(turn.Decisions)
		if n == 0 {
			continue
		}
		out := make([]float32, n)
		if err := session.Score(turn.Rows, n, out); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if math.Float32bits(out[i]) != math.Float32bits(turn.Scores[i]) {
				t.Fatalf("turn at %d: score %d is %v in the loop and %v outside", turn.Now, i, turn.Scores[i], out[i])
			}
			if !turn.Decisions[i].Running {
				decisions++
			}
		}
	}
	if end, whole := r.End(); !whole || decisions != s.Result.Figures.Fates.Requested || end.Fates.Requested != decisions {
		t.Errorf("the trace has %d decisions, the stats %d, whole %v", decisions, s.Result.Figures.Fates.Requested, whole)
	}
	tl, err := os.Open(path("t.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	if n, err := trace.CheckTimeline(tl); err != nil || n < 100 {
		t.Errorf("timeline of %d events: %v", n, err)
	}
	if left, _ := filepath.Glob(path(".*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if !strings.Contains(out, s.Result.TraceHash) {
		t.Errorf("the table does not name trace %s:\n%s", s.Result.TraceHash, out)
	}
}

func TestSignalsStopCleanly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stats := filepath.Join(t.TempDir(), "s.json")
	code, out, err := ghostd(ctx, "run", "--workload=bimodal", "--scheduler=las", "--json", stats)
	if code != 0 || !strings.Contains(out, "was stopped") {
		t.Errorf("code %d: %s%s", code, err, out)
	}
	if b, err := os.ReadFile(stats); err != nil || !strings.Contains(string(b), `"stopped": true`) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestSignalsAreHeardWhereNothingIsAsked: on an idle machine no task ever waits, and the policy has no turn.
func TestSignalsAreHeardWhereNothingIsAsked(t *testing.T) {
	usr2 := make(chan os.Signal, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	said := &onWrite{do: func() { // the first table goes to it: then the run is stopped
		usr2 <- os.Interrupt
		cancel()
	}}
	usr2 <- os.Interrupt
	args := []string{"--workload=sched_bench:cycles=-1:load=0.1", "--scheduler=rr", "--duration=1000h"}
	if err := runAgent(ctx, args, usr2, &out, said); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "was stopped") || !strings.Contains(out.String(), " 0 requested") {
		t.Errorf("%s", out.String())
	}
}

// onWrite does something once, when it is first written to.
type onWrite struct{ do func() }

func (w *onWrite) Write(b []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(b), nil
}

func TestTheModelThatShips(t *testing.T) {
	code, out, err := ghostd(context.Background(), "run", "--workload=bimodal:load=0.8:cpus=6", "--bursts=300")
	if code != 0 || !strings.Contains(out, "(0 by the fallback, las)") {
		t.Errorf("code %d: %s%s", code, err, out)
	}
}

func TestBadInput(t *testing.T) {
	whole := modelBytes(nil)
	other := write(t, "other.onnx", modelBytes(func(meta map[string]string) {
		meta[feature.MetaSchema] = strings.Replace(meta[feature.MetaSchema], "utilisation", "usefulness", 1)
		meta[feature.MetaHash] = strings.Repeat("0123456789abcdef", 4)
	}))
	cut := write(t, "cut.onnx", whole[:len(whole)/3])
	plain := write(t, "plain.onnx", onnxtest.MLP(19, []int{4}, 1, "Relu", 1, nil))
	file := write(t, "file", nil)
	app := write(t, "app.json", []byte("{\"tasks\": {\"a\": {\"run\": \"long\"}}}"))
	for _, c := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"Usage"}},
		{[]string{"walk"}, []string{"walk", "run"}},
		{[]string{"run"}, []string{"--workload"}},
		{[]string{"run", "--workload=bimodal", "extra"}, []string{"extra"}},
		{[]string{"run", "--workload=bimodal", "--kernel=gate"}, []string{"gate", "sim"}},
		{[]string{"run", "--workload=bimodel"}, []string{"bimodel", "bimodal"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rrr"}, []string{"rrr"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr@linus"}, []string{"linus"}},
		{[]string{"run", "--workload=bimodal", "--timing=late"}, []string{"late"}},
		{[]string{"run", "--workload=bimodal", "--events=some"}, []string{"some", "fork"}},
		{[]string{"run", "--workload=bimodal", "--fallback=front"}, []string{"front"}},
		{[]string{"run", "--workload=bimodal", "--model", cut}, []string{"cut.onnx"}},
		{[]string{"run", "--workload=bimodal", "--model", plain}, []string{"plain.onnx", "schema"}},
		{[]string{"run", "--workload=bimodal", "--model", other}, []string{"0123456789ab", feature.Priority.Hash()[:12], "utilisation", "usefulness"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr", "--json", filepath.Join(file, "s")}, []string{"file"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr", "--record", filepath.Dir(file)}, []string{"--record", "is a folder"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr", "--timeline", filepath.Join(file, "t")}, []string{"--timeline", "file"}},
		{[]string{"run", "--workload=bimodal", "--fallbak=las"}, []string{"--fallbak", "did you mean --fallback?"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr", "--fallback=lass"}, []string{"fallback", "las"}},
		{[]string{"run", "--workload=bimodal", "--duration=1s", "--bursts=10"}, []string{"--duration", "--bursts"}},
		{[]string{"run", "--workload=bimodal", "--duration=-1s"}, []string{"--duration"}},
		{[]string{"run", "--workload=bimodal", "--age-bound=0s"}, []string{"--age-bound"}},
		{[]string{"run", "--workload=bimodal", "--warmup=2"}, []string{"warmup: 2"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=oracle+x"}, []string{"+x", "+wp"}},
		{[]string{"run", "--workload=bimodal", "--model", file + "s"}, []string{file + "s"}},
		{[]string{"run", "--workload", app, "--scheduler=rr"}, []string{"app.json", "run"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr@ghost-global", "--bursts=-1"}, []string{"-1"}},
		{[]string{"run", "--workload=bimodal:cpus=1", "--scheduler=rr@ghost-global"}, []string{"2 CPUs"}},
		{[]string{"run", "--workload=bimodal", "--bursts=0"}, []string{"--bursts", "no horizon"}},
		{[]string{"run", "--workload=bimodal", "--inference=-3us"}, []string{"--inference", "-3µs"}},
		{[]string{"run", "--workload=bimodal", "--json="}, []string{"--json", "name of a file"}},
		{[]string{"run", "--workload=bimodal", "--record=-"}, []string{"--record", "--json only"}},
		{[]string{"run", "--workload=bimodal", "--timeline=-"}, []string{"--timeline", "--json only"}},
		{[]string{"run", "--workload=bimodal", "--json", file + "s/x"}, []string{"--json", "there is no folder"}},
		{[]string{"run", "--workload=bimodal", "--record", strings.Repeat("x", 300)}, []string{"--record", "name too long"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=rr", "--fallback=learned"}, []string{"learned is no heuristic"}},
		{[]string{"run", "--workload=bimodal", "--scheduler=foo"}, []string{"foo", ", oracle"}},
		{[]string{"run", "--workload=bimodal", "--json", file + ".x", "--record", file + ".x"}, []string{"--record and --json", "file.x"}},
	} {
		code, out, err := ghostd(context.Background(), c.args...)
		if code != 2 {
			t.Errorf("%v: code %d: %s%s", c.args, code, out, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err, s) {
				t.Errorf("%v: %q does not say %q", c.args, err, s)
			}
		}
	}
}

func TestDurationIsTheHorizon(t *testing.T) {
	app := write(t, "app.json", []byte(`{"tasks": {"a": {"run": 500, "sleep": 500}}, "global": {"duration": 3}}`))
	for _, w := range []string{"bimodal", app} {
		code, out, err := ghostd(context.Background(), "run", "--workload", w, "--scheduler=rr", "--duration=20ms", "--json", "-")
		var s Stats
		if code != 0 || json.Unmarshal([]byte(out), &s) != nil || s.Result.HorizonNs != 20e6 || s.Result.EndNs != 20e6 {
			t.Errorf("%s: code %d, %d of %d ns: %s", w, code, s.Result.EndNs, s.Result.HorizonNs, err)
		}
	}
}

// TestStatsMeanwhile: SIGUSR2 writes the stats of a run that goes on; then come those of its end.
func TestStatsMeanwhile(t *testing.T) {
	usr2 := make(chan os.Signal, 1)
	usr2 <- os.Interrupt
	var out, said bytes.Buffer
	args := []string{"--workload=rocksdb", "--scheduler=las", "--bursts=200", "--json", "-"}
	if err := runAgent(context.Background(), args, usr2, &out, &said); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&out)
	var now, end Stats
	if err := errors.Join(d.Decode(&now), d.Decode(&end)); err != nil || d.More() {
		t.Fatal(err)
	}
	if !now.Running || end.Running || now.Result.EndNs >= end.Result.EndNs || now.Result.TraceHash == end.Result.TraceHash {
		t.Errorf("meanwhile %+v, in the end %+v", now, end)
	}
	usr2 <- os.Interrupt
	out.Reset()
	if err := runAgent(context.Background(), args[:3], usr2, &out, &said); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "is running") || strings.Contains(out.String(), "is running") {
		t.Errorf("%s%s", out.String(), said.String())
	}
}

// TestTheFallbackAnswersAndIsCounted: a model that gives no numbers schedules nothing; the heuristic named does.
func TestTheFallbackAnswersAndIsCounted(t *testing.T) {
	b := onnxtest.New(17).Input("x", "batch", feature.Priority.Width()).Output("y", "batch", 1)
	for k, v := range map[string]string{feature.MetaHash: feature.Priority.Hash(), feature.MetaSchema: feature.Priority.Text(),
		feature.MetaAction: "key"} {
		b.Meta(k, v)
	}
	w := make([]float32, feature.Priority.Width())
	w[0] = float32(math.NaN())
	b.Init("w", onnxtest.Floats(w, int64(len(w)), 1))
	b.Node("MatMul", []string{"x", "w"}, []string{"y"}, nil)
	model := write(t, "nan.onnx", b.Bytes())
	stats := func(args ...string) (s Stats) {
		code, out, err := ghostd(context.Background(), append([]string{"run", "--workload=bimodal:load=0.9", "--bursts=300", "--json=-"}, args...)...)
		if code != 0 || json.Unmarshal([]byte(out), &s) != nil {
			t.Fatalf("code %d: %s", code, err)
		}
		return s
	}
	broken, las := stats("--model", model, "--fallback=las"), stats("--scheduler=las")
	f := broken.Result.Figures.Fates
	if f.Requested == 0 || f.Fallback != f.Applied || broken.Fallback.NonFinite != f.Requested {
		t.Errorf("%+v, %+v", f, broken.Fallback)
	}
	if a, b := broken.Result.Figures, las.Result.Figures; a.WaitMean != b.WaitMean || a.Bursts != b.Bursts || a.Switches != b.Switches {
		t.Errorf("with the fallback %+v\nunder las %+v", a, b) // the answers are the same, so all is
	}
}

// TestOptionsInVain are noted.
func TestOptionsInVain(t *testing.T) {
	model := write(t, "m.onnx", modelBytes(nil))
	code, _, said := ghostd(context.Background(), "run", "--workload=bimodal", "--bursts=20", "--scheduler=rr@linux", "--model", model,
		"--fallback=las")
	if code != 0 || said != "note: --model is not used by rr@linux\nnote: --fallback is not used by rr@linux\n" {
		t.Errorf("code %d: %s", code, said)
	}
}

// TestASlowModelIsNoted, unless it is simulated to be as slow.
func TestASlowModelIsNoted(t *testing.T) {
	s := feature.Priority
	meta := map[string]string{feature.MetaHash: s.Hash(), feature.MetaSchema: s.Text(), feature.MetaAction: "key"}
	model := write(t, "m.onnx", onnxtest.MLP(s.Width(), []int{1000, 1000}, 1, "Relu", 3, meta)) // a million multiplications
	for _, c := range []struct{ inference, table string }{{"0s", "simulated as 0s"}, {"1h", "simulated as 1h0m0s"}} {
		code, out, said := ghostd(context.Background(), "run", "--workload=bimodal", "--bursts=10", "--model", model, "--inference", c.inference)
		if code != 0 || strings.Contains(said, "pass --inference") != (c.inference == "0s") || !strings.Contains(out, c.table) {
			t.Errorf("--inference %s: code %d: %s%s", c.inference, code, said, out)
		}
	}
}

// TestSameCommandSameBytes: a run is a function of its flags, to the last byte of its trace.
func TestSameCommandSameBytes(t *testing.T) {
	dir := t.TempDir()
	for _, timing := range []string{"sync", "async+20us", "hold=40us+20us"} {
		var traces [2][]byte
		for i := range traces {
			path := filepath.Join(dir, "r.trace")
			if code, _, err := ghostd(context.Background(), "run", "--workload=interactive", "--bursts=60", "--timing", timing, "--seed=9",
				"--record", path); code != 0 {
				t.Fatal(err)
			}
			var err error
			if traces[i], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if len(traces[0]) < 1000 || !bytes.Equal(traces[0], traces[1]) {
			t.Errorf("%s: %d and %d bytes, not the same", timing, len(traces[0]), len(traces[1]))
		}
	}
}

// full is a device without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestLostOutputIsAFailure: whoever pipes a table into a file learns that it is not whole.
func TestLostOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"run", "--help"}, {"run", "--workload=bimodal", "--scheduler=rr", "--bursts=20"},
		{"run", "--workload=bimodal", "--scheduler=rr", "--bursts=20", "--json=-"}} {
		var errs bytes.Buffer
		if code := run(context.Background(), args, full{}, &errs); code != 1 || strings.Count(errs.String(), "no room") != 1 {
			t.Errorf("%v: code %d: %s", args, code, errs.String())
		}
	}
}

func TestVersionNamesSchemas(t *testing.T) {
	code, out, _ := ghostd(context.Background(), "--version")
	for _, s := range feature.Schemas() {
		if code != 0 || !strings.Contains(out, "commit ") || !strings.Contains(out, s.Hash()) {
			t.Errorf("code %d: %s", code, out)
		}
	}
}
