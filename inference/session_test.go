package inference_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
)

func load(t testing.TB, b []byte) *inference.Model {
	t.Helper()
	m, err := inference.Load(b, inference.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func session(t testing.TB, m *inference.Model, n int) *inference.Session {
	t.Helper()
	s, err := m.NewSession(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func score(t testing.TB, s *inference.Session, rows []float32, n int) []float32 {
	t.Helper()
	out := make([]float32, n*s.Model().OutWidth())
	if err := s.Score(rows, n, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// near fails unless got agrees with the float64 reference.
func near(t testing.TB, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= tolerance*(1+math.Abs(w))) {
			t.Fatalf("result %d = %v, want %v (off by %g)", i, got[i], w, d)
		}
	}
}

func TestMLPAgreesWithReference(t *testing.T) {
	for _, act := range []string{"", "Relu", "LeakyRelu", "Tanh", "Sigmoid"} {
		m := load(t, onnxtest.MLP(20, []int{16, 7}, 9, act, 3, map[string]string{"k": "v"}))
		if m.Width() != 20 || m.OutWidth() != 9 || m.Meta()["k"] != "v" || len(m.Hash()) != 64 {
			t.Fatalf("%s: width %d, out %d, meta %v, hash %q", act, m.Width(), m.OutWidth(), m.Meta(), m.Hash())
		}
		rows := onnxtest.Normal(rand.New(rand.NewPCG(1, 1)), 33*20, 1)
		want, err := m.Reference(rows, 33)
		if err != nil {
			t.Fatal(err)
		}
		near(t, score(t, session(t, m, 33), rows, 33), want, 1e-6)
	}
}

func TestScoreDoesNotAllocate(t *testing.T) {
	m := load(t, kitchenSink())
	s := session(t, m, 64)
	rows, out := make([]float32, 64*m.Width()), make([]float32, 64*m.OutWidth())
	for _, n := range []int{1, 7, 64} {
		if a := testing.AllocsPerRun(50, func() {
			if err := s.Score(rows, n, out); err != nil {
				t.Fatal(err)
			}
		}); a != 0 {
			t.Errorf("batch %d: %v allocations", n, a)
		}
	}
}

func TestRowsDoNotDependOnTheBatch(t *testing.T) {
	for name, b := range map[string][]byte{
		"mlp": onnxtest.MLP(20, []int{33, 16}, 9, "Tanh", 5, nil), "all operators": kitchenSink(),
	} {
		m := load(t, b)
		const n = 65
		rows := onnxtest.Normal(rand.New(rand.NewPCG(2, 2)), n*m.Width(), 2)
		whole := score(t, session(t, m, 1), rows, n) // grows
		s := session(t, m, n)
		for _, size := range []int{1, 2, 3, 8, 31, 64} {
			for at := 0; at+size <= n; at += size {
				part := score(t, s, rows[at*m.Width():], size)
				for i, v := range part {
					if w := whole[at*m.OutWidth()+i]; math.Float32bits(v) != math.Float32bits(w) {
						t.Fatalf("%s: batch of %d at row %d: result %d is %v, alone %v", name, size, at, i, v, w)
					}
				}
			}
		}
	}
}

func TestScoreRefusesShortSlices(t *testing.T) {
	m := load(t, onnxtest.MLP(4, nil, 2, "", 1, nil))
	s := session(t, m, 2)
	for _, c := range []struct{ in, n, out int }{{7, 2, 4}, {8, 2, 3}, {8, -1, 4}, {8, math.MaxInt / 2, 4}} {
		if err := s.Score(make([]float32, c.in), c.n, make([]float32, c.out)); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	if _, err := m.NewSession(0); err == nil {
		t.Error("a session for 0 rows: no error")
	}
	if err := s.Score(nil, 0, nil); err != nil {
		t.Error(err)
	}
}

// kitchenSink uses every supported operator in ways that no fast path covers, beside those that one does.
func kitchenSink() []byte {
	r := rand.New(rand.NewPCG(7, 7))
	f := func(n int, dims ...int64) onnxtest.Tensor { return onnxtest.Floats(onnxtest.Normal(r, n, 1), dims...) }
	b := onnxtest.New(17).Input("x", "n", 4, 6).Output("y", "n", "width")
	b.Init("mean", f(6, 6)).Init("sd", onnxtest.Floats([]float32{1, 2, 3, 4, 5, 6}, 6)).
		Init("w", f(30, 6, 5)).Init("b", f(5, 5)).Init("wide", f(20, 4, 5)).Init("gamma", f(5, 5)).Init("beta", f(5, 5)).
		Init("lo", onnxtest.Floats([]float32{-1})).Init("hi", onnxtest.Floats([]float32{1.5})).
		Init("w2", f(40, 2, 20)).Init("b2", f(2, 1, 2)).
		Init("rows", onnxtest.Ints([]int64{-1, 20}, 2)).Init("cubes", onnxtest.Ints([]int64{0, 5, 4}, 3))
	n := func(op, in1, in2, in3, out string, attrs onnxtest.Attrs) {
		in := []string{in1}
		for _, v := range []string{in2, in3} {
			if v != "" {
				in = append(in, v)
			}
		}
		b.Node(op, in, []string{out}, attrs)
	}
	b.Node("Constant", nil, []string{"half"}, onnxtest.Attrs{"value_float": float32(0.5)})
	n("Sub", "x", "mean", "", "centred", nil)
	n("Div", "centred", "sd", "", "unit", nil)
	n("MatMul", "unit", "w", "", "product", nil)
	n("Add", "product", "b", "", "sum", nil)
	n("LeakyRelu", "sum", "", "", "leaky", onnxtest.Attrs{"alpha": float32(0.2)})
	n("LayerNormalization", "leaky", "gamma", "beta", "normal", onnxtest.Attrs{"axis": -1})
	n("Mul", "wide", "normal", "", "scaled", nil)
	n("Identity", "scaled", "", "", "same", nil)
	n("Reshape", "same", "cubes", "", "cube", nil)
	n("MatMul", "same", "cube", "", "square", nil) // n×4×5 · n×5×4
	n("Softmax", "square", "", "", "inner", onnxtest.Attrs{"axis": 1})
	n("ArgMax", "square", "", "", "best", onnxtest.Attrs{"axis": 2, "keepdims": 0})
	n("Tanh", "inner", "", "", "tanh", nil)
	n("Mul", "tanh", "inner", "", "gated", nil)
	n("Flatten", "gated", "", "", "flat", nil)
	n("Reshape", "same", "rows", "", "flat2", nil)
	n("Clip", "flat2", "lo", "hi", "clipped", nil)
	n("Gemm", "clipped", "w2", "b2", "head", onnxtest.Attrs{"transB": 1, "alpha": float32(0.5), "beta": float32(2)})
	n("Sigmoid", "head", "", "", "gate", nil)
	n("Relu", "head", "", "", "relu", nil)
	n("Div", "half", "gate", "", "inverse", nil)
	b.Node("Concat", []string{"flat", "gate", "relu", "inverse"}, []string{"y"}, onnxtest.Attrs{"axis": -1})
	return b.Bytes()
}

func TestEveryOperatorAgreesWithReference(t *testing.T) {
	m := load(t, kitchenSink())
	rows := onnxtest.Normal(rand.New(rand.NewPCG(4, 4)), 9*m.Width(), 1)
	want, err := m.Reference(rows, 9)
	if err != nil {
		t.Fatal(err)
	}
	if m.Width() != 24 || m.OutWidth() != 22 {
		t.Fatalf("width %d, out %d\n%s", m.Width(), m.OutWidth(), m.Describe())
	}
	near(t, score(t, session(t, m, 4), rows, 9), want, 2e-5)
}

func BenchmarkScore(b *testing.B) {
	for _, net := range []struct {
		name   string
		in     int
		hidden []int
		out    int
		act    string
	}{
		{"20-16-1/LeakyRelu", 20, []int{16}, 1, "LeakyRelu"},
		{"64-64-64-9/Relu", 64, []int{64, 64}, 9, "Relu"},
		{"64-64-64-9/Tanh", 64, []int{64, 64}, 9, "Tanh"},
	} {
		m := load(b, onnxtest.MLP(net.in, net.hidden, net.out, net.act, 1, nil))
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/batch=%d", net.name, n), func(b *testing.B) {
				s := session(b, m, n)
				rows := onnxtest.Normal(rand.New(rand.NewPCG(1, 1)), n*m.Width(), 1)
				out := make([]float32, n*m.OutWidth())
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Score(rows, n, out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
			})
		}
	}
}
