package onnxtest

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// MLP is a fully connected network in → hidden… → out as bytes, with input "obs" of shape [batch, in] and output
// "score" of shape [batch, out]. act is the operator after every hidden layer (Relu, LeakyRelu, Tanh, Sigmoid; ""
// for none). Weights are normal with variance 1/fan-in, a function of seed alone.
func MLP(in int, hidden []int, out int, act string, seed uint64, meta map[string]string) []byte {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	b := New(17).Input("obs", "batch", in).Output("score", "batch", out)
	for k, v := range meta {
		b.Meta(k, v)
	}
	widths := append(append([]int{in}, hidden...), out)
	x := "obs"
	for i := 1; i < len(widths); i++ {
		k, n := widths[i-1], widths[i]
		w, c := fmt.Sprintf("w%d", i), fmt.Sprintf("b%d", i)
		b.Init(w, Floats(Normal(r, k*n, 1/math.Sqrt(float64(k))), int64(n), int64(k)))
		b.Init(c, Floats(Normal(r, n, 0.1), int64(n)))
		y := fmt.Sprintf("h%d", i)
		if i == len(widths)-1 {
			y = "score"
		}
		b.Node("Gemm", []string{x, w, c}, []string{y}, Attrs{"transB": 1})
		if x = y; i < len(widths)-1 && act != "" {
			x = fmt.Sprintf("a%d", i)
			b.Node(act, []string{y}, []string{x}, nil)
		}
	}
	return b.Bytes()
}

// Normal draws n normal numbers of the given standard deviation.
func Normal(r *rand.Rand, n int, sd float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * sd)
	}
	return v
}
