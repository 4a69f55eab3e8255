package op

import "github.com/ghostgym/ghostgym/inference/graph"

func bindArgMax(c *Check) Kernel {
	if !c.Floats() {
		return Kernel{}
	}
	if c.Node.Has("select_last_index") && c.Opset < 12 {
		return c.Refuse("attribute \"select_last_index\" exists from opset 12 on")
	}
	dims := c.Node.In[0].Dims
	axis := c.Axis(c.Int("axis", 0), len(dims))
	if c.why != "" {
		return Kernel{}
	}
	c.Within(axis, dims)
	if dims[axis] == 0 {
		return c.Refuse("axis %d has no elements", axis)
	}
	keep, last := c.Int("keepdims", 1) != 0, c.Int("select_last_index", 0) != 0
	result := append([]int(nil), dims[:axis]...)
	if keep {
		result = append(result, 1)
	}
	c.Result(0, graph.Int64, append(result, dims[axis+1:]...))
	return Kernel{argMax[float32](axis, last), argMax[float64](axis, last)}
}

// argMax finds the first (or last) greatest element; NaN is greater than nothing.
func argMax[T Float](axis int, last bool) Func[T] {
	return func(in, out []Tensor[T]) {
		dims := in[0].Dims
		count, inner := dims[axis], size(dims[axis+1:])
		x := in[0].F
		for z := out[0].I; len(z) > 0; z, x = z[inner:], x[count*inner:] {
			for i := range inner {
				best := 0
				for j := 1; j < count; j++ {
					if v, top := x[j*inner+i], x[best*inner+i]; v > top || last && v == top {
						best = j
					}
				}
				z[i] = int64(best)
			}
		}
	}
}
