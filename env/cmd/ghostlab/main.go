// Command ghostlab is the experimenter's program: it compares schedulers, and looks into models and workloads.
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
	args   []string // not parsed yet; after parse: what is no flag
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

// errUsage is wrong input: exit code 2.
var errUsage = errors.New("usage")

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
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
	case "help", "-h", "--help", "-help":
		fmt.Fprintf(stdout, overview, lines.String())
		return 0
	case "version", "--version", "-version":
		fmt.Fprint(stdout, versionText())
		return 0
	}
	for _, c := range all {
		if c.name != args[0] {
			continue
		}
		x := &call{ctx: ctx, typed: args[1:], args: args[1:], stdout: stdout, stderr: stderr, flags: flag.NewFlagSet("ghostlab "+c.name, flag.ContinueOnError)}
		x.flags.SetOutput(io.Discard)
		x.flags.StringVar(&x.json, "json", "", "also write the result as JSON to `FILE`; - is standard output")
		err := c.run(x)
		switch {
		case err == nil:
			return 0
		case errors.Is(err, flag.ErrHelp):
			fmt.Fprintf(stdout, "%s\nFlags:\n", strings.TrimLeft(c.usage, "\n"))
			x.flags.SetOutput(stdout)
			x.flags.PrintDefaults()
			return 0
		}
		fmt.Fprintf(stderr, "ghostlab %s: %v\n", c.name, err)
		if errors.Is(err, errUsage) {
			return 2
		}
		return 1
	}
	fmt.Fprintf(stderr, "ghostlab: no command %q; there are %s\n", args[0], strings.Join(names, ", "))
	return 2
}

// parse reads flags, which may stand before and after other arguments.
func (c *call) parse() error {
	var rest []string
	args := c.args
	for {
		if err := c.flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return err
			}
			return usage("%w; 'ghostlab %s --help' lists the flags", err, strings.TrimPrefix(c.flags.Name(), "ghostlab "))
		}
		args = c.flags.Args()
		if len(args) == 0 {
			break
		}
		rest = append(rest, args[0])
		args = args[1:]
	}
	c.args = rest
	return nil
}

// checkJSON finds out whether --json can be written, before any work is done for it.
func (c *call) checkJSON() error {
	if c.json == "" || c.json == "-" {
		return nil
	}
	if err := compare.CheckFile(c.json); err != nil {
		return usage("--json: %w", err)
	}
	return nil
}

// quoted is a command line that a shell would split into the same words.
func quoted(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`*?[]{}()<>|&;#~!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		b.WriteString(w)
	}
	return b.String()
}

// put writes JSON where --json says.
func (c *call) put(b []byte) error {
	switch c.json {
	case "":
		return nil
	case "-":
		_, err := c.stdout.Write(b)
		return err
	}
	return compare.WriteFile(c.json, b)
}

// text is where the report for people goes: nowhere if standard output is taken by JSON.
func (c *call) text() io.Writer {
	if c.json == "-" {
		return io.Discard
	}
	return c.stdout
}

func versionText() string {
	commit := compare.Commit()
	if commit == "" {
		commit = "unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ghostlab %s, commit %s\n", version, commit)
	for _, s := range feature.Schemas() {
		fmt.Fprintf(&b, "schema %s %s\n", s.Kind, s.Hash())
	}
	return b.String()
}

// version is set by the linker.
var version = "devel"
