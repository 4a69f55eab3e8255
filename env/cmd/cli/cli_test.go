package cli

import (
	"bytes"
	"errors"
	"flag"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func flags() (*flag.FlagSet, *int, *bool) {
	f := NewFlags("prog do")
	return f, f.Int("reps", 3, "`N` repetitions"), f.Bool("quiet", false, "say nothing")
}

func TestFlagsStandAnywhere(t *testing.T) {
	for _, c := range []struct {
		args, rest []string
	}{
		{[]string{"--reps", "7", "--quiet", "a", "b"}, []string{"a", "b"}},
		{[]string{"a", "--reps=7", "b", "-quiet"}, []string{"a", "b"}},
		{[]string{"a", "b", "-reps", "7", "--quiet=true"}, []string{"a", "b"}},
		{[]string{"a", "--reps=7", "--quiet", "--", "--reps", "-x"}, []string{"a", "--reps", "-x"}},
		{[]string{"--reps=7", "--quiet"}, nil},
	} {
		f, reps, quiet := flags()
		rest, err := Parse(f, c.args)
		if err != nil || *reps != 7 || !*quiet || !slices.Equal(rest, c.rest) {
			t.Errorf("%v: %d, %v, %v, %v", c.args, *reps, *quiet, rest, err)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		says []string
	}{
		{"--rep 4", []string{"no flag --rep;", "did you mean --reps?", "'prog do --help'"}},
		{"a --zzzzz", []string{"no flag --zzzzz ("}},
		{"--reps", []string{"needed after --reps"}},
		{"--reps x", []string{`"x" for --reps: want a whole number (`}},
		{"--seed -1", []string{`"-1" for --seed: want a whole number from 0 to 18446744073709551615`}},
		{"--load half", []string{`"half" for --load: want a number`}},
		{"--load 1e999", []string{"want a number"}},
		{"--age-bound 1", []string{`"1" for --age-bound: want a time with a unit, as in 2s`}},
		{"--age-bound 10000000h", []string{"at most 2562047h"}},
		{"--quiet=perhaps", []string{`boolean value "perhaps" for --quiet: want true or false`}},
		{"--model=", []string{`"" for --model: want the name of a file`}},
	} {
		f, _, _ := flags()
		f.Uint64("seed", 0, "")
		f.Float64("load", 0, "")
		f.Duration("age-bound", 0, "")
		InputVar(f, new(string), "model", "")
		_, err := Parse(f, strings.Fields(c.args))
		if !errors.Is(err, ErrUsage) || Exit(new(bytes.Buffer), "p", err) != 2 {
			t.Fatalf("%s: %v", c.args, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", c.args, err, s)
			}
		}
	}
	f, _, _ := flags()
	if _, err := Parse(f, []string{"a", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
}

func TestExitCodes(t *testing.T) {
	inner := errors.New("inner")
	for _, c := range []struct {
		err  error
		code int
	}{{nil, 0}, {inner, 1}, {Usage("%w", inner), 2}, {AsUsage(inner), 2}, {AsUsage(nil), 0}} {
		var b bytes.Buffer
		if code := Exit(&b, "p", c.err); code != c.code || (b.Len() > 0) != (c.err != nil) {
			t.Errorf("%v: %d, %q", c.err, code, b.String())
		}
	}
	if !errors.Is(AsUsage(inner), inner) {
		t.Error("the cause is lost")
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	f, _, _ := flags()
	var b bytes.Buffer
	Help(&b, "\nUsage: prog do\n", f)
	want := "Usage: prog do\n\nFlags:\n  --quiet\n        say nothing\n  --reps N\n        N repetitions (default 3)\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}

func TestWrapKeepsWordsAndWidth(t *testing.T) {
	text := strings.Repeat("slowdown µs – ", 40)
	got := Wrap(text, 6)
	if !slices.Equal(strings.Fields(got), strings.Fields(text)) {
		t.Error("words are lost")
	}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i, l := range lines {
		if n := utf8.RuneCountInString(l); n > 100 || i < len(lines)-1 && n < 85 || !strings.HasPrefix(l, "      ") {
			t.Errorf("line of %d columns: %q", n, l)
		}
	}
}

func TestUnknownNamesTheClosest(t *testing.T) {
	err := Unknown("command", "compair", []string{"list", "compare"})
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), `did you mean "compare"?`) || !strings.Contains(err.Error(), "list") {
		t.Error(err)
	}
	if err := Unknown("command", "xyzzy", []string{"list"}); strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
}

// TestQuoteIsReadBackByAShell: the words that a shell makes of a quoted line are those that it was made of.
func TestQuoteIsReadBackByAShell(t *testing.T) {
	words := []string{"compare", "--out", "a folder", "", "it's", `back\slash`, "$HOME", "*", "b=c,d:e/f@g+h", "semi;colon", "new\nline"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+Quote(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("%q became %q", words, got)
	}
}
