// Command ghostd is the operator's program: it runs the agent, with a heuristic or a model in its loop, on a kernel.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/env/compare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const overview = `ghostd runs the scheduling agent.

Usage: ghostd run [flags]      schedule a kernel: the simulated one, so far
       ghostd --version        the build, and the schemas that models must match
       ghostd run --help       all flags, with examples

Exit codes: 0, 1 a failure while running, 2 bad input.
`

// errUsage is wrong input: exit code 2.
var errUsage = errors.New("usage")

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// version is set by the linker.
var version = "devel"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, overview)
		return 2
	}
	switch args[0] {
	case "help", "-h", "--help", "-help":
		fmt.Fprint(stdout, overview)
		return 0
	case "version", "--version", "-version":
		commit := compare.Commit()
		if commit == "" {
			commit = "unknown"
		}
		fmt.Fprintf(stdout, "ghostd %s, commit %s\n", version, commit)
		for _, s := range feature.Schemas() {
			fmt.Fprintf(stdout, "schema %s %s\n", s.Kind, s.Hash())
		}
		return 0
	case "run":
		err := runAgent(ctx, args[1:], stdout, stderr)
		switch {
		case err == nil || errors.Is(err, flag.ErrHelp):
			return 0
		case errors.Is(err, errUsage):
			fmt.Fprintf(stderr, "ghostd run: %v\n", err)
			return 2
		}
		fmt.Fprintf(stderr, "ghostd run: %v\n", err)
		return 1
	}
	fmt.Fprintf(stderr, "ghostd: no command %q; there is run (and --help, --version)\n", strings.TrimSpace(args[0]))
	return 2
}
