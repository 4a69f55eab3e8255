package op

import "github.com/ghostgym/ghostgym/inference/graph"

func bindConcat(c *Check) Kernel {
	if !c.Node.Has("axis") {
		return c.Refuse("attribute \"axis\" is missing")
	}
	first := c.Node.In[0]
	axis := c.Axis(c.Int("axis", 0), len(first.Dims))
	if c.why != "" {
		return Kernel{}
	}
	c.Within(axis, first.Dims)
	dims := append([]int(nil), first.Dims...)
	for _, v := range c.Node.In[1:] {
		if v.Type != first.Type {
			return c.Refuse("operands have types %s and %s", first.Type, v.Type)
		}
		ok := len(v.Dims) == len(dims)
		for i := 0; ok && i < len(dims); i++ {
			ok = i == axis || v.Dims[i] == dims[i]
		}
		if !ok {
			return c.Refuse("operands of dimensions %s and %s cannot be joined along axis %d",
				dimsString(first.Dims), dimsString(v.Dims), axis)
		}
		c.Within(axis, v.Dims)
		if c.why != "" {
			return Kernel{}
		}
		if dims[axis] += v.Dims[axis]; dims[axis] < 0 {
			return c.Refuse("the joined axis is too long")
		}
	}
	c.Result(0, first.Type, dims)
	return Kernel{concat[float32](axis), concat[float64](axis)}
}

func concat[T Float](axis int) Func[T] {
	return func(in, out []Tensor[T]) {
		inner := size(out[0].Dims[axis+1:])
		width := out[0].Dims[axis] * inner
		at := 0
		for i := range in {
			part := in[i].Dims[axis] * inner
			if out[0].I != nil {
				join(out[0].I[min(at, len(out[0].I)):], in[i].I, width, part)
			} else {
				join(out[0].F[min(at, len(out[0].F)):], in[i].F, width, part)
			}
			at += part
		}
	}
}

// join copies pieces of part elements from src to every width-th place of dst.
func join[N number](dst, src []N, width, part int) {
	for part > 0 && len(src) > 0 {
		copy(dst, src[:part])
		src = src[part:]
		dst = dst[min(width, len(dst)):]
	}
}

func copyFirst[T Float](in, out []Tensor[T]) {
	copy(out[0].F, in[0].F)
	copy(out[0].I, in[0].I)
}

func bindIdentity(c *Check) Kernel {
	v := c.Node.In[0]
	c.Result(0, v.Type, v.Dims)
	return Kernel{copyFirst[float32], copyFirst[float64]}
}

func bindFlatten(c *Check) Kernel {
	v := c.Node.In[0]
	axis := c.Int("axis", 1)
	if axis < 0 {
		axis += int64(len(v.Dims))
	}
	if axis < 0 || axis > int64(len(v.Dims)) {
		return c.Refuse("axis %d is outside of %d dimensions", c.Int("axis", 1), len(v.Dims))
	}
	rows, cols := v.Dims[:axis], v.Dims[axis:]
	left, ok := graph.Size(rows, 1<<40)
	right, ok2 := graph.Size(cols, 1<<40)
	if !ok || !ok2 {
		return c.Refuse("dimensions %s are too large", dimsString(v.Dims))
	}
	dims := []int{int(left), int(right)}
	if len(v.Dims) > 0 && v.Dims[0] == graph.Batch {
		if axis == 0 || left != 1 {
			return c.Refuse("flattening %s at axis %d mixes the batch with other axes", dimsString(v.Dims), axis)
		}
		dims[0] = graph.Batch
	}
	c.Result(0, v.Type, dims)
	return Kernel{copyFirst[float32], copyFirst[float64]}
}
