package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain is, for TestSignals, a program that hears a signal and then waits for ever.
func TestMain(m *testing.M) {
	if os.Getenv("CLI_TEST_WAITS") == "" {
		os.Exit(m.Run())
	}
	ctx, stop := Signals(context.Background())
	defer stop()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("heard")
	select {}
}

// waiting starts a child that waits for signals; the deadline ends it only where a test fails.
func waiting(t *testing.T, name string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "CLI_TEST_WAITS=1")
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewScanner(pipe)
}

// TestSignals: the first is heard, the second ends the program.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		c, out := waiting(t, os.Args[0])
		for _, want := range []string{"ready", "heard"} {
			if !out.Scan() || out.Text() != want {
				t.Fatalf("%v: %q, want %q", sig, out.Text(), want)
			}
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != sig {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

// TestHangupUnderNohup is ignored.
func TestHangupUnderNohup(t *testing.T) {
	c, out := waiting(t, "sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0])
	if !out.Scan() || out.Text() != "ready" {
		t.Fatal(out.Text())
	}
	// if the first were heard, the second would end the program, and not the third
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM} {
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if !out.Scan() || out.Text() != "heard" {
		t.Errorf("a signal that was ignored ended the program: %q", out.Text())
	}
	if err := errors.Join(c.Process.Kill(), c.Wait()); err == nil {
		t.Error("it ended by itself")
	}
}
