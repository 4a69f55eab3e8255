package op

import (
	"math"

	"github.com/ghostgym/ghostgym/inference/f32"
	"github.com/ghostgym/ghostgym/inference/graph"
)

// Before opset 13 Softmax runs over all axes from its own (default 1) on, as one; from then on, over its axis
// alone (default the last).
func bindSoftmax(c *Check) Kernel {
	if !c.Floats() {
		return Kernel{}
	}
	dims := c.Node.In[0].Dims
	def, first := int64(-1), c.Opset >= 13
	if !first {
		def = 1
	}
	axis := c.Axis(c.Int("axis", def), len(dims))
	c.Within(axis, dims)
	end := len(dims)
	if first {
		end = axis + 1
	}
	c.Result(0, graph.Float32, dims)
	return Kernel{softmax(axis, end, f32.Exp), softmax(axis, end, math.Exp)}
}

// softmax normalises over axes [axis, end): x is outer blocks of count elements, inner apart.
func softmax[T Float](axis, end int, exp func(T) T) Func[T] {
	return func(in, out []Tensor[T]) {
		dims := out[0].Dims
		count, inner := size(dims[axis:end]), size(dims[end:])
		block := count * inner
		x, y := in[0].F, out[0].F
		for ; len(y) > 0; x, y = x[block:], y[block:] {
			for i := range inner {
				top := x[i]
				for j := i; j < block; j += inner {
					top = max(top, x[j])
				}
				var sum T
				for j := i; j < block; j += inner {
					y[j] = exp(x[j] - top)
					sum += y[j]
				}
				for j := i; j < block; j += inner {
					y[j] /= sum
				}
			}
		}
	}
}
