package policy

import (
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/sched"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Entries() {
		if seen[e.Name] || e.Doc == "" || e.Orders == 0 || strings.ContainsAny(e.Name, "+@, ") {
			t.Errorf("bad or repeated entry %+v", e)
		}
		seen[e.Name] = true
		f, err := Find(e.Name)
		if err != nil || f.Name != e.Name {
			t.Errorf("%s is not found: %v", e.Name, err)
		}
		if p, err := e.New(Config{}); (err != nil) != e.NeedsModel || (p == nil) != e.NeedsModel {
			t.Errorf("%s without a model: %v, %v", e.Name, p, err)
		}
		if e.RunToBlock != (e.Name == "fifo") {
			t.Errorf("%s: RunToBlock is %v", e.Name, e.RunToBlock)
		}
	}
	_, err := Find("gitins")
	if err == nil || !strings.Contains(err.Error(), `did you mean "gittins"?`) || !strings.Contains(err.Error(), "sept") {
		t.Errorf("error of a misspelt name: %v", err)
	}
	if _, err := Find("xyzzy"); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("error of a name unlike any: %v", err)
	}
}

func TestFindFallback(t *testing.T) {
	for _, c := range []struct {
		name     string
		orders   Orders
		says     string // "": it is one
		offers   string
		withhold string
	}{
		{"las", Key, "", "", ""}, {"front", Slot, "", "", ""}, {"las", Slot | Key, "", "", ""},
		{"las", Slot, "las does not answer by slot", "front", "cfs"},
		{"front", Key, "front does not answer by key", "cfs", "random"},
		{"learned", Slot | Key, "no heuristic", "random", "learned,"},
		{"foo", Key, `"foo" is unknown`, "gittins", "learned"},
		{"gitins", Key, `did you mean "gittins"?`, "fifo", "front"},
	} {
		e, err := FindFallback(c.name, c.orders)
		if c.says == "" {
			if err != nil || e.Name != c.name {
				t.Errorf("%s by %s: %v", c.name, c.orders, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.offers) || strings.Contains(err.Error(), c.withhold) {
			t.Errorf("%s by %s: %v", c.name, c.orders, err)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		orders  Orders
		preempt bool
		want    sched.Order
		fails   bool
	}{
		{Slot | Key, false, sched.BySlot, false}, {Slot | Key, true, sched.ByKey, false},
		{Key, false, sched.ByKey, false}, {Key, true, sched.ByKey, false},
		{Slot, false, sched.BySlot, false}, {Slot, true, 0, true},
	} {
		got, err := c.orders.Choose(c.preempt)
		if (err != nil) != c.fails || !c.fails && got != c.want {
			t.Errorf("%v, preempt %v: %v, %v", c.orders, c.preempt, got, err)
		}
	}
}

func TestParseSpec(t *testing.T) {
	profiles := []string{"ideal", "linux", "ghost-percpu", "ghost-global"}
	for _, c := range []struct {
		text string
		want Spec
		errs []string // what the error says
	}{
		{"fifo", Spec{Policy: "fifo"}, nil},
		{"gittins+wp", Spec{Policy: "gittins", Preempt: true}, nil},
		{"gittins+wp@ghost-global", Spec{"gittins", true, "ghost-global"}, nil},
		{"front@ideal", Spec{"front", false, "ideal"}, nil},
		{"learned+wp@linux", Spec{"learned", true, "linux"}, nil},
		{"", Spec{}, []string{"no policy", "gittins"}},
		{"@linux", Spec{}, []string{"no policy"}},
		{"+wp", Spec{}, []string{"no policy"}},
		{"FIFO", Spec{}, []string{`policy "FIFO" is unknown`, "fifo, rr, cfs"}},
		{"fif0", Spec{}, []string{`policy "fif0" is unknown`, `did you mean "fifo"?`}},
		{"gittins+", Spec{}, []string{`"" after +`, "+wp"}},
		{"gittins+pw", Spec{}, []string{`"pw" after +`, "+wp"}},
		{"gittins+wp+wp", Spec{}, []string{`"wp+wp" after +`}},
		{"gittins@", Spec{}, []string{"no profile after @"}},
		{"gittins@linus", Spec{}, []string{`profile "linus" is unknown`, "ghost-percpu", `did you mean "linux"?`}},
		{"gittins@linux+wp", Spec{}, []string{`profile "linux+wp"`}},
		{"front+wp", Spec{}, []string{"+wp", "keys"}},
		{"random+wp@ideal", Spec{}, []string{"+wp", "keys"}},
	} {
		got, err := ParseSpec(c.text, profiles...)
		if got != c.want || (err != nil) != (c.errs != nil) {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		for _, e := range c.errs {
			if err != nil && !strings.Contains(err.Error(), e) {
				t.Errorf("%q: error %q does not say %q", c.text, err, e)
			}
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"gittins+wp@ghost-global", "fifo", "", "@", "+", "a+b@c", "rr@x@y", "las+wp@ ", "\xff@\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			if s != (Spec{}) {
				t.Errorf("%q: %+v beside an error", text, s)
			}
			return
		}
		if s.String() != text {
			t.Errorf("%q reads as %+v, which writes as %q", text, s, s)
		}
		if _, err := Find(s.Policy); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
