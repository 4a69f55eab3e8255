package spell

import (
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	words := []string{"run", "runtime", "sleep", "suspend"}
	for word, want := range map[string]string{
		"runn": "run", "runtim": "runtime", "slep": "sleep", "suspnd": "suspend", "rum": "run", "": "", "3": "", "xyzzy": "", "snooze": "",
	} {
		if got := Closest(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	// Of a long name only the beginning is compared, so its length is no excuse for more edits.
	for _, n := range []int{longest, 100, 300} {
		if got := Closest(strings.Repeat("z", n), words); got != "" {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
	if got := Hint("x", nil); got != "" {
		t.Errorf("no choices: %q", got)
	}
	if got := Hint("slep", words); got != `; did you mean "sleep"?` {
		t.Error(got)
	}
}

func FuzzDistance(f *testing.F) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"fifo", "fif0", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			f.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
		f.Add(c.a, c.b)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		d := distance(a, b)
		if len(a) > longest || len(b) > longest {
			return
		}
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < len(a)-len(b) {
			t.Errorf("distance(%q, %q) = %d", a, b, d)
		}
	})
}
