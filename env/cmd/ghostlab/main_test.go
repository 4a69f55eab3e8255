package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func ghostlab(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// figures are what another machine's floating point may change: the golden files have # in their place.
var figures = regexp.MustCompile(`[+−]?\b[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?\b`)

// golden compares with testdata/NAME.txt, what depends on the machine left out.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got, _, _ = strings.Cut(got, "\n## How\n")
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

func model(t *testing.T) string { return modelOf(t, feature.Priority) }

func modelOf(t *testing.T, s *feature.Schema) string {
	t.Helper()
	meta := map[string]string{feature.MetaHash: s.Hash(), feature.MetaSchema: s.Text(), feature.MetaAction: s.Action.Kind}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, onnxtest.MLP(s.Width(), []int{8}, s.Action.Width(), "LeakyRelu", 3, meta), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"help":         {"--help"},
		"help-compare": {"compare", "--help"},
		"help-infer":   {"help", "infer"},
		"help-inspect": {"inspect", "-h"}, "help-list": {"list", "--help"}, "help-validate": {"validate", "--help"},
		"help-report": {"report", "--help"},
		"report":      {"report", "../../compare/testdata"},
		"list":        {"list"},
		"compare":     {"compare", "--workload", "bimodal:load=0.7,frame", "--schedulers", "gittins,rr", "--reps", "3", "--bursts", "100", "--json", filepath.Join(t.TempDir(), "s.json"), "--quiet"},
		"validate":    {"validate", "--lenient", "testdata/app.json"},
	} {
		code, out, err := ghostlab(args...)
		if code != 0 || err != "" {
			t.Errorf("%v: code %d, %s", args, code, err)
		}
		if name == "compare" {
			rows := strings.Split(out, "\n")
			for i := range rows {
				if strings.HasPrefix(rows[i], "| ") {
					rows[i] = figures.ReplaceAllString(strings.ReplaceAll(rows[i], "**", ""), "#")
					rows[i] = regexp.MustCompile(`no difference shown \(# to #\)|# \(# to #\)(, # % \(# to #\))?`).ReplaceAllString(rows[i], "VERDICT")
				}
			}
			out = strings.Join(rows, "\n")
		}
		golden(t, name, out)
	}
	code, out, _ := ghostlab("inspect", model(t))
	if code != 0 || !strings.Contains(out, "schedules: yes, by priority") || !strings.Contains(out, feature.Priority.Hash()) {
		t.Errorf("code %d:\n%s", code, out)
	}
	if code, out, _ := ghostlab("--version"); code != 0 || !strings.Contains(out, feature.Placement.Hash()) {
		t.Errorf("code %d:\n%s", code, out)
	}
}

func TestJSONOnStandardOutput(t *testing.T) {
	for _, args := range [][]string{
		{"list", "--json", "-"}, {"inspect", model(t), "--json", "-"}, {"validate", "testdata/app.json", "--lenient", "--json", "-"},
		{"compare", "--workload", "bimodal", "--schedulers", "rr", "--reps", "1", "--bursts", "50", "--json", "-", "--quiet"},
	} {
		code, out, err := ghostlab(args...)
		var v any
		if code != 0 || json.Unmarshal([]byte(out), &v) != nil {
			t.Errorf("%v: code %d, %s%s", args, code, err, out)
		}
	}
}

func TestReportReadsWhatCompareWrote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if code, _, err := ghostlab("compare", "--workload=bimodal", "--schedulers=learned+wp,rr", "--model", model(t), "--reps=2",
		"--bursts=60", "--out", dir, "--held-out", "bimodal=seed", "--quiet"); code != 0 {
		t.Fatal(err)
	}
	code, out, _ := ghostlab("report", dir)
	if code != 0 || !strings.Contains(out, "| learned+wp | rr |") || !strings.Contains(out, "Held out from training in: seed") {
		t.Errorf("code %d:\n%s", code, out)
	}
	if code, _, err := ghostlab("report", t.TempDir()); code != 2 || !strings.Contains(err, "summary.json") {
		t.Errorf("code %d: %s", code, err)
	}
}

