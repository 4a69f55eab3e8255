package policy

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/sched"
)

func schemaBy(o sched.Order) *feature.Schema {
	if o == sched.ByKey {
		return feature.Priority
	}
	return feature.Placement
}

// linear is a model without weights of its own: output j of a row is the sum of its numbers times (j+1)/8, and change may alter
// what it gives.
type linear struct {
	change func(n int, out []float32) error
	calls  int
}

func (l *linear) Score(rows []float32, n int, out []float32) error {
	l.calls++
	width, actions := len(rows)/n, len(out)/n
	for i := range n {
		sum := float32(0)
		for _, x := range rows[i*width : (i+1)*width] {
			sum += x
		}
		for j := range actions {
			out[i*actions+j] = sum * float32(j+1) / 8
		}
	}
	if l.change != nil {
		return l.change(n, out)
	}
	return nil
}

func learned(t *testing.T, order sched.Order, fallback string) (*Learned, *linear) {
	t.Helper()
	s := &linear{}
	p, err := newLearnedByName(Config{Scorer: s, Schema: schemaBy(order), Fallback: fallback})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Learned), s
}

func TestLearnedKeys(t *testing.T) {
	p, s := learned(t, sched.ByKey, "las")
	v, batch := frozen(t, sched.ByKey, p)
	p.Reset(0)
	s.calls = 0
	out := make([]sched.Placement, len(batch))
	p.Place(v, batch, out)
	if s.calls != 1 {
		t.Errorf("%d calls for one batch", s.calls)
	}
	width := feature.Priority.Width()
	row := make([]float32, width)
	for i := range batch {
		feature.Priority.Encode(v, &batch[i], row)
		sum := float32(0)
		for j, x := range row {
			sum += x
			if p.Rows()[i*width+j] != x {
				t.Errorf("decision %d: Rows are not those that were scored", i)
			}
		}
		want := math.Max(-feature.KeyBound, math.Min(feature.KeyBound, float64(sum/8)))
		if out[i] != (sched.Placement{Key: want, Slot: sched.Back}) || p.Scores()[i] != sum/8 {
			t.Errorf("decision %d: %+v, score %v, want key %v", i, out[i], p.Scores()[i], want)
		}
	}
	if !batch[len(batch)-1].Running {
		t.Error("the batch has no row of a running task")
	}
}

func TestLearnedSlots(t *testing.T) {
	p, s := learned(t, sched.BySlot, "rr")
	v, batch := frozen(t, sched.BySlot, p)
	out := make([]sched.Placement, len(batch))
	n := v.Len(0)
	if n < 2 {
		t.Fatalf("%d wait", n)
	}
	inf := float32(math.Inf(1))
	set := func(logits ...float32) {
		s.change = func(n int, out []float32) error {
			for i := range n {
				copy(out[i*9:], logits)
			}
			return nil
		}
	}
	for _, c := range []struct {
		logits []float32
		slot   int32
		source sched.Source
	}{
		{[]float32{0, 5, 0, 0, 0, 0, 0, 0, 1}, 1, sched.FromPolicy},
		{[]float32{7, 7, 0, 0, 0, 0, 0, 0, 7}, 0, sched.FromPolicy},
		{[]float32{0, 0, 0, 0, 0, 0, 0, 0, 1}, sched.Back, sched.FromPolicy},
		{[]float32{0, inf, 0, 0, 0, 0, 0, 0, 1}, sched.Back, sched.FallbackNonFinite},
		{[]float32{0, 1, 0, 0, 0, 0, 0, 0, float32(math.NaN())}, sched.Back, sched.FallbackNonFinite},
	} {
		set(c.logits...)
		p.Place(v, batch, out)
		for i := range batch {
			if out[i].Slot != c.slot || out[i].Source != c.source {
				t.Errorf("logits %v: %+v, want slot %d", c.logits, out[i], c.slot)
			}
		}
	}
	// where few wait, a slot behind them cannot win, whatever its logit is
	m := machine(t, 1, sched.Config{Order: sched.BySlot}, p)
	set(1, 0, -inf, 9, 9, 9, 9, float32(math.NaN()), 0)
	for n := range 3 {
		m.Enter(n, 0).Turn(us, p)
	}
	m.Enter(3, 0)
	p.Reset(0)
	p.Place(m.Core.View(), m.Observe(us), out[:1])
	if out[0].Slot != 0 || out[0].Source != sched.FromPolicy || p.Counts() != (FallbackCounts{}) {
		t.Errorf("two wait: %+v, %+v", out[0], p.Counts())
	}
}

func TestLearnedFallsBack(t *testing.T) {
	p, s := learned(t, sched.ByKey, "las")
	v, batch := frozen(t, sched.ByKey, p)
	p.Reset(0)
	want, out := make([]sched.Placement, len(batch)), make([]sched.Placement, len(batch))
	las{}.Place(v, batch, want)

	broken := errors.New("broken")
	s.change = func(int, []float32) error { return broken }
	p.Place(v, batch, out)
	for i := range out {
		if out[i].Key != want[i].Key || out[i].Source != sched.FallbackFailed {
			t.Errorf("decision %d of a failed batch: %+v, want %+v of the fallback", i, out[i], want[i])
		}
	}
	if c := p.Counts(); c != (FallbackCounts{Errors: uint64(len(batch))}) || p.Err() != broken || len(p.Scores()) != 0 || len(p.Rows()) == 0 {
		t.Errorf("counts %+v, error %v, %d scores", c, p.Err(), len(p.Scores()))
	}

	p.Reset(0)
	s.change = func(n int, out []float32) error {
		clear(out)
		out[0], out[1], out[2], out[3] = float32(math.NaN()), 1e9, float32(math.Inf(-1)), -0.5
		return nil
	}
	p.Place(v, batch, out)
	for i, w := range []sched.Placement{
		{Key: want[0].Key, Slot: sched.Back, Source: sched.FallbackNonFinite},
		{Key: feature.KeyBound, Slot: sched.Back, Clipped: true},
		{Key: want[2].Key, Slot: sched.Back, Source: sched.FallbackNonFinite},
		{Key: -0.5, Slot: sched.Back},
	} {
		if out[i] != w {
			t.Errorf("decision %d: %+v, want %+v", i, out[i], w)
		}
	}
	if c := p.Counts(); c != (FallbackCounts{NonFinite: 2}) || p.Err() != nil {
		t.Errorf("counts %+v, error %v", c, p.Err())
	}
}

func TestLearnedIsRefused(t *testing.T) {
	for _, c := range []struct {
		config Config
		says   string
	}{
		{Config{}, "needs a model"},
		{Config{Scorer: &linear{}, Schema: feature.Priority, Fallback: "none"}, `fallback: policy "none" is unknown`},
		{Config{Scorer: &linear{}, Schema: feature.Priority, Fallback: "learned"}, "no heuristic"},
		{Config{Scorer: &linear{}, Schema: feature.Priority, Fallback: "front"}, "front does not answer by key"},
		{Config{Scorer: &linear{}, Schema: feature.Placement, Fallback: "gittins"}, "gittins does not answer by slot"},
	} {
		if _, err := newLearnedByName(c.config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error %v does not say %q", c.config, err, c.says)
		}
	}
	if _, err := NewLearned(&linear{}, feature.Priority, nil); err == nil {
		t.Error("no fallback: no error")
	}
}
