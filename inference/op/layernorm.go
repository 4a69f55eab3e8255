package op

import (
	"math"

	"github.com/ghostgym/ghostgym/inference/f32"
	"github.com/ghostgym/ghostgym/inference/graph"
)

func bindLayerNormalization(c *Check) Kernel {
	if !c.Floats() {
		return Kernel{}
	}
	dims := c.Node.In[0].Dims
	axis := c.Axis(c.Int("axis", -1), len(dims))
	c.Within(axis, dims)
	if c.Int("stash_type", 1) != int64(graph.Float32) {
		return c.Refuse("stash_type %d is not supported; only 1 (float32) is", c.Int("stash_type", 1))
	}
	eps := c.Float("epsilon", 1e-5)
	for i := 1; i < len(c.Node.In); i++ {
		v := c.Node.In[i]
		if v == nil {
			continue
		}
		if z, ok := broadcast(dims, v.Dims); !ok || len(z) != len(dims) || dimsString(z) != dimsString(dims) {
			return c.Refuse("operand %q of dimensions %s does not broadcast to %s", v.Name, dimsString(v.Dims), dimsString(dims))
		}
	}
	c.Result(0, graph.Float32, dims)
	reduced := append([]int(nil), dims...)
	for i := axis; i < len(dims); i++ {
		reduced[i] = 1
	}
	c.Result(1, graph.Float32, reduced)
	c.Result(2, graph.Float32, append([]int(nil), reduced...))
	return Kernel{layerNorm(axis, eps), layerNorm(axis, float64(eps))}
}

func layerNorm[T Float](axis int, eps T) Func[T] {
	return func(in, out []Tensor[T]) {
		dims := out[0].Dims
		width := size(dims[axis:])
		x, y := in[0].F, out[0].F
		for r := 0; len(y) > 0; r, x, y = r+1, x[width:], y[width:] {
			var sum, squares T
			for _, v := range x[:width] {
				sum += v
			}
			mean := sum / T(width)
			for _, v := range x[:width] {
				squares += T((v - mean) * (v - mean))
			}
			inv := 1 / T(math.Sqrt(float64(squares/T(width)+eps)))
			for i, v := range x[:width] {
				y[i] = (v - mean) * inv
			}
			if len(out) > 1 && out[1].F != nil {
				out[1].F[r] = mean
			}
			if len(out) > 2 && out[2].F != nil {
				out[2].F[r] = inv
			}
		}
		y = out[0].F
		elementwise(f32.Mul, y, y, in[1].F, dims, dims, in[1].Dims)
		if len(in) > 2 && in[2].F != nil {
			elementwise(f32.Add, y, y, in[2].F, dims, dims, in[2].Dims)
		}
	}
}