// TestBadInput: exit code 2, the cause named, nothing written.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	m := model(t)
	whole, err := os.ReadFile(m)
	if err != nil {
		t.Fatal(err)
	}
	cut := write("cut.onnx", string(whole[:len(whole)/2]))
	file := write("file", "")
	other := modelOf(t, feature.Placement)
	rows := func(n, width int) string {
		path := filepath.Join(dir, "rows.npy")
		writeNPY(t, path, n, width)
		return path
	}
	bad := write("bad.json", "{\"tasks\": {\"a\": {\"run\": 10,\n \"sleeep\": 5}}}")
	compare := func(more ...string) []string { return append([]string{"compare", "--reps=1", "--quiet"}, more...) }
	for _, c := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"Usage"}},
		{[]string{"compair"}, []string{"compair", "compare"}},
		{[]string{"list", "extra"}, []string{"extra"}},
		{compare("--no-such"), []string{"no-such", "--help"}},
		{compare("--workload=bimodal"), []string{"--schedulers"}},
		{compare("--workload=bimodal", "--schedulers=rr"), []string{"--out"}},
		{compare("--workload=bimodel", "--schedulers=rr", "--json=-"), []string{"bimodel", "bimodal"}},
		{compare("--workload=bimodal:load=7", "--schedulers=rr", "--json=-"), []string{"load", "7"}},
		{compare("--workload=bimodal", "--schedulers=rrr", "--json=-"), []string{"rrr", "rr"}},
		{compare("--workload=bimodal", "--schedulers=front+wp", "--json=-"), []string{"+wp"}},
		{compare("--workload=bimodal", "--schedulers=rr@linus", "--json=-"), []string{"linus", "linux"}},
		{compare("--workload=bimodal", "--schedulers=learned", "--model", cut, "--json=-"), []string{"cut.onnx"}},
		{compare("--workload=bimodal", "--schedulers=learned", "--model", m, "--fallback=front", "--json=-"), []string{"front"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--reps=0", "--json=-"), []string{"reps: 0"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--timing=late", "--json=-"), []string{"late", "async"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--held-out=frame=kind", "--json=-"), []string{"frame"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--out", filepath.Join(file, "sub")), []string{"file"}},
		{compare("--workload", bad, "--schedulers=rr", "--json=-"), []string{"bad.json", "2:2", "sleeep"}},
		{[]string{"inspect", cut}, []string{"cut.onnx"}},
		{[]string{"inspect", filepath.Join(dir, "absent")}, []string{"absent"}},
		{[]string{"infer", m, "--rows", file}, []string{"NumPy"}},
		{[]string{"infer", m}, []string{"--rows"}},
		{[]string{"infer", m, "--rows", rows(3, 4)}, []string{"rows of 4", "takes 19"}},
		{[]string{"infer", m, "--rows", write("trunc.npy", "\x93NUMPY\x01\x00\xff\xff{'descr'")}, []string{"trunc.npy", "cut off"}},
		{[]string{"infer", m, "--rows", traceOf(t, other, dir)}, []string{feature.Priority.Hash(), feature.Placement.Hash()}},
		{[]string{"list", "workload"}, []string{"workload", "workloads"}},
		{[]string{"list", "--jsn=x"}, []string{"--jsn", "did you mean --json?"}},
		{[]string{"list", "--json", dir}, []string{"--json", "is a folder"}},
		{[]string{"list", "--json", filepath.Join(file, "x")}, []string{"--json", "file"}},
		{[]string{"list", "--json", filepath.Join(dir, "absent", "x")}, []string{"--json", "there is no folder"}},
		{[]string{"list", "--json="}, []string{"--json", "name of a file"}},
		{[]string{"inspect", m, "--json", dir}, []string{"--json", "is a folder"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--out", file), []string{"file"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--json=-", "--bursts=-4"), []string{"-4"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--json=-", "--warmup=1"), []string{"warmup: 1"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--json=-", "--fallback=cfss"), []string{"fallback", "cfs"}},
		{compare("--workload=bimodal:cpus=1", "--schedulers=rr@ghost-global", "--json=-"), []string{"bimodal:cpus=1", "rr@ghost-global", "2 CPUs"}},
		{compare("--workload=bimodal", "--schedulers=rrr", "--out", filepath.Join(dir, "never")), []string{"rrr"}},
		{compare("bimodal", "--schedulers=rr"), []string{"--workload"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--json=-", "--reps=2", "--seed=18446744073709551615"), []string{"seed", "beyond"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--json=-", "--bursts=0"), []string{"--bursts", "no horizon"}},
		{compare("--workload=bimodal", "--schedulers=rr", "--json=-", "--held-out=bimodal"), []string{"--held-out", "W=WHAT"}},
		{[]string{"validate", bad}, []string{"bad.json", "sleeep"}},
		{[]string{"validate"}, []string{"file"}},
	} {
		before, _ := os.ReadDir(dir)
		code, out, err := ghostlab(c.args...)
		if code != 2 {
			t.Errorf("%v: code %d: %s%s", c.args, code, out, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err, s) {
				t.Errorf("%v: %q does not say %q", c.args, err, s)
			}
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%v: it left something behind", c.args)
		}
	}
}

