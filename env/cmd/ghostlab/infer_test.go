package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/compare"
	"github.com/ghostgym/ghostgym/env/reward"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/models"
)

// traceOf records a run under a model.
func traceOf(t *testing.T, path, dir string) string {
	t.Helper()
	m, err := models.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := env.ParseScheduler("learned", m, "")
	if err != nil {
		t.Fatal(err)
	}
	in, err := env.BuildInstance("rocksdb:load=0.9:cpus=2")
	if err != nil {
		t.Fatal(err)
	}
	var machine env.Machine
	p, err := s.Policy(&machine)
	if err != nil {
		t.Fatal(err)
	}
	setup := env.Setup{Instance: in, Bursts: 60, Inference: -1}
	if err := s.Setup(&setup, p); err != nil {
		t.Fatal(err)
	}
	if err := machine.Reset(setup); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := trace.NewWriter(&b, &trace.Header{Schema: m.Schema().Hash(), Machine: *machine.Sim.Topology()})
	if err != nil {
		t.Fatal(err)
	}
	setup.Sinks = append(setup.Sinks, w)
	if err := machine.Reset(setup); err != nil {
		t.Fatal(err)
	}
	if _, err := machine.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(machine.Agent.Core().Fates()); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run.trace")
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// npy is a file as numpy.save writes it, with row i all of i + 0.25.
func npy(n, width int) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, width)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	b = append(b, header...)
	for i := range n * width {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i/width)+0.25))
	}
	return b
}

func writeNPY(t *testing.T, path string, n, width int) {
	t.Helper()
	if err := os.WriteFile(path, npy(n, width), 0o600); err != nil {
		t.Fatal(err)
	}
}

