package feature

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ghostgym/ghostgym/agent/sched"
)

func TestHashCovers(t *testing.T) {
	changes := map[string]func(s *Schema){
		"name":      func(s *Schema) { s.Features[3].Name += "x" },
		"unit":      func(s *Schema) { s.Features[3].Unit = "ns" },
		"low":       func(s *Schema) { s.Features[3].Lo-- },
		"high":      func(s *Schema) { s.Features[3].Hi++ },
		"version":   func(s *Schema) { s.Features[3].Version++ },
		"presence":  func(s *Schema) { s.Features[3].Presence = !s.Features[3].Presence },
		"order":     func(s *Schema) { s.Features[3], s.Features[4] = s.Features[4], s.Features[3] },
		"length":    func(s *Schema) { s.Features = s.Features[:len(s.Features)-1] },
		"slots":     func(s *Schema) { s.Action.Slots++ },
		"action":    func(s *Schema) { s.Action.Kind = "slice" },
		"bound":     func(s *Schema) { s.Action.Hi++ },
		"direction": func(s *Schema) { s.Action.Direction = "greater first" },
		"constant":  func(s *Schema) { s.Constants[1].Value *= 2 },
		"kind":      func(s *Schema) { s.Kind = "other" },
	}
	for _, s := range Schemas() {
		if s.Hash() != newSchema(*s).Hash() {
			t.Fatalf("%s: the hash is not reproducible", s.Kind)
		}
		seen := map[string]string{s.Text(): "the unchanged schema"}
		for name, change := range changes {
			other := *s
			other.Features = slices.Clone(s.Features)
			other.Constants = slices.Clone(s.Constants)
			change(&other)
			text := other.canonical()
			if was, ok := seen[text]; ok {
				t.Errorf("%s: %s gives the text of %s", s.Kind, name, was)
			}
			seen[text] = name
			if text == s.Text() {
				t.Errorf("%s: the hash does not cover the %s", s.Kind, name)
			}
			if len(s.Diff(text)) == 0 {
				t.Errorf("%s: Diff does not see the %s", s.Kind, name)
			}
		}
		reworded := *s
		reworded.Features = slices.Clone(s.Features)
		reworded.Features[0].Formula = "in other words"
		if newSchema(reworded).Hash() != s.Hash() {
			t.Errorf("%s: the hash covers the wording of a formula", s.Kind)
		}
	}
	if Priority.Hash() == Placement.Hash() {
		t.Error("both schemas have one hash")
	}
}

func TestNamesAreUnique(t *testing.T) {
	for _, s := range Schemas() {
		seen := map[string]bool{}
		for _, f := range s.Features {
			if seen[f.Name] || f.Name == "" || f.Unit == "" || f.Formula == "" || f.Version < 1 || f.Lo >= f.Hi ||
				strings.ContainsAny(f.Name+f.Unit, " \n") {
				t.Errorf("%s: bad or repeated feature %+v", s.Kind, f)
			}
			seen[f.Name] = true
		}
	}
	if n := Priority.Width(); n != taskWidth {
		t.Errorf("a Priority row has %d numbers, the code fills in %d", n, taskWidth)
	}
	if n := Placement.Width(); n != taskWidth+sched.Slots*slotWidth {
		t.Errorf("a Placement row has %d numbers, the code fills in %d", n, taskWidth+sched.Slots*slotWidth)
	}
}

