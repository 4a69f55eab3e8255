// Package cli is what the programs share: how they read flags, print their pages and end.
//
// Flags may stand before and after other arguments; "--" ends them. Exit codes are 0, 1 for a failure while running and 2 for bad
// input.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/spell"
	"github.com/ghostgym/ghostgym/env/compare"
)

// ErrUsage is matched by errors about what was typed.
var ErrUsage = errors.New("usage")

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == ErrUsage }
func (e usageError) Unwrap() error      { return e.error }

// Usage is an error about what was typed.
func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// AsUsage says that an error is about what was typed; nil stays nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// NewFlags makes the flags of a command.
func NewFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// Parse reads flags and returns what is none. The error matches flag.ErrHelp where help is asked for, else ErrUsage.
func Parse(f *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, refine(f, err)
		}
		left := f.Args()
		if n := len(args) - len(left); n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		if len(left) == 0 {
			return rest, nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// refine words an error of package flag for people.
func refine(f *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		f.VisitAll(func(x *flag.Flag) { known = append(known, x.Name) })
		text = fmt.Sprintf("there is no flag --%s", strings.TrimPrefix(name, "-"))
		if c := spell.Closest(strings.TrimPrefix(name, "-"), known); c != "" {
			text += fmt.Sprintf("; did you mean --%s?", c)
		}
	} else {
		text = strings.NewReplacer("for flag -", "for --", "flag needs an argument: -", "a value is needed after --").Replace(wanted(f, text))
	}
	return Usage("%s ('%s --help' lists the flags)", text, f.Name())
}

// wanted says what a flag takes, where package flag says only that this is not it.
func wanted(f *flag.FlagSet, text string) string {
	head, ok := strings.CutSuffix(text, ": parse error")
	if !ok {
		head, ok = strings.CutSuffix(text, ": value out of range")
	}
	i := strings.LastIndex(head, " -")
	if !ok || i < 0 {
		return text
	}
	x := f.Lookup(head[i+len(" -"):])
	if x == nil {
		return text
	}
	want := ""
	if g, ok := x.Value.(flag.Getter); ok {
		switch g.Get().(type) {
		case bool:
			want = "true or false"
		case int:
			want = "a whole number"
		case uint64:
			want = fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64))
		case float64:
			want = "a number"
		case time.Duration:
			want = fmt.Sprintf("a time with a unit, as in 2s, of at most %dh", math.MaxInt64/time.Hour)
		}
	}
	if want == "" {
		return text
	}
	return fmt.Sprintf("%s --%s: want %s", strings.TrimSuffix(head[:i], " flag"), x.Name, want)
}

// Help prints the page of a command and its flags.
func Help(w io.Writer, page string, f *flag.FlagSet) {
	fmt.Fprintf(w, "%s\n\nFlags:\n", strings.TrimSpace(page))
	f.VisitAll(func(x *flag.Flag) {
		value, usage := flag.UnquoteUsage(x)
		if value != "" {
			value = " " + value
		}
		if x.DefValue != "" && x.DefValue != "0" && x.DefValue != "false" && x.DefValue != "0s" && x.DefValue != "-1ns" {
			usage += fmt.Sprintf(" (default %s)", x.DefValue)
		}
		fmt.Fprintf(w, "  --%s%s\n%s", x.Name, value, Wrap(usage, 8))
	})
}

// Wrap breaks a text into indented lines of at most 100 columns.
func Wrap(text string, indent int) string {
	const width = 100
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
			b.WriteString(strings.Repeat(" ", indent))
			column = indent
		case column+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
	return b.String()
}

// Unknown is the error for a name that is none of the choices.
func Unknown(what, name string, choices []string) error {
	return Usage("there is no %s %q: there is %s%s", what, name, strings.Join(choices, ", "), spell.Hint(name, choices))
}

// Version prints what a program was built from, and the schemas that models must match.
func Version(w io.Writer, program, version string) {
	commit := compare.Commit()
	if commit == "" {
		commit = "unknown"
	}
	fmt.Fprintf(w, "%s %s, commit %s\n", program, version, commit)
	for _, s := range feature.Schemas() {
		fmt.Fprintf(w, "schema %s %s\n", s.Kind, s.Hash())
	}
}

// Exit prints what went wrong, if anything, and returns the exit code.
func Exit(stderr io.Writer, program string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", program, err)
	if errors.Is(err, ErrUsage) {
		return 2
	}
	return 1
}

// Quote is a command line that a shell splits into the same words.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`*?[]{}()<>|&;#~!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}
