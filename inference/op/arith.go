package op

import (
	"github.com/ghostgym/ghostgym/inference/f32"
	"github.com/ghostgym/ghostgym/inference/graph"
)

type number interface{ float32 | float64 | int64 }

func bindAdd(c *Check) Kernel { return c.arith(f32.Add) }
func bindSub(c *Check) Kernel { return c.arith(f32.Sub) }
func bindMul(c *Check) Kernel { return c.arith(f32.Mul) }
func bindDiv(c *Check) Kernel { return c.arith(f32.Div) }

func (c *Check) arith(op f32.Arith) Kernel {
	x, y := c.Node.In[0], c.Node.In[1]
	if x.Type != y.Type {
		return c.Refuse("operands have types %s and %s", x.Type, y.Type)
	}
	if x.Type == graph.Int64 {
		if x.Const == nil || y.Const == nil {
			return c.Refuse("int64 arithmetic is supported on constants only")
		}
		for _, v := range y.Const.Ints {
			if op == f32.Div && v == 0 {
				return c.Refuse("divides an integer by zero")
			}
		}
	}
	dims, ok := broadcast(x.Dims, y.Dims)
	if !ok {
		return c.Refuse("dimensions %s and %s do not broadcast", dimsString(x.Dims), dimsString(y.Dims))
	}
	c.Result(0, x.Type, dims)
	return Kernel{arith[float32](op), arith[float64](op)}
}

// broadcast is the dimensions of an element-wise result. The batch meets itself or 1, at axis 0 of the result.
func broadcast(x, y []int) ([]int, bool) {
	if len(x) < len(y) {
		x, y = y, x
	}
	z := append([]int(nil), x...)
	shift := len(x) - len(y)
	for i, d := range y {
		switch j := i + shift; {
		case z[j] == d || d == 1:
		case z[j] == 1:
			z[j] = d
		default:
			return nil, false
		}
	}
	for i, d := range z {
		if d == graph.Batch && i > 0 {
			return nil, false
		}
	}
	return z, true
}

// strides are the steps in data of dims for each axis of z, 0 along broadcast axes.
func strides(s *[graph.MaxRank]int, dims, z []int) {
	step, shift := 1, len(z)-len(dims)
	for i := len(dims) - 1; i >= 0; i-- {
		if dims[i] != 1 {
			s[i+shift] = step
		}
		step *= dims[i]
	}
}

func arith[T Float](op f32.Arith) Func[T] {
	return func(in, out []Tensor[T]) {
		x, y, z := &in[0], &in[1], &out[0]
		if z.I != nil {
			elementwise(op, z.I, x.I, y.I, z.Dims, x.Dims, y.Dims)
			return
		}
		elementwise(op, z.F, x.F, y.F, z.Dims, x.Dims, y.Dims)
	}
}

func elementwise[N number](op f32.Arith, z, x, y []N, zd, xd, yd []int) {
	if len(z) == 0 {
		return
	}
	var sx, sy, index [graph.MaxRank]int
	strides(&sx, xd, zd)
	strides(&sy, yd, zd)
	last := len(zd) - 1
	width, dx, dy := 1, 0, 0
	if last >= 0 {
		width, dx, dy = zd[last], sx[last], sy[last]
	}
	for ox, oy := 0, 0; len(z) > 0; z = z[width:] {
		row := z[:width]
		switch op {
		case f32.Add:
			for i := range row {
				row[i] = x[ox+i*dx] + y[oy+i*dy]
			}
		case f32.Sub:
			for i := range row {
				row[i] = x[ox+i*dx] - y[oy+i*dy]
			}
		case f32.Mul:
			for i := range row {
				row[i] = x[ox+i*dx] * y[oy+i*dy]
			}
		case f32.Div:
			for i := range row {
				row[i] = x[ox+i*dx] / y[oy+i*dy]
			}
		}
		for d := last - 1; d >= 0; d-- {
			index[d]++
			ox += sx[d]
			oy += sy[d]
			if index[d] < zd[d] {
				break
			}
			ox -= sx[d] * zd[d]
			oy -= sy[d] * zd[d]
			index[d] = 0
		}
	}
}

// Expand broadcasts src, of dimensions have, to dst, of dimensions dims.
func Expand(dst []float32, dims []int, src []float32, have []int) {
	elementwise(f32.Mul, dst, src, []float32{1}, dims, have, nil)
}
