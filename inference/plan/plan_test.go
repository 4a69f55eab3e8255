package plan

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/ghostgym/ghostgym/inference/onnx"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
)

func compile(t *testing.T, b []byte) *Program {
	t.Helper()
	g, err := onnx.Decode(b, onnx.Limits{MaxBytes: 1 << 20, MaxElements: 1 << 20, MaxItems: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(g, Options{MaxElements: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func names(p *Program) string {
	var s []string
	for i := range p.steps {
		s = append(s, p.steps[i].names)
	}
	return strings.Join(s, ", ")
}

func TestFusion(t *testing.T) {
	f := onnxtest.Floats
	start := func() *onnxtest.Builder {
		return onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").
			Init("w", f([]float32{1, 2, 3, 4}, 2, 2)).Init("b", f([]float32{1, 2}, 1, 2)).Init("k", f([]float32{3}))
	}
	cases := []struct {
		name  string
		model *onnxtest.Builder
		want  string
	}{
		{"bias and activation", start().Node("MatMul", []string{"x", "w"}, []string{"m"}, nil).
			Node("Add", []string{"b", "m"}, []string{"s"}, nil).Node("Relu", []string{"s"}, []string{"y"}, nil), "MatMul+Add+Relu"},
		{"a second bias stays", start().Node("MatMul", []string{"x", "w"}, []string{"m"}, nil).
			Node("Add", []string{"m", "b"}, []string{"s"}, nil).Node("Add", []string{"s", "k"}, []string{"y"}, nil), "MatMul+Add, Add"},
		{"a second activation stays", start().Node("MatMul", []string{"x", "w"}, []string{"m"}, nil).
			Node("Relu", []string{"m"}, []string{"s"}, nil).Node("Tanh", []string{"s"}, []string{"y"}, nil), "MatMul+Relu, Tanh"},
		{"a value with two readers stays", start().Node("MatMul", []string{"x", "w"}, []string{"m"}, nil).
			Node("Sigmoid", []string{"m"}, []string{"s"}, nil).Node("Mul", []string{"m", "s"}, []string{"y"}, nil), "MatMul, Sigmoid, Mul"},
		{"constants are folded", start().Node("Add", []string{"b", "k"}, []string{"c"}, nil).
			Node("Mul", []string{"w", "c"}, []string{"v"}, nil).Node("MatMul", []string{"x", "v"}, []string{"y"}, nil), "MatMul"},
		{"aliases cost nothing", start().Node("Identity", []string{"x"}, []string{"i"}, nil).
			Node("Flatten", []string{"i"}, []string{"f"}, nil).Node("Relu", []string{"f"}, []string{"y"}, nil), "Relu"},
		{"the input itself is copied", start().Node("Identity", []string{"x"}, []string{"y"}, nil), "copy"},
	}
	for _, c := range cases {
		p := compile(t, c.model.Bytes())
		if got := names(p); got != c.want {
			t.Errorf("%s: steps %s, want %s", c.name, got, c.want)
		}
		if !strings.Contains(p.Describe(), strings.Split(c.want, ",")[0]) {
			t.Errorf("%s: the description leaves the steps out:\n%s", c.name, p.Describe())
		}
	}
}

// A chain of any length takes the room of two values: the one read and the one written.
func TestArenaIsShared(t *testing.T) {
	b := onnxtest.New(17).Input("x", "n", 10).OutputUnshaped(1, "y")
	at := "x"
	for range 40 {
		b.Node("Relu", []string{at}, []string{at + "r"}, nil)
		at += "r"
	}
	p := compile(t, b.Node("Relu", []string{at}, []string{"y"}, nil).Bytes())
	if len(p.steps) != 41 || p.floats != 20 {
		t.Errorf("%d steps in an arena of %d floats a row, want 41 in 20", len(p.steps), p.floats)
	}
}

func TestFoldingIsBounded(t *testing.T) {
	b := onnxtest.New(17).Input("x", "n", 1).OutputUnshaped(1, "y").Init("k", onnxtest.Floats(make([]float32, 100), 100))
	at := "k"
	for range 30 { // 200 operations each
		b.Node("Relu", []string{at}, []string{at + "r"}, nil)
		at += "r"
	}
	g, err := onnx.Decode(b.Node("Add", []string{"x", at}, []string{"y"}, nil).Bytes(), onnx.Limits{MaxBytes: 1 << 20, MaxElements: 1000, MaxItems: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	binder := &binder{g: g, limit: 1000}
	binder.bind(g.Nodes)
	if len(binder.problems) == 0 || binder.folded > 1200 {
		t.Errorf("%d problems after %d operations", len(binder.problems), binder.folded)
	}
}

func TestProgramIsShared(t *testing.T) {
	p := compile(t, onnxtest.MLP(8, []int{16, 16}, 4, "Tanh", 1, nil))
	x := onnxtest.Normal(rand.New(rand.NewPCG(1, 1)), 8*8, 1)
	want := make([]float32, 8*4)
	st, err := p.NewState(8)
	if err != nil {
		t.Fatal(err)
	}
	st.Run(want, x, 8)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			st, err := p.NewState(8)
			if err != nil {
				t.Error(err)
				return
			}
			got := make([]float32, 8*4)
			for range 50 {
				st.Run(got, x, 8)
				for i, v := range got {
					if v != want[i] {
						t.Errorf("result %d = %v, want %v", i, v, want[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
