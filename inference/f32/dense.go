package f32

// panel is the number of outputs computed together: enough independent sums to hide the latency of an addition.
const (
	panel     = 8
	halfPanel = 4
)

// Dense is y = act(x·W + b). Output j is b[j], to which x[k]·W[k,j] is added for k = 0, 1, …
type Dense struct {
	K, N int
	Act  Act
	bias []float32 // N, padded to whole panels
	w    []float32 // panels of 8 columns, then at most one of 8, 4 or 1; each panel holds its K rows in order
}

// NewDense packs weights of k rows and n columns in row-major order, and n biases; nil stands for zeros.
func NewDense(k, n int, w, bias []float32) *Dense {
	d := &Dense{K: k, N: n}
	for j := 0; j < n; {
		width := panelWidth(n - j)
		for r := range k {
			for c := j; c < j+width; c++ {
				v := float32(0)
				if c < n {
					v = w[r*n+c]
				}
				d.w = append(d.w, v)
			}
		}
		j += width
		d.bias = append(d.bias, make([]float32, width)...)
	}
	copy(d.bias, bias)
	return d
}

func panelWidth(left int) int {
	switch {
	case left == 1:
		return 1
	case left <= halfPanel:
		return halfPanel
	}
	return panel
}

// Run computes n rows: x has n·K elements, y gets n·N. They must not overlap.
func (d *Dense) Run(y, x []float32, n int) {
	for r := range n {
		d.row(y[r*d.N:][:d.N], x[r*d.K:][:d.K])
	}
	d.Act.Apply(y[:n*d.N], y[:n*d.N])
}

func (d *Dense) row(y, x []float32) {
	w, b := d.w, d.bias
	for len(y) > halfPanel {
		b8 := (*[panel]float32)(b)
		a0, a1, a2, a3, a4, a5, a6, a7 := b8[0], b8[1], b8[2], b8[3], b8[4], b8[5], b8[6], b8[7]
		for _, v := range x {
			c := (*[panel]float32)(w)
			a0 += float32(v * c[0])
			a1 += float32(v * c[1])
			a2 += float32(v * c[2])
			a3 += float32(v * c[3])
			a4 += float32(v * c[4])
			a5 += float32(v * c[5])
			a6 += float32(v * c[6])
			a7 += float32(v * c[7])
			w = w[panel:]
		}
		if len(y) < panel {
			copy(y, []float32{a0, a1, a2, a3, a4, a5, a6, a7})
			return
		}
		y8 := (*[panel]float32)(y)
		y8[0], y8[1], y8[2], y8[3], y8[4], y8[5], y8[6], y8[7] = a0, a1, a2, a3, a4, a5, a6, a7
		y, b = y[panel:], b[panel:]
	}
	switch {
	case len(y) == 1:
		a := b[0]
		w = w[:len(x)]
		for k, v := range x {
			a += float32(v * w[k])
		}
		y[0] = a
	case len(y) > 0:
		b4 := (*[halfPanel]float32)(b)
		a0, a1, a2, a3 := b4[0], b4[1], b4[2], b4[3]
		for _, v := range x {
			c := (*[halfPanel]float32)(w)
			a0 += float32(v * c[0])
			a1 += float32(v * c[1])
			a2 += float32(v * c[2])
			a3 += float32(v * c[3])
			w = w[halfPanel:]
		}
		copy(y, []float32{a0, a1, a2, a3})
	}
}