func inferred(t *testing.T, args ...string) (s scored) {
	t.Helper()
	code, out, err := ghostlab(append([]string{"infer", "--json=-"}, args...)...)
	if code != 0 {
		t.Fatalf("code %d: %s", code, err)
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScoresOfATrace: the model that scheduled scores the same rows to the same bits; another does not.
func TestScoresOfATrace(t *testing.T) {
	path := model(t)
	run := traceOf(t, path, t.TempDir())
	s := inferred(t, path, "--rows", run)
	if s.Recorded == nil || s.Rows < 50 || s.Recorded.Rows != s.Rows || s.Recorded.Equal != s.Rows || len(s.Bits) != s.Rows {
		t.Errorf("%d rows, %+v", s.Rows, s.Recorded)
	}
	code, out, said := ghostlab("infer", "--json=-", "../../../models/priority.onnx", "--rows", run)
	var o scored
	if err := json.Unmarshal([]byte(out), &o); err != nil || o.Rows != s.Rows || o.Recorded.Equal > s.Rows/2 {
		t.Errorf("another model: %d rows, %+v, %v", o.Rows, o.Recorded, err)
	}
	if code != 1 || !strings.Contains(said, "scores differ") {
		t.Errorf("of another model: code %d: %s", code, said)
	}
	b, err := os.ReadFile(run)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.trace")
	if err := os.WriteFile(cut, b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, err := ghostlab("infer", path, "--rows", cut); code != 2 || !strings.Contains(err, "cut off") {
		t.Errorf("code %d: %s", code, err)
	}
}

// TestScoresOfRows are those of a session, row by row.
func TestScoresOfRows(t *testing.T) {
	path, data := model(t), filepath.Join(t.TempDir(), "rows.npy")
	m, err := inference.LoadFile(path, inference.Options{})
	if err != nil {
		t.Fatal(err)
	}
	writeNPY(t, data, 40, m.Width())
	s := inferred(t, "--rows", data, path)
	session, err := m.NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	row, out := make([]float32, m.Width()), make([]float32, 1)
	for i := range 40 {
		for k := range row {
			row[k] = float32(i) + 0.25
		}
		if err := session.Score(row, 1, out); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%08x", math.Float32bits(out[0])); s.Bits[i][0] != want || float32(*s.Scores[i][0]) != out[0] {
			t.Errorf("row %d: %s %v, want %s %v", i, s.Bits[i], *s.Scores[i][0], want, out[0])
		}
	}
	if s.Rows != 40 || s.Recorded != nil || s.Model != m.Hash() {
		t.Errorf("%+v", s)
	}
	writeNPY(t, data, 0, m.Width())
	if s := inferred(t, "--rows", data, path); s.Rows != 0 || len(s.Scores) != 0 {
		t.Errorf("of no rows: %+v", s)
	}
}

func FuzzRows(f *testing.F) {
	f.Add(npy(2, 3))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	f.Add([]byte("\x89\xa6format"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r *rows
		var err error
		if bytes.HasPrefix(b, []byte(npyMagic)) {
			r, err = readNPY("x", b)
		} else {
			r, err = readTrace("x", b)
		}
		if err == nil && (len(r.data) != r.n*r.width || r.scores != nil && len(r.scores) != r.n) {
			t.Errorf("%d rows of %d in %d numbers, %d scores", r.n, r.width, len(r.data), len(r.scores))
		}
	})
}

// TestListNamesAll: every name of every table, with a word about it.
func TestListNamesAll(t *testing.T) {
	code, out, errs := ghostlab("list", "--json", "-")
	var all map[string][]named
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 {
		t.Fatalf("code %d, %v: %s", code, err, errs)
	}
	for key, want := range map[string][]string{
		"workloads": workload.Names(), "schedulers": append(policy.Names(), env.OracleName), "profiles": sim.Profiles(),
		"rewards": reward.Names(), "events": {"default", "fork", "all"}, "figures": {"wait_mean_us", "age_max_us", "censored", "applied", "late"},
	} {
		var got []string
		for _, n := range all[key] {
			got = append(got, n.Name)
			if n.Doc == "" {
				t.Errorf("%s: nothing is said of %s", key, n.Name)
			}
		}
		for _, n := range want {
			if !slices.Contains(got, n) {
				t.Errorf("%s: %s is missing", key, n)
			}
		}
	}
	for _, w := range all["workloads"] {
		if !strings.Contains(w.Doc, "cpus") {
			t.Errorf("%s: its parameters are not named: %s", w.Name, w.Doc)
		}
	}
	if _, out, _ := ghostlab("list", "rewards", "events"); !strings.HasPrefix(out, "Rewards") || strings.Contains(out, "bimodal") {
		t.Errorf("sections: %s", out)
	}
}

func TestValidateSaysWhere(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte("{\"tasks\": {\"a\": {\"run\": 10,\n \"sleeep\": 5}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ := ghostlab("validate", "testdata/app.json", bad, filepath.Join(dir, "absent.json"), "--lenient", "--json=-")
	var all []verdict
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 2 || len(all) != 3 {
		t.Fatalf("code %d, %v: %s", code, err, out)
	}
	if v := all[0]; !v.OK || v.Problem != nil || len(v.Repairs) > 0 || len(v.Notes) == 0 {
		t.Errorf("%+v", v)
	}
	if v := all[1]; !v.OK || len(v.Repairs) != 1 || v.Repairs[0].Line != 2 || v.Repairs[0].Key != "sleeep" {
		t.Errorf("%+v", v)
	}
	if v := all[2]; v.OK || v.Problem == nil || !strings.Contains(v.Problem.Message, "absent.json") {
		t.Errorf("%+v", v)
	}
	code, out, _ = ghostlab("validate", bad, "--json=-")
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 2 {
		t.Fatalf("code %d, %v", code, err)
	}
	if v := all[0]; v.OK || v.Problem == nil || v.Problem.Line != 2 || v.Problem.Column != 2 || v.Problem.Key != "sleeep" {
		t.Errorf("%+v", v.Problem)
	}
}

// TestStoppedComparison: what is finished is kept, the exit code says that it is not all, and nothing is written of nothing.
func TestStoppedComparison(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := filepath.Join(t.TempDir(), "out")
	var out, errs bytes.Buffer
	code := run(ctx, []string{"compare", "--workload=bimodal", "--schedulers=rr,las", "--out", dir, "--quiet"}, &out, &errs)
	left, _ := os.ReadDir(dir)
	if code != 1 || !strings.Contains(errs.String(), "stopped") || len(left) > 0 {
		t.Errorf("code %d: %s%v", code, errs.String(), left)
	}
}

// TestTheManifestSaysWhatWasTyped, so that a shell does the same again.
func TestTheManifestSaysWhatWasTyped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a folder")
	if code, _, err := ghostlab("compare", "--workload=bimodal,rocksdb", "--schedulers=rr", "--reps=1", "--bursts=20", "--out", dir,
		"--quiet"); code != 0 {
		t.Fatal(err)
	}
	r, err := compare.Load(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := "ghostlab compare --workload=bimodal,rocksdb --schedulers=rr --reps=1 --bursts=20 --out '" + dir + "' --quiet"
	if m := r.Manifest; m.Command != want || m.Finished != 2 || !slices.Equal(m.Workloads, []string{"bimodal", "rocksdb"}) || m.Bursts != 20 || m.Version != version {
		t.Errorf("%+v", m)
	}
}

// TestMain is the program itself, for tests that send it signals.
func TestMain(m *testing.M) {
	if os.Getenv("GHOSTLAB_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSignalsEndWhatWaits: a command that waits for the other end of a pipe ends by the first signal.
func TestSignalsEndWhatWaits(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), syscall.Mkfifo(filepath.Join(dir, "rows"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(model(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // only where it fails
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "infer", "pipe", "--rows=rows", "--json=out")
	c.Dir, c.Env = dir, append(os.Environ(), "GHOSTLAB_TEST_MAIN=1")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	m, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the program reads: it is well under way then
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Write(b)
	if err := errors.Join(err, m.Close(), c.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left over: %v", left)
	}
}
