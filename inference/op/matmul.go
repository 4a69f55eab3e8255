package op

import "github.com/ghostgym/ghostgym/inference/graph"

func bindMatMul(c *Check) Kernel {
	if !c.Floats() {
		return Kernel{}
	}
	x, y := c.Node.In[0].Dims, c.Node.In[1].Dims
	if len(x) == 0 || len(y) == 0 {
		return c.Refuse("an operand is a scalar")
	}
	bx, m, kx := matrix(x, true)
	by, ky, n := matrix(y, false)
	if kx == graph.Batch || ky == graph.Batch {
		return c.Refuse("sums over the batch; rows would depend on each other")
	}
	if kx != ky {
		return c.Refuse("dimensions %s and %s do not multiply", dimsString(x), dimsString(y))
	}
	dims, ok := broadcast(bx, by)
	if ok && len(x) > 1 {
		dims = append(dims, m)
	}
	if ok && len(y) > 1 {
		dims = append(dims, n)
	}
	for i, d := range dims {
		ok = ok && (d != graph.Batch || i == 0)
	}
	if !ok {
		return c.Refuse("dimensions %s and %s do not multiply row by row", dimsString(x), dimsString(y))
	}
	c.Result(0, graph.Float32, dims)
	return Kernel{matmul[float32], matmul[float64]}
}

// matrix splits dims into those of a stack and of its matrices. A vector is a row on the left and a column on the
// right of a product.
func matrix(dims []int, left bool) (stack []int, rows, cols int) {
	n := len(dims)
	switch {
	case n > 1:
		return dims[:n-2], dims[n-2], dims[n-1]
	case left:
		return nil, 1, dims[0]
	default:
		return nil, dims[0], 1
	}
}

func matmul[T Float](in, out []Tensor[T]) {
	bx, m, k := matrix(in[0].Dims, true)
	by, _, n := matrix(in[1].Dims, false)
	stack := out[0].Dims
	stack = stack[:max(len(bx), len(by))]
	var sx, sy, index [graph.MaxRank]int
	strides(&sx, bx, stack)
	strides(&sy, by, stack)
	ox, oy := 0, 0
	for z := out[0].F; len(z) > 0; z = z[m*n:] {
		product(z[:m*n], in[0].F[ox*m*k:][:m*k], in[1].F[oy*k*n:][:k*n], m, k, n)
		for d := len(stack) - 1; d >= 0; d-- {
			index[d]++
			ox += sx[d]
			oy += sy[d]
			if index[d] < stack[d] {
				break
			}
			ox -= sx[d] * stack[d]
			oy -= sy[d] * stack[d]
			index[d] = 0
		}
	}
}

// product is z = x·y for one m×k and one k×n matrix. Each sum is taken in the order of k.
func product[T Float](z, x, y []T, m, k, n int) {
	for i := range m {
		row := z[i*n : i*n+n]
		clear(row)
		for p, v := range x[i*k : i*k+k] {
			for j, w := range y[p*n : p*n+n] {
				row[j] += T(v * w)
			}
		}
	}
}
