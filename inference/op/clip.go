package op

import (
	"math"

	"github.com/ghostgym/ghostgym/inference/graph"
)

// ClipBounds are the bounds of a Clip node: attributes before opset 11, constant operands from then on.
func ClipBounds(n *graph.Node, opset int64) (lo, hi float32, why string) {
	lo, hi = float32(-math.MaxFloat32), float32(math.MaxFloat32)
	if opset < 11 {
		if len(n.In) > 1 {
			return lo, hi, "bounds are attributes before opset 11, not operands"
		}
		return n.Float("min", lo), n.Float("max", hi), ""
	}
	if len(n.Attrs) > 0 {
		return lo, hi, "bounds are operands from opset 11 on, not attributes"
	}
	lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	for i, bound := range []*float32{1: &lo, 2: &hi} {
		v := n.Input(i)
		switch {
		case i == 0 || v == nil:
		case v.Const == nil:
			return lo, hi, "its bounds are not constant"
		case v.Type != graph.Float32 || v.Const.Len() != 1 || len(v.Dims) > 0 && size(v.Dims) != 1:
			return lo, hi, "its bounds are not single float32 numbers"
		default:
			*bound = v.Const.Floats[0]
		}
	}
	return lo, hi, ""
}

func clip[T Float](lo, hi T) func(T) T { return func(x T) T { return min(max(x, lo), hi) } }

func bindClip(c *Check) Kernel {
	c.Float("min", 0)
	c.Float("max", 0)
	lo, hi, why := ClipBounds(c.Node, c.Opset)
	if why != "" {
		return c.Refuse("%s", why)
	}
	return c.unary(clip(lo, hi), clip(float64(lo), float64(hi)))
}