func TestDiffNames(t *testing.T) {
	p := Priority
	if d := p.Diff(p.Text()); d != nil {
		t.Errorf("a schema differs from itself: %q", d)
	}
	for _, c := range []struct {
		change func(text string) string
		want   []string
	}{
		{func(s string) string {
			return strings.Replace(s, "feature ln_burst unit=ln dtype=float32 lo=-4 hi=4 version=1", "feature ln_burst unit=ln dtype=float32 lo=-4 hi=4 version=2", 1)
		},
			[]string{"ln_burst: ours unit=ln dtype=float32 lo=-4 hi=4 version=1, theirs unit=ln dtype=float32 lo=-4 hi=4 version=2"}},
		{func(s string) string { return strings.Replace(s, "feature running ", "feature walking ", 1) },
			[]string{"running: ours only (unit=bit dtype=float32 lo=0 hi=1 version=1)", "walking: theirs only (unit=bit dtype=float32 lo=0 hi=1 version=1)"}},
		{func(s string) string { return strings.Replace(s, "constant soften 0.05", "constant soften 0.1", 1) },
			[]string{"constant soften: ours 0.05, theirs 0.1"}},
		{func(s string) string {
			lines := strings.SplitAfter(s, "\n")
			slices.Reverse(lines[len(lines)-3:]) // the last is empty
			return strings.Join(lines, "")
		}, []string{"ln_slice: stands at another place of the row"}},
		{func(string) string { return "" }, []string{"the other carries no schema text that this version can read"}},
		{func(s string) string { return s + "\x00\xff\n" }, []string{"??: theirs only ()"}},
	} {
		if d := p.Diff(c.change(p.Text())); !slices.Equal(d, c.want) {
			t.Errorf("got %q, want %q", d, c.want)
		}
	}
	d := p.Diff(Placement.Text())
	if len(d) != maxDiffs+1 || !strings.HasPrefix(d[len(d)-1], "and ") {
		t.Errorf("%d differences between the two schemas are not cut to %d: %q", len(d), maxDiffs+1, d)
	}
}

func FuzzDiff(f *testing.F) {
	f.Add(Priority.Text())
	f.Add(Placement.Text())
	f.Add(heading + "\nfeature\nfeature \nconstant a")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		d := Priority.Diff(text)
		if (text == Priority.Text()) != (len(d) == 0) {
			t.Fatalf("%d differences", len(d))
		}
		if len(d) > maxDiffs+1 {
			t.Fatalf("%d differences", len(d))
		}
		for _, l := range d {
			if len(l) > 4*maxDiffLine || !utf8.ValidString(l) || strings.ContainsAny(l, "\n\x1b\x00") {
				t.Fatalf("bad line %q", l)
			}
		}
	})
}

func TestDecode(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x       float32
		key     float64
		clipped bool
	}{
		{0, 0, false}, {-0.25, -0.25, false}, {KeyBound, KeyBound, false}, {-KeyBound, -KeyBound, false},
		{KeyBound + 1, KeyBound, true}, {-1e30, -KeyBound, true}, {inf, KeyBound, true}, {-inf, -KeyBound, true},
		{nan, sched.Behind, true},
	} {
		if key, clipped := Priority.DecodeKey(c.x); key != c.key || clipped != c.clipped {
			t.Errorf("key %v: %v, %v", c.x, key, clipped)
		}
	}
	mask := []uint8{1, 1, 0, 0, 0, 0, 0, 0, 1}
	for _, c := range []struct {
		action int
		slot   int32
		legal  bool
	}{
		{0, 0, true}, {1, 1, true}, {2, sched.Back, false}, {8, sched.Back, true}, {9, sched.Back, false}, {-1, sched.Back, false},
		{math.MinInt, sched.Back, false},
	} {
		if slot, legal := DecodeSlot(c.action, mask); slot != c.slot || legal != c.legal {
			t.Errorf("action %d: %d, %v", c.action, slot, legal)
		}
	}
	for _, c := range []struct {
		logits []float32
		mask   []uint8
		want   int
	}{
		{[]float32{1, 2, 3}, []uint8{1, 1, 1}, 2},
		{[]float32{1, 2, 3}, []uint8{1, 1, 0}, 1},
		{[]float32{2, 2, 2}, []uint8{0, 1, 1}, 1},
		{[]float32{nan, -5, -5}, []uint8{1, 1, 1}, 1},
		{[]float32{-inf, nan, nan}, []uint8{1, 1, 1}, 0},
		{[]float32{-inf, -inf, nan}, []uint8{1, 1, 1}, 0},
		{[]float32{nan, nan, nan}, []uint8{1, 1, 1}, 2},
		{[]float32{inf, nan, inf}, []uint8{0, 1, 1}, 2},
		{[]float32{-inf, 0, 1}, []uint8{1, 0, 0}, 0},
	} {
		if got := ArgMax(c.logits, c.mask); got != c.want {
			t.Errorf("%v under %v: %d, want %d", c.logits, c.mask, got, c.want)
		}
	}
}
