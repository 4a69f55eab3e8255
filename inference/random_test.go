package inference_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ghostgym/ghostgym/inference/onnxtest"
)

// randomGraph is a graph of count nodes over values of shape [n, k], [n, 2, k/2] or wider, each node reading any
// earlier values: long lives, several readers, aliases, joined paths. Some of them, side by side, are the output; widths
// are theirs.
func randomGraph(r *rand.Rand, count int) (model []byte, widths []int) {
	b := onnxtest.New(17).Input("x", "n", 6).OutputUnshaped(1, "y")
	b.Init("deep", onnxtest.Ints([]int64{0, 2, -1}, 3)).Init("lo", onnxtest.Floats(floats(-1))).Init("hi", onnxtest.Floats(floats(1)))
	type value struct {
		name string
		dims []int // without the batch
	}
	values := []value{{"x", []int{6}}}
	constants := 0
	constant := func(dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		constants++
		name := fmt.Sprintf("c%d", constants)
		b.Init(name, onnxtest.Floats(onnxtest.Normal(r, int(n), 0.5), dims...))
		return name
	}
	for i := range count {
		v := values[r.IntN(len(values))]
		if r.IntN(3) == 0 { // most often go on from the last, so that paths grow long
			v = values[len(values)-1]
		}
		last := v.dims[len(v.dims)-1]
		out := value{fmt.Sprintf("v%d", i), v.dims}
		node := func(op string, a attrs, in ...string) { b.Node(op, in, []string{out.name}, a) }
		switch r.IntN(12) {
		case 0:
			k := 1 + r.IntN(9)
			out.dims = append(append([]int{}, v.dims[:len(v.dims)-1]...), k)
			node("MatMul", nil, v.name, constant(int64(last), int64(k)))
		case 1:
			node([]string{"Relu", "LeakyRelu", "Tanh", "Sigmoid", "Identity"}[r.IntN(5)], nil, v.name)
		case 2:
			node("Clip", nil, v.name, "lo", "hi")
		case 3:
			node([]string{"Add", "Sub", "Mul"}[r.IntN(3)], nil, v.name, constant(int64(last)))
		case 4:
			node([]string{"Add", "Sub", "Mul"}[r.IntN(3)], nil, constant(1), v.name)
		case 5, 6: // two values of the same shape, or one twice
			w := values[r.IntN(len(values))]
			if fmt.Sprint(w.dims) != fmt.Sprint(v.dims) {
				w = v
			}
			node([]string{"Add", "Sub", "Mul"}[r.IntN(3)], nil, v.name, w.name)
		case 7:
			node("Softmax", attrs{"axis": 1 + r.IntN(len(v.dims))}, v.name)
		case 8:
			node("LayerNormalization", attrs{"axis": -1}, v.name, constant(int64(last)), constant(int64(last)))
		case 9:
			if last > 20 {
				node("Relu", nil, v.name)
				break
			}
			out.dims = append(append([]int{}, v.dims[:len(v.dims)-1]...), 2*last)
			node("Concat", attrs{"axis": -1}, v.name, v.name)
		case 10:
			size := 1
			for _, d := range v.dims {
				size *= d
			}
			out.dims = []int{size}
			node("Flatten", nil, v.name)
		case 11:
			if len(v.dims) != 1 || last%2 != 0 {
				node("Tanh", nil, v.name)
				break
			}
			out.dims = []int{2, last / 2}
			node("Reshape", nil, v.name, "deep")
		}
		values = append(values, out)
	}
	var all []string
	share := []float64{0.2, 1}[r.IntN(2)] // few outputs let buffers be shared, many let none be pruned
	for i, v := range values {
		if i < len(values)-1 && r.Float64() > share {
			continue
		}
		size := 1
		for _, d := range v.dims {
			size *= d
		}
		widths, all = append(widths, size), append(all, v.name+"_flat")
		b.Node("Flatten", []string{v.name}, []string{v.name + "_flat"}, nil)
	}
	return b.Node("Concat", all, []string{"y"}, attrs{"axis": 1}).Bytes(), widths
}

// TestRandomGraphs holds fusion, buffer sharing and the fast steps against the float64 reference, which has none.
func TestRandomGraphs(t *testing.T) {
	const rows = 5
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 11))
		b, widths := randomGraph(r, 2+r.IntN(30))
		m := load(t, b)
		x := onnxtest.Normal(r, rows*m.Width(), 1)
		want, err := m.Reference(x, rows)
		if err != nil {
			t.Fatal(err)
		}
		got := score(t, session(t, m, rows), x, rows)
		for row := range rows {
			for i, w := range widths {
				top := 1.0 // a value's rounding error is relative to its largest element
				for _, v := range want[:w] {
					top = max(top, math.Abs(v))
				}
				for j, v := range want[:w] {
					if d := math.Abs(float64(got[j]) - v); top < 1e6 && !(d <= 1e-3*top) {
						t.Fatalf("seed %d, row %d: value %d[%d] = %v, want %v\n%s", seed, row, i, j, got[j], v, m.Describe())
					}
				}
				got, want = got[w:], want[w:]
			}
		}
	}
}
