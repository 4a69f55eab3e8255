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
	"syscall"

	"github.com/ghostgym/ghostgym/env/cmd/cli"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

const overview = `ghostd runs the scheduling agent.

Usage: ghostd run [flags]      schedule a kernel: the simulated one, so far
       ghostd run --help       all flags, with examples
       ghostd --version        the build, and the schemas that models must match

Start with:
  ghostd run --workload bimodal:load=0.8

Exit codes: 0, 1 a failure while running, 2 bad input.
`

// version is set by the linker.
var version = "devel"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &cli.Output{Writer: stdout}
	return out.Exit(stderr, "ghostd", dispatch(ctx, args, out, stderr))
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, overview)
		return 2
	}
	switch args[0] {
	case "help", "-h", "--help", "-help":
		fmt.Fprint(stdout, overview)
		return 0
	case "version", "--version", "-version":
		cli.Version(stdout, "ghostd", version)
		return 0
	case "run":
		usr2 := make(chan os.Signal, 1)
		signal.Notify(usr2, syscall.SIGUSR2)
		defer signal.Stop(usr2)
		err := runAgent(ctx, args[1:], usr2, stdout, stderr)
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return cli.Exit(stderr, "ghostd run", err)
	}
	return cli.Exit(stderr, "ghostd", cli.Unknown("command", args[0], []string{"run", "help", "version"}))
}
