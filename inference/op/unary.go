package op

import (
	"math"

	"github.com/ghostgym/ghostgym/inference/f32"
	"github.com/ghostgym/ghostgym/inference/graph"
)

// each is the kernel of an element-wise function.
func each[T Float](f func(T) T) Func[T] {
	return func(in, out []Tensor[T]) {
		x := in[0].F
		for i := range out[0].F {
			out[0].F[i] = f(x[i])
		}
	}
}

func (c *Check) unary(f func(float32) float32, g func(float64) float64) Kernel {
	if !c.Floats() {
		return Kernel{}
	}
	c.Result(0, graph.Float32, c.Node.In[0].Dims)
	return Kernel{each(f), each(g)}
}

func relu[T Float](x T) T { return max(x, 0) }

func bindRelu(c *Check) Kernel { return c.unary(relu[float32], relu[float64]) }

func leakyRelu[T Float](alpha T) func(T) T {
	return func(x T) T {
		if x < 0 {
			return alpha * x
		}
		return x
	}
}

func bindLeakyRelu(c *Check) Kernel {
	a := c.Float("alpha", 0.01)
	return c.unary(leakyRelu(a), leakyRelu(float64(a)))
}

func bindTanh(c *Check) Kernel { return c.unary(f32.Tanh, math.Tanh) }

func bindSigmoid(c *Check) Kernel {
	return c.unary(f32.Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
}
