package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// TestMain is the program itself, for tests that send it signals.
func TestMain(m *testing.M) {
	if os.Getenv("GHOSTD_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestInputsAreNotWrittenOver: exit code 2, both flags, and the input is as it was.
func TestInputsAreNotWrittenOver(t *testing.T) {
	model := write(t, "m.onnx", modelBytes(nil))
	app := write(t, "app.json", []byte(`{"tasks": {"a": {"run": 500, "sleep": 500}}, "global": {"duration": 1}}`))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(model, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ input, in, flag, out, workload string }{
		{model, "--model", "--json", model, "bimodal"},
		{model, "--model", "--record", link, "bimodal"},
		{model, "--model", "--timeline", filepath.Dir(model) + "/./m.onnx", "bimodal"},
		{app, "--workload", "--json", app, app + ":cpus=4"},
	} {
		before, err := os.ReadFile(c.input)
		if err != nil {
			t.Fatal(err)
		}
		code, out, said := ghostd(context.Background(), "run", "--workload", c.workload, "--model", model, c.flag, c.out)
		after, err := os.ReadFile(c.input)
		if code != 2 || !strings.Contains(said, c.in+" and "+c.flag) || err != nil || !bytes.Equal(before, after) {
			t.Errorf("%+v: code %d: %s%s", c, code, said, out)
		}
	}
}

// TestSignalsEndWhatWaits: a program that waits for the other end of a pipe ends by the first signal, and leaves nothing behind.
func TestSignalsEndWhatWaits(t *testing.T) {
	for _, args := range [][]string{{"--record=pipe", "--json=s.json"}, {"--timeline=pipe", "--record=r.trace"}, {"--json=pipe", "--record=r.trace"}} {
		dir := t.TempDir()
		model := filepath.Join(dir, "m.onnx")
		if err := errors.Join(syscall.Mkfifo(model, 0o600), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // only where it fails
		defer cancel()
		c := exec.CommandContext(ctx, os.Args[0], append([]string{"run", "--workload=bimodal", "--model=m.onnx"}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "GHOSTD_TEST_MAIN=1")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		m, err := os.OpenFile(model, os.O_WRONLY, 0) // returns when the program reads: it is well under way then
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Write(modelBytes(nil))
		if err := errors.Join(err, m.Close(), c.Process.Signal(syscall.SIGTERM)); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("%v: %v", args, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 2 {
			t.Errorf("%v: left over: %v", args, left)
		}
	}
}

// TestFilesAreAllOrNone: a failure at the end of a run leaves none of them.
func TestFilesAreAllOrNone(t *testing.T) {
	dir := t.TempDir()
	code, out, said := ghostd(context.Background(), "run", "--workload=bimodal", "--scheduler=rr", "--bursts=50", "--json=/dev/full",
		"--record", filepath.Join(dir, "r"), "--timeline", filepath.Join(dir, "t"))
	left, err := os.ReadDir(dir)
	if code != 1 || out != "" || !strings.Contains(said, "no space") || err != nil || len(left) > 0 {
		t.Errorf("code %d: %s%s; left over: %v", code, said, out, left)
	}
}

// TestStatsIntoAPipe: meanwhile and in the end, one after the other.
func TestStatsIntoAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	usr2 := make(chan os.Signal, 1)
	usr2 <- os.Interrupt
	args := []string{"--workload=rocksdb", "--scheduler=las", "--bursts=200", "--json", fmt.Sprintf("/dev/fd/%d", w.Fd())}
	var said bytes.Buffer
	if err := errors.Join(runAgent(context.Background(), args, usr2, io.Discard, &said), w.Close()); err != nil || said.Len() > 0 {
		t.Fatal(err, said.String())
	}
	d := json.NewDecoder(r)
	var now, end Stats
	if err := errors.Join(d.Decode(&now), d.Decode(&end)); err != nil || d.More() || !now.Running || end.Running {
		t.Errorf("meanwhile %+v, in the end %+v, %v", now, end, err)
	}
}

// TestTheReportSaysWhatWasRun, defaults and the workload's own included.
func TestTheReportSaysWhatWasRun(t *testing.T) {
	app := write(t, "app.json", []byte(`{"tasks": {"a": {"run": 500, "sleep": 500}}, "global": {"duration": 1}}`))
	model := write(t, "m.onnx", modelBytes(nil))
	for _, c := range []struct {
		args string
		want Setup
	}{
		{"--workload=bimodal --bursts=20", Setup{Profile: "uthread", CPUs: 8, Fallback: "las", AgeBound: 1e9, Bursts: 20}},
		{"--workload=bimodal --duration=1ms --scheduler=learned@linux --fallback=sept --inference=3us --age-bound=1ms --warmup=0.5",
			Setup{Profile: "linux", CPUs: 8, Fallback: "sept", AgeBound: 1e6, Inference: 3000, Duration: 1e6, Warmup: 0.5}},
		{"--scheduler=rr --workload=" + app, Setup{Profile: "kthread", CPUs: 4, AgeBound: 1e9, Duration: 1e9}},
	} {
		args := append([]string{"run", "--json=-", "--model", model}, strings.Fields(c.args)...)
		code, out, said := ghostd(context.Background(), args...)
		var s Stats
		if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || s.Setup != c.want {
			t.Errorf("%s: code %d: %s%+v, want %+v", c.args, code, said, s.Setup, c.want)
		}
		if learned := s.Setup.Fallback != ""; (s.ModelTime > 0) != learned {
			t.Errorf("%s: the model takes %v", c.args, s.ModelTime)
		}
	}
}

// TestInferenceIsFreeUnlessSaid: what the help says of the profiles.
func TestInferenceIsFreeUnlessSaid(t *testing.T) {
	for _, name := range sim.Profiles() {
		if p, err := sim.LoadProfile(name); err != nil || p.Inference != 0 {
			t.Errorf("%s: %v, %v: --inference says that all are 0", name, p.Inference, err)
		}
	}
}
