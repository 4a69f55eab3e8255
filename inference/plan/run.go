package plan

import (
	"fmt"

	"github.com/ghostgym/ghostgym/inference/f32"
	"github.com/ghostgym/ghostgym/inference/op"
)

// State is the memory that a program runs in: one arena for a number of rows. It belongs to one goroutine.
type State struct {
	prog    *Program
	rows    int // capacity
	floats  [][]float32
	ints    [][]int64
	kernels []operands // by step; empty but for kernelSteps
}

// operands are a kernelStep's tensors. Their dimensions and data follow the batch.
type operands struct {
	in, out []op.Tensor[float32]
	from    []int // buffers of in; -1 for constants and what is left out
	to      []int
}

// maxArena bounds a State, in elements.
const maxArena = 1 << 31

// NewState makes room for batches of up to rows rows.
func (p *Program) NewState(rows int) (*State, error) {
	perRow := max(1, p.floats+p.ints, p.InWidth, p.OutWidth)
	if rows < 1 || rows > maxArena/perRow {
		return nil, fmt.Errorf("inference: a batch of %d rows of %d elements is outside of 1 to %d rows", rows, perRow, maxArena/perRow)
	}
	st := &State{
		prog: p, rows: rows,
		floats: make([][]float32, len(p.buffers)), ints: make([][]int64, len(p.buffers)),
		kernels: make([]operands, len(p.steps)),
	}
	floats, ints := make([]float32, p.floats*rows), make([]int64, p.ints*rows)
	for i := arenaBuffers; i < len(p.buffers); i++ {
		b := &p.buffers[i]
		if b.ints {
			st.ints[i] = ints[b.offset*rows:][:b.width*rows]
		} else {
			st.floats[i] = floats[b.offset*rows:][:b.width*rows]
		}
	}
	for i := range p.steps {
		if s := &p.steps[i]; s.kind == kernelStep {
			st.kernels[i] = p.operands(s)
		}
	}
	return st, nil
}

func (p *Program) operands(s *step) operands {
	n := s.node.node
	o := operands{
		in: make([]op.Tensor[float32], len(n.In)), out: make([]op.Tensor[float32], len(n.Out)),
		from: make([]int, len(n.In)), to: make([]int, len(n.Out)),
	}
	for i, v := range n.In {
		o.from[i] = -1
		switch {
		case v == nil:
		case v.Const != nil:
			o.in[i] = op.Tensor[float32]{Dims: v.Dims, F: v.Const.Floats, I: v.Const.Ints}
		default:
			o.from[i] = p.place[v]
			o.in[i].Dims = dims(v, 0)
		}
	}
	for i, v := range n.Out {
		o.to[i] = -1
		if v != nil {
			o.to[i] = p.place[v]
			o.out[i].Dims = dims(v, 0)
		}
	}
	return o
}

// Rows is the number of rows there is room for.
func (st *State) Rows() int { return st.rows }

// Run computes n rows, at most Rows: in has n·InWidth elements, out gets n·OutWidth. It does not allocate.
func (st *State) Run(out, in []float32, n int) {
	p := st.prog
	st.floats[inputBuffer], st.floats[outputBuffer] = in, out
	for i := range p.steps {
		s := &p.steps[i]
		size := n * s.width
		switch s.kind {
		case denseStep:
			s.dense.Run(st.floats[s.out], st.floats[s.in], n*s.rows)
		case actStep:
			s.act.Apply(st.floats[s.out][:size], st.floats[s.in])
		case binaryStep:
			f32.Binary(s.arith, st.floats[s.out][:size], st.floats[s.in], st.floats[s.in2])
		case rowsStep:
			f32.BinaryRows(s.arith, s.swapped, st.floats[s.out][:size], st.floats[s.in], s.row)
		case kernelStep:
			st.kernel(s, &st.kernels[i], n)
		case floatsStep:
			y := st.floats[s.out][:size]
			for j, v := range st.ints[s.in][:size] {
				y[j] = float32(v)
			}
		case copyStep:
			copy(st.floats[s.out][:size], st.floats[s.in])
		}
	}
	st.floats[inputBuffer], st.floats[outputBuffer] = nil, nil
}

func (st *State) kernel(s *step, o *operands, n int) {
	for i, b := range o.from {
		if b >= 0 {
			st.view(&o.in[i], b, n)
		}
	}
	for i, b := range o.to {
		if b >= 0 {
			st.view(&o.out[i], b, n)
		}
	}
	s.node.kernel.F32(o.in, o.out)
}

// view points a tensor at the first n rows of a buffer.
func (st *State) view(t *op.Tensor[float32], b, n int) {
	t.Dims[0] = n
	size := 1
	for _, d := range t.Dims {
		size *= d
	}
	if st.prog.buffers[b].ints {
		t.I = st.ints[b][:size]
	} else {
		t.F = st.floats[b][:size]
	}
}
