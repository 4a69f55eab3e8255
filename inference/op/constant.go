package op

import "github.com/ghostgym/ghostgym/inference/graph"

// bindConstant makes the result a constant; there is nothing to run.
func bindConstant(c *Check) Kernel {
	if len(c.Node.Attrs) != 1 {
		return c.Refuse("has %d values, expected one", len(c.Node.Attrs))
	}
	var t *graph.Tensor
	for _, v := range c.Node.Attrs {
		switch v := v.(type) {
		case *graph.Tensor:
			t = v
		case float32:
			t = &graph.Tensor{Type: graph.Float32, Dims: []int{}, Floats: []float32{v}}
		case []float32:
			t = &graph.Tensor{Type: graph.Float32, Dims: []int{len(v)}, Floats: v}
		case int64:
			t = &graph.Tensor{Type: graph.Int64, Dims: []int{}, Ints: []int64{v}}
		case []int64:
			t = &graph.Tensor{Type: graph.Int64, Dims: []int{len(v)}, Ints: v}
		default:
			return c.Refuse("its value is neither float32 nor int64")
		}
	}
	c.Result(0, t.Type, t.Dims)
	if c.why == "" {
		c.Node.Out[0].Const = t
	}
	return Kernel{}
}