// TestInputsAreNotWrittenOver: exit code 2, both names, and the input is as it was.
func TestInputsAreNotWrittenOver(t *testing.T) {
	m, dir := model(t), t.TempDir()
	app, rows, link := filepath.Join(dir, "app.json"), filepath.Join(dir, "rows.npy"), filepath.Join(dir, "link")
	writeNPY(t, rows, 1, feature.Priority.Width())
	text, err := os.ReadFile("testdata/app.json")
	if err := errors.Join(err, os.WriteFile(app, text, 0o600), os.Symlink(m, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		args []string
		says string
	}{
		{m, []string{"inspect", m, "--json", m}, "MODEL and --json"},
		{m, []string{"inspect", m, "--json", link}, "MODEL and --json"},
		{m, []string{"infer", m, "--rows", rows, "--json", m}, "MODEL and --json"},
		{rows, []string{"infer", m, "--rows", rows, "--json", rows}, "--rows and --json"},
		{app, []string{"validate", "testdata/app.json", app, "--json", app}, "FILE and --json"},
	} {
		before, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		code, out, said := ghostlab(c.args...)
		after, err := os.ReadFile(c.path)
		if code != 2 || out != "" || !strings.Contains(said, c.says) || err != nil || !bytes.Equal(before, after) {
			t.Errorf("%v: code %d: %s%s", c.args, code, said, out)
		}
	}
}

func TestInspectLooksIntoWhatItRefuses(t *testing.T) {
	s := feature.Priority
	meta := map[string]string{feature.MetaHash: s.Hash(), feature.MetaSchema: s.Text(), feature.MetaAction: s.Action.Kind,
		feature.MetaRanges: "[]"}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, onnxtest.MLP(s.Width(), []int{8}, 1, "Relu", 3, meta), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, err := ghostlab("inspect", path)
	if code != 0 || !strings.Contains(out, "schedules: no: ") || !strings.Contains(out, feature.MetaRanges) || !strings.Contains(out, "opset") {
		t.Errorf("code %d: %s%s", code, err, out)
	}
}

// full is a device without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestLostOutputIsAFailure: whoever pipes a report into a file learns that it is not whole.
func TestLostOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"--help"}, {"version"}, {"list", "--json=-"}, {"compare", "--workload=bimodal",
		"--schedulers=rr", "--reps=1", "--bursts=20", "--quiet", "--json", filepath.Join(t.TempDir(), "s.json")}} {
		var errs bytes.Buffer
		if code := run(context.Background(), args, full{}, &errs); code != 1 || strings.Count(errs.String(), "no room") != 1 {
			t.Errorf("%v: code %d: %s", args, code, errs.String())
		}
	}
}

