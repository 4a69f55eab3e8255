package models_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/sched/schedtest"
	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
	"github.com/ghostgym/ghostgym/models"
)

func metaOf(s *feature.Schema) map[string]string {
	return map[string]string{feature.MetaHash: s.Hash(), feature.MetaSchema: s.Text(), feature.MetaAction: s.Action.Kind}
}

func net(s *feature.Schema, meta map[string]string) []byte {
	return onnxtest.MLP(s.Width(), []int{16}, s.Action.Width(), "LeakyRelu", 4, meta)
}

// A model's answers are those of its graph on the rows of the batch, through the decoder.
func TestPolicyAnswersAsTheGraph(t *testing.T) {
	for _, s := range feature.Schemas() {
		data := net(s, metaOf(s))
		m, err := models.Load(data)
		if err != nil || m.Check() != nil || m.Schema() != s {
			t.Fatalf("%s: %v, %v", s.Kind, err, m.Check())
		}
		p, err := m.NewPolicy("rr")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := inference.Load(data, inference.Options{})
		if err != nil {
			t.Fatal(err)
		}
		machine := schedtest.New(t, 2, sched.Config{Order: s.Order(), Preempt: s.Order() == sched.ByKey})
		answers, different := 0, map[sched.Placement]bool{}
		out := make([]sched.Placement, 64)
		row, mask := make([]float32, s.Width()), make([]uint8, s.Action.Width())
		scores := make([]float32, s.Action.Width())
		session, err := raw.NewSession(1)
		if err != nil {
			t.Fatal(err)
		}
		machine.Shuffle(5, 24, 800, p, func(batch []sched.Decision) {
			p.Place(machine.Core.View(), batch, out[:len(batch)])
			for i := range batch {
				s.Encode(machine.Core.View(), &batch[i], row)
				if err := session.Score(row, 1, scores); err != nil {
					t.Fatal(err)
				}
				want := sched.ToBack()
				if s.Order() == sched.ByKey {
					want.Key, want.Clipped = s.DecodeKey(scores[0])
				} else {
					s.Mask(machine.Core.View(), &batch[i], mask)
					want.Slot = int32(feature.ArgMax(scores, mask))
				}
				if out[i] != want {
					t.Fatalf("%s: %+v, want %+v", s.Kind, out[i], want)
				}
				answers++
				different[want] = true
			}
		})
		if answers < 300 || len(different) < 3 {
			t.Errorf("%s: %d answers, %d different", s.Kind, answers, len(different))
		}
		if n := p.(*policy.Learned).Counts(); n != (policy.FallbackCounts{}) {
			t.Errorf("%s: the fallback answered: %+v", s.Kind, n)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := feature.Priority
	older := strings.Replace(p.Text(), "feature ln_burst unit=ln", "feature ln_mean unit=ln", 1)
	with := func(key, value string) map[string]string {
		meta := metaOf(p)
		meta[key] = value
		return meta
	}
	foreign := with(feature.MetaHash, strings.Repeat("ab", 32))
	foreign[feature.MetaSchema] = older
	silent := maps.Clone(foreign)
	delete(silent, feature.MetaSchema)
	unnamed := maps.Clone(foreign)
	forged := with(feature.MetaHash, strings.Repeat("cd", 32))
	delete(unnamed, feature.MetaAction)
	for name, c := range map[string]struct {
		data []byte
		says []string
	}{
		"plain":       {net(p, nil), []string{"does not say what its rows are", feature.MetaHash, "stamp"}},
		"foreign":     {net(p, foreign), []string{strings.Repeat("ab", 32), p.Hash(), "ln_burst: ours only", "ln_mean: theirs only"}},
		"silent":      {net(p, silent), []string{strings.Repeat("ab", 32), p.Hash(), "no schema text"}},
		"unnamed":     {net(p, unnamed), []string{strings.Repeat("ab", 32), feature.MetaAction, "want key or slot"}},
		"forged":      {net(p, forged), []string{strings.Repeat("cd", 32), p.Hash(), "contradict"}},
		"ranges":      {net(p, with(feature.MetaRanges, `{"cpus": 4}`)), []string{feature.MetaRanges, "lowest"}},
		"other kind":  {net(p, with(feature.MetaAction, "slot")), []string{`"slot"`, `"key"`}},
		"narrow":      {onnxtest.MLP(5, nil, 1, "", 1, metaOf(p)), []string{"rows of 5", "has 19"}},
		"many scores": {onnxtest.MLP(p.Width(), nil, 2, "", 1, metaOf(p)), []string{"gives 2 numbers", "takes 1"}},
	} {
		m, err := models.Load(c.data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Schema() != nil || m.Check() == nil {
			t.Fatalf("%s is not refused", name)
		}
		_, err = m.NewPolicy("rr")
		for _, s := range c.says {
			if err == nil || !strings.Contains(err.Error(), s) || !strings.Contains(err.Error(), m.Name()) {
				t.Errorf("%s: the error does not say %q: %v", name, s, err)
			}
		}
		if errors.Is(err, models.ErrNoSchema) != (name == "plain") {
			t.Errorf("%s: ErrNoSchema is wrong about %v", name, err)
		}
		var differs *models.SchemaError
		if errors.As(err, &differs) != (name == "foreign" || name == "silent" || name == "forged") {
			t.Errorf("%s: SchemaError is wrong about %v", name, err)
		}
		// it can be run on rows of its own all the same
		s, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float32, 2*m.OutWidth())
		if err := s.Score(make([]float32, 2*m.Width()), 2, out); err != nil || out[0] != out[m.OutWidth()] {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "noise": []byte("no model"), "truncated": net(p, metaOf(p))[:300],
	} {
		if m, err := models.Load(data); err == nil {
			t.Errorf("%s loads as %s", name, m.Name())
		}
	}
	m, err := models.Load(net(p, metaOf(p)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewPolicy("front"); err == nil || !strings.Contains(err.Error(), "front does not answer by key") {
		t.Errorf("fallback of the wrong order: %v", err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	if _, err := models.LoadFile(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, net(feature.Priority, metaOf(feature.Priority)), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := models.LoadFile(path)
	if err != nil || m.Name() != path {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(path, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := models.LoadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("noise: %v", err)
	}
}

func TestOutside(t *testing.T) {
	meta := metaOf(feature.Priority)
	meta[feature.MetaRanges] = `{"cpus": [4, 8], "load": [0.5, 0.95]}`
	m, err := models.Load(net(feature.Priority, meta))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values map[string]float64
		names  []string
	}{
		{map[string]float64{"cpus": 4, "load": 0.95, "phase": 99}, nil},
		{map[string]float64{"cpus": 16, "load": 0.2}, []string{"cpus is 16", "load is 0.2"}},
		{map[string]float64{"cpus": 3}, []string{"cpus is 3"}},
		{map[string]float64{"cpus": math.NaN()}, []string{"cpus is NaN"}},
	} {
		w := m.Outside(c.values)
		if len(w) != len(c.names) {
			t.Fatalf("%v: %q", c.values, w)
		}
		for i := range w {
			if !strings.Contains(w[i], c.names[i]) {
				t.Errorf("%q does not say %q", w[i], c.names[i])
			}
		}
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema   string                `msgpack:"schema"`
		Refusal  string                `msgpack:"refusal"`
		Width    int                   `msgpack:"width"`
		OutWidth int                   `msgpack:"out_width"`
		Metadata map[string]string     `msgpack:"metadata"`
		Ranges   map[string][2]float64 `msgpack:"ranges"`
	}
	if err := msgpack.Unmarshal(info, &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != "priority" || got.Refusal != "" || got.Width != feature.Priority.Width() || got.OutWidth != 1 ||
		!maps.Equal(got.Metadata, meta) || got.Ranges["load"] != [2]float64{0.5, 0.95} {
		t.Errorf("info %+v", got)
	}
}

// A graph that ends in an arg-max of its own is run as it is: its index is the action, the back where that is illegal.
func TestArgMaxTail(t *testing.T) {
	s := feature.Placement
	r := rand.New(rand.NewPCG(1, 2))
	weights := onnxtest.Normal(r, s.Width()*9, 1)
	graph := func(tail bool) []byte {
		b := onnxtest.New(17).Input("obs", "batch", s.Width()).Init("w", onnxtest.Floats(weights, int64(s.Width()), 9))
		for k, v := range metaOf(s) {
			b.Meta(k, v)
		}
		if !tail {
			return b.Node("MatMul", []string{"obs", "w"}, []string{"logits"}, nil).Output("logits", "batch", 9).Bytes()
		}
		return b.Node("MatMul", []string{"obs", "w"}, []string{"logits"}, nil).
			Node("ArgMax", []string{"logits"}, []string{"action"}, onnxtest.Attrs{"axis": 1, "keepdims": 1}).
			OutputOf(7, "action", "batch", 1).Bytes()
	}
	m, err := models.Load(graph(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.NewPolicy("rr")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := inference.Load(graph(false), inference.Options{})
	if err != nil {
		t.Fatal(err)
	}
	session, err := raw.NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	machine := schedtest.New(t, 6, sched.Config{Order: sched.BySlot})
	row, logits, mask, out := make([]float32, s.Width()), make([]float32, 9), make([]uint8, 9), make([]sched.Placement, 64)
	legal, illegal := 0, 0
	machine.Shuffle(9, 16, 1500, p, func(batch []sched.Decision) {
		p.Place(machine.Core.View(), batch, out[:len(batch)])
		for i := range batch {
			s.Encode(machine.Core.View(), &batch[i], row)
			s.Mask(machine.Core.View(), &batch[i], mask)
			if err := session.Score(row, 1, logits); err != nil {
				t.Fatal(err)
			}
			want, ok := feature.DecodeSlot(slices.Index(logits, slices.Max(logits)), mask)
			if ok {
				legal++
			} else {
				illegal++
			}
			if out[i].Slot != want || out[i].Source != sched.FromPolicy {
				t.Fatalf("%+v, want slot %d", out[i], want)
			}
		}
	})
	if legal < 50 || illegal < 50 {
		t.Errorf("only %d legal and %d illegal actions", legal, illegal)
	}
}

func TestPolicyDoesNotAllocate(t *testing.T) {
	m, err := models.Load(net(feature.Priority, metaOf(feature.Priority)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.NewPolicy("gittins")
	if err != nil {
		t.Fatal(err)
	}
	machine := schedtest.New(t, 2, sched.Config{Order: sched.ByKey})
	machine.Shuffle(3, 20, 500, p, nil)
	for i := range 4 {
		machine.Enter(50+i, 0)
	}
	batch := machine.Observe(100 * kernel.Microsecond)
	out := make([]sched.Placement, len(batch))
	if n := testing.AllocsPerRun(100, func() { p.Place(machine.Core.View(), batch, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
