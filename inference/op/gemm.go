package op

import "github.com/ghostgym/ghostgym/inference/graph"

func bindGemm(c *Check) Kernel {
	if !c.Floats() {
		return Kernel{}
	}
	alpha, beta := c.Float("alpha", 1), c.Float("beta", 1)
	ta, tb := c.Int("transA", 0) != 0, c.Int("transB", 0) != 0
	a, b, bias := c.Node.In[0].Dims, c.Node.In[1].Dims, c.Node.Input(2)
	if len(a) != 2 || len(b) != 2 {
		return c.Refuse("operands have dimensions %s and %s, expected two matrices", dimsString(a), dimsString(b))
	}
	if bias == nil && c.Opset < 11 {
		return c.Refuse("the third operand is optional only from opset 11 on")
	}
	m, ka := a[0], a[1]
	if ta {
		m, ka = ka, m
	}
	kb, n := b[0], b[1]
	if tb {
		kb, n = n, kb
	}
	if ka == graph.Batch || kb == graph.Batch || n == graph.Batch {
		return c.Refuse("mixes the batch: rows would depend on each other")
	}
	if ka != kb {
		return c.Refuse("dimensions %s and %s do not multiply (transA=%t, transB=%t)", dimsString(a), dimsString(b), ta, tb)
	}
	dims := []int{m, n}
	if bias != nil {
		if z, ok := broadcast(dims, bias.Dims); !ok || len(z) != 2 || z[0] != m || z[1] != n {
			return c.Refuse("a bias of dimensions %s does not broadcast to %s", dimsString(bias.Dims), dimsString(dims))
		}
	}
	c.Result(0, graph.Float32, dims)
	return Kernel{gemm(alpha, beta, ta, tb), gemm(float64(alpha), float64(beta), ta, tb)}
}

func gemm[T Float](alpha, beta T, ta, tb bool) Func[T] {
	return func(in, out []Tensor[T]) {
		a, b, z := &in[0], &in[1], &out[0]
		m, n := z.Dims[0], z.Dims[1]
		k := a.Dims[1]
		ar, ac := a.Dims[1], 1
		if ta {
			k, ar, ac = a.Dims[0], 1, a.Dims[1]
		}
		br, bc := b.Dims[1], 1
		if tb {
			br, bc = 1, b.Dims[1]
		}
		var sc [graph.MaxRank]int
		hasBias := len(in) > 2 && in[2].F != nil
		if hasBias {
			strides(&sc, in[2].Dims, z.Dims)
		}
		for i := range m {
			for j := range n {
				var sum T
				for p := range k {
					sum += T(a.F[i*ar+p*ac] * b.F[p*br+j*bc])
				}
				sum *= alpha
				if hasBias {
					sum += T(beta * in[2].F[i*sc[0]+j*sc[1]])
				}
				z.F[i*n+j] = sum
			}
		}
	}
}
