package spell

import "testing"

func TestClosest(t *testing.T) {
	words := []string{"run", "runtime", "sleep", "suspend"}
	for word, want := range map[string]string{"runn": "run", "runtim": "runtime", "slep": "sleep", "suspnd": "suspend", "": "run"} {
		if got := Closest(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Closest("x", nil); got != "" {
		t.Errorf("no candidates: %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
