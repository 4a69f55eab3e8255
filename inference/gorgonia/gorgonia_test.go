package gorgonia_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/inference/gorgonia"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
)

func agree(t *testing.T, b []byte, n int) {
	t.Helper()
	m, err := inference.Load(b, inference.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(n)
	if err != nil {
		t.Fatal(err)
	}
	rows := onnxtest.Normal(rand.New(rand.NewPCG(uint64(n), 5)), n*m.Width(), 1)
	got := make([]float32, n*m.OutWidth())
	if err := s.Score(rows, n, got); err != nil {
		t.Fatal(err)
	}
	want, err := gorgonia.Score(b, rows, n)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i] - w)); !(d <= 1e-5) {
			t.Fatalf("batch %d: result %d = %v, Gorgonia has %v", n, i, got[i], w)
		}
	}
}

func TestAgreesWithGorgonia(t *testing.T) {
	for _, act := range []string{"", "Relu", "LeakyRelu", "Tanh", "Sigmoid"} {
		for _, n := range []int{2, 7, 33} {
			agree(t, onnxtest.MLP(11, []int{16, 5}, 4, act, 9, nil), n)
		}
	}
	r := rand.New(rand.NewPCG(3, 3))
	b := onnxtest.New(13).Input("x", "n", 6).Output("y", "n", 4).
		Init("w", onnxtest.Floats(onnxtest.Normal(r, 24, 1), 6, 4)).
		Node("MatMul", []string{"x", "w"}, []string{"h"}, nil).
		Node("Sigmoid", []string{"h"}, []string{"gate"}, nil).
		Node("Mul", []string{"h", "gate"}, []string{"swish"}, nil).
		Node("Softmax", []string{"swish"}, []string{"y"}, onnxtest.Attrs{"axis": -1}).Bytes()
	for _, n := range []int{2, 9} {
		agree(t, b, n)
	}
}

func TestRefusesWhatTheBackendGetsWrong(t *testing.T) {
	gemm := onnxtest.MLP(3, []int{4}, 2, "Tanh", 1, nil)
	square := onnxtest.New(13).Input("x", "n", 3).Output("y", "n", 3).
		Node("Mul", []string{"x", "x"}, []string{"y"}, nil).Bytes()
	for name, c := range map[string]struct {
		file []byte
		n    int
		want string
	}{
		"Gemm at one row": {gemm, 1, "one row"},
		"Mul(x, x)":       {square, 2, "twice"},
	} {
		_, err := gorgonia.Score(c.file, make([]float32, 3*c.n), c.n)
		var r *inference.Refusal
		if !errors.As(err, &r) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal with %q", name, err, c.want)
		}
	}
	if _, err := gorgonia.Score(gemm, make([]float32, 5), 2); err == nil {
		t.Error("half a row: no error")
	}
}
