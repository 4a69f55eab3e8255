package plan

import (
	"github.com/ghostgym/ghostgym/inference/graph"
	"github.com/ghostgym/ghostgym/inference/op"
)

// Reference computes n rows of the output node by node in float64, with nothing fused: slow, and independent of
// the steps and of their float32 kernels. It is what the program is tested against.
func (p *Program) Reference(rows []float32, n int) []float64 {
	values := map[*graph.Value]op.Tensor[float64]{p.input: {Dims: dims(p.input, n), F: widen(rows)}}
	for _, b := range p.nodes {
		in := make([]op.Tensor[float64], len(b.node.In))
		for i, v := range b.node.In {
			switch {
			case v == nil:
			case v.Const != nil:
				in[i] = op.Tensor[float64]{Dims: v.Dims, F: widen(v.Const.Floats), I: v.Const.Ints}
			default:
				in[i] = values[v]
			}
		}
		out := make([]op.Tensor[float64], len(b.node.Out))
		for i, v := range b.node.Out {
			if v == nil {
				continue
			}
			out[i].Dims = dims(v, n)
			if v.Type == graph.Int64 {
				out[i].I = make([]int64, n*width(v))
			} else {
				out[i].F = make([]float64, n*width(v))
			}
		}
		b.kernel.F64(in, out)
		for i, v := range b.node.Out {
			if v != nil {
				values[v] = out[i]
			}
		}
	}
	y := values[p.output]
	if y.I == nil {
		return y.F
	}
	f := make([]float64, len(y.I))
	for i, v := range y.I {
		f[i] = float64(v)
	}
	return f
}

func widen(x []float32) []float64 {
	if x == nil {
		return nil
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