// TestStoppedBeforeTheFirstRun: there is no report to speak of, and no folder is left for it.
func TestStoppedBeforeTheFirstRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"compare", "--workload=bimodal", "--schedulers=rr", "--out", filepath.Join(dir, "a", "b"),
		"--json", filepath.Join(dir, "s.json")}, &out, &errs)
	if code != 1 || out.Len() > 0 || errs.String() != "ghostlab compare: stopped before the end: no run was finished, and nothing is written\n" {
		t.Errorf("code %d: %s%s", code, out.String(), errs.String())
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestTheModelBuiltIn answers where no other is named, and the report says so.
func TestTheModelBuiltIn(t *testing.T) {
	for schedulers, asked := range map[string]bool{"rr,learned+wp@ideal": true, "rr,oracle": false} {
		code, out, err := ghostlab("compare", "--workload=bimodal", "--schedulers", schedulers, "--reps=1", "--bursts=20", "--quiet", "--json=-")
		var r struct {
			Manifest struct {
				Model string `json:"model"`
				Hash  string `json:"model_hash"`
			} `json:"manifest"`
		}
		if code != 0 || json.Unmarshal([]byte(out), &r) != nil {
			t.Fatalf("%s: code %d: %s", schedulers, code, err)
		}
		if (r.Manifest.Model == "priority.onnx (built in)") != asked || (len(r.Manifest.Hash) == 64) != asked {
			t.Errorf("%s: %+v", schedulers, r.Manifest)
		}
	}
}

// TestAComparisonReplacesTheOneBefore, whole: what is printed as 'what next' can be done twice.
func TestAComparisonReplacesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	for _, scheduler := range []string{"fifo", "las"} {
		if code, _, err := ghostlab("compare", "--workload=bimodal", "--schedulers", scheduler, "--reps=1", "--bursts=20", "--quiet", "--out", dir); code != 0 {
			t.Fatal(err)
		}
		for _, name := range []string{"summary.json", "summary.md", "results.csv"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.Contains(string(b), scheduler) {
				t.Errorf("%s of %s: %v\n%s", name, scheduler, err, b)
			}
		}
	}
}

// TestAComparisonKeepsWhatItReads, also through links; nor is one result written over another.
func TestAComparisonKeepsWhatItReads(t *testing.T) {
	dir := t.TempDir()
	app, err := os.ReadFile("testdata/app.json")
	if err != nil {
		t.Fatal(err)
	}
	trained, err := os.ReadFile(model(t))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, b := range map[string][]byte{"app.json": app, "m.onnx": trained, "summary.md": trained} {
		if err := os.WriteFile(at(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("m.onnx", at("link")), os.Symlink(dir, at("folder"))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--model", at("m.onnx"), "--json", at("m.onnx")},
		{"--model", at("m.onnx"), "--json", at("link")},
		{"--model", at("link"), "--json", at("m.onnx")},
		{"--model", at("summary.md"), "--out", at("folder")},
		{"--workload", at("app.json") + ":cpus=8", "--lenient", "--json", at("app.json")},
		{"--json", at("summary.json"), "--out", dir},
	} {
		args = append([]string{"compare", "--workload=bimodal", "--schedulers=learned", "--reps=1", "--bursts=20", "--quiet"}, args...)
		if code, _, err := ghostlab(args...); code != 2 || !strings.Contains(err, args[len(args)-2]+": "+dir) && !strings.Contains(err, "--out: "+dir) {
			t.Errorf("%v: code %d: %s", args, code, err)
		}
	}
	for name, want := range map[string][]byte{"app.json": app, "m.onnx": trained, "summary.md": trained} {
		if b, err := os.ReadFile(at(name)); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s was written: %v", name, err)
		}
	}
}

// TestAModelThatNobodyAsks is named in a note, and not in the manifest, which tells what has answered.
func TestAModelThatNobodyAsks(t *testing.T) {
	code, out, said := ghostlab("compare", "--workload=bimodal", "--schedulers=rr,las", "--reps=1", "--bursts=20", "--model", model(t), "--json=-", "--quiet")
	if code != 0 || !strings.Contains(said, "--model is not used by rr,las") || strings.Contains(out, `"model"`) {
		t.Errorf("code %d, %s\n%.400s", code, said, out)
	}
}
