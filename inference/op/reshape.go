package op

import "github.com/ghostgym/ghostgym/inference/graph"

// bindReshape keeps the batch where it is: the wanted dimensions start with it (as 0, or as the one -1 where all
// others account for a row), and the others hold exactly one row.
func bindReshape(c *Check) Kernel {
	x, shape := c.Node.In[0], c.Node.In[1]
	if shape.Type != graph.Int64 || shape.Const == nil || len(shape.Dims) != 1 {
		return c.Refuse("its shape is not a constant list of int64")
	}
	if c.Node.Has("allowzero") && c.Opset < 14 {
		return c.Refuse("attribute \"allowzero\" exists from opset 14 on")
	}
	keepZero := c.Int("allowzero", 0) != 0
	want := shape.Const.Ints
	if len(want) > graph.MaxRank {
		return c.Refuse("its shape has %d dimensions; at most %d are supported", len(want), graph.MaxRank)
	}
	dims := make([]int, len(want))
	free := -1
	for i, w := range want {
		switch {
		case w == -1 && free >= 0:
			return c.Refuse("shape %v has more than one -1", want)
		case w == -1:
			free, dims[i] = i, 1
		case w == 0 && !keepZero:
			if i >= len(x.Dims) {
				return c.Refuse("shape %v copies dimension %d of %s", want, i, dimsString(x.Dims))
			}
			dims[i] = x.Dims[i]
		case w < 0 || w > 1<<40:
			return c.Refuse("shape %v is impossible", want)
		default:
			dims[i] = int(w)
		}
	}
	have, ok := graph.Size(x.Dims, 1<<40)
	rest, ok2 := graph.Size(dims, 1<<40)
	if !ok || !ok2 {
		return c.Refuse("shape %v of %s is too large", want, dimsString(x.Dims))
	}
	batched := len(x.Dims) > 0 && x.Dims[0] == graph.Batch
	copied := len(dims) > 0 && dims[0] == graph.Batch
	switch {
	case batched && !copied && free == 0 && rest == have:
		dims[0] = graph.Batch
	case batched && !copied:
		return c.Refuse("shape %v of %s does not keep the batch; export with a dynamic batch axis, as -1 in front", want, dimsString(x.Dims))
	case free >= 0 && (rest == 0 || have%rest != 0):
		return c.Refuse("shape %v does not fit %s", want, dimsString(x.Dims))
	case free >= 0:
		dims[free] = int(have / rest)
	case rest != have:
		return c.Refuse("shape %v does not fit %s", want, dimsString(x.Dims))
	}
	c.Result(0, x.Type, dims)
	return Kernel{copyFirst[float32], copyFirst[float64]}
}
