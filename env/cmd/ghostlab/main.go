// Command ghostlab is the experimenter's program: it compares schedulers, and looks into models and workloads.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ghostgym/ghostgym/env/cmd/cli"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// command is one thing that the program does.
type command struct {
	name, line string // what it is called, and what it does in one line
	usage      string // the page that --help prints, before the flags
	run        func(c *call) error
}

// call is one invocation of a command.
type call struct {
	ctx    context.Context
	flags  *flag.FlagSet
	typed  []string // as they came
	args   []string // of those, after parse: what is no flag
	stdout io.Writer
	stderr io.Writer
	json   string
}

func commands() []command {
	return []command{compareCommand, listCommand, inspectCommand, inferCommand, validateCommand, reportCommand}
}

const overview = `ghostlab compares CPU schedulers, learned and heuristic, in a simulated machine.

Usage: ghostlab COMMAND [flags]

%s
Start with:
  ghostlab list
  ghostlab compare --workload bimodal:load=0.8,frame --schedulers gittins,rr,cfs+wp --reps 10 --out out/first

'ghostlab COMMAND --help' describes a command; 'ghostlab --version' the build. Every command that reports
something takes --json FILE ("-" is standard output). Exit codes: 0, 1 a failure while running, 2 bad input.
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &cli.Output{Writer: stdout}
	return out.Exit(stderr, "ghostlab", dispatch(ctx, args, out, stderr))
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	all := commands()
	var lines strings.Builder
	var names []string
	for _, c := range all {
		fmt.Fprintf(&lines, "  %-10s %s\n", c.name, c.line)
		names = append(names, c.name)
	}
	if len(args) == 0 {
		fmt.Fprintf(stderr, overview, lines.String())
		return 2
	}
	switch args[0] {
	case "-h", "--help", "-help":
		fmt.Fprintf(stdout, overview, lines.String())
		return 0
	case "help":
		if len(args) > 1 {
			args = []string{args[1], "--help"}
			break
		}
		fmt.Fprintf(stdout, overview, lines.String())
		return 0
	case "version", "--version", "-version":
		cli.Version(stdout, "ghostlab", version)
		return 0
	}
	for _, c := range all {
		if c.name != args[0] {
			continue
		}
		x := &call{ctx: ctx, typed: args[1:], stdout: stdout, stderr: stderr, flags: cli.NewFlags("ghostlab " + c.name)}
		cli.OutputVar(x.flags, &x.json, "json", "write the result as JSON to `FILE`; - is standard output")
		err := c.run(x)
		if errors.Is(err, flag.ErrHelp) {
			cli.Help(stdout, c.usage, x.flags)
			return 0
		}
		return cli.Exit(stderr, "ghostlab "+c.name, err)
	}
	return cli.Exit(stderr, "ghostlab", cli.Unknown("command", args[0], names))
}

// parse reads flags.
func (c *call) parse() (err error) {
	c.args, err = cli.Parse(c.flags, c.typed)
	return err
}

// reads refuses, before any work is done, a --json that would be written over what the command reads, or cannot be written.
func (c *call) reads(inputs ...cli.Path) error {
	if err := cli.CheckApart(inputs, []cli.Path{{Name: "--json", Path: c.json}}); err != nil {
		return err
	}
	return cli.CheckPut("json", c.json)
}

// put writes a result where --json says.
func (c *call) put(v any) error {
	if err := cli.CheckPut("json", c.json); err != nil {
		return err
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return cli.Put(c.json, c.stdout, append(b, '\n'))
}

// text is where the report for people goes: nowhere if standard output is taken by JSON.
func (c *call) text() io.Writer {
	if c.json == "-" {
		return io.Discard
	}
	return c.stdout
}

// version is set by the linker.
var version = "devel"
