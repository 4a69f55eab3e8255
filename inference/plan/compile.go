package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ghostgym/ghostgym/inference/f32"
	"github.com/ghostgym/ghostgym/inference/graph"
	"github.com/ghostgym/ghostgym/inference/op"
)

// stepKind is what a step does; Run switches on it.
type stepKind uint8

const (
	denseStep  stepKind = iota // out = act(in·W + b)
	actStep                    // out = act(in)
	binaryStep                 // out = in op in2
	rowsStep                   // out = in op constant row
	kernelStep                 // an operator's reference kernel
	floatsStep                 // out = in, integers as floats
	copyStep                   // out = in
)

type step struct {
	kind    stepKind
	in, in2 int // buffers
	out     int
	rows    int // rows of a dense layer per row of the batch
	width   int // elements of out per row
	dense   *f32.Dense
	act     f32.Act
	arith   f32.Arith
	swapped bool
	row     []float32
	node    *bound // of a kernelStep
	names   string // operators that became this step

	weights, bias []float32 // of a dense layer until it is packed
}

// Buffers 0 and 1 are the caller's rows and results; all others lie in the session's arena.
const (
	inputBuffer = iota
	outputBuffer
	arenaBuffers
)

// buffer holds one value per row of the batch, or several whose lives do not overlap.
type buffer struct {
	width  int // elements per row
	offset int // in the arena, in elements per row
	ints   bool
	last   int // the last step that reads it
}

// Program is a compiled graph. It is immutable and can be shared.
type Program struct {
	steps     []step
	buffers   []buffer
	place     map[*graph.Value]int // buffers of values
	floats    int                  // arena size per row
	ints      int
	nodes     []bound
	input     *graph.Value
	output    *graph.Value
	InWidth   int // float32s per input row
	OutWidth  int // float32s per result row
	opset     int64
	allNodes  int
	fileNodes int
}

// Compile selects what the output depends on, checks it and plans its steps. The error lists every node that cannot
// be run (*graph.Refusal).
func Compile(g *graph.Graph, o Options) (*Program, error) {
	p := &Program{opset: g.Opset, place: map[*graph.Value]int{}, fileNodes: len(g.Nodes)}
	declared := g.Declared[0]
	p.output = g.Outputs[0]
	if o.Output != "" {
		p.output = nil
		var names []string
		for i, v := range g.Outputs {
			names = append(names, fmt.Sprintf("%q", v.Name))
			if v.Name == o.Output {
				p.output, declared = v, g.Declared[i]
			}
		}
		if p.output == nil {
			return nil, graph.Refuse("the model has no output %q; it has %s", o.Output, strings.Join(names, ", "))
		}
	}
	b := &binder{g: g, limit: o.MaxElements}
	nodes := g.Needed(p.output)
	p.allNodes = len(nodes)
	p.input = b.input(append(nodes, &graph.Node{In: []*graph.Value{p.output}}), o.FixedBatch)
	b.bind(nodes)
	if len(b.problems) == 0 {
		b.result(p.output, declared)
	}
	if len(b.problems) > 0 {
		return nil, &graph.Refusal{Problems: b.problems}
	}
	p.nodes = b.nodes
	p.InWidth, p.OutWidth = width(p.input), width(p.output)
	c := compiler{Program: p, opset: g.Opset, uses: map[*graph.Value]int{p.output: 1}, dense: map[*graph.Value]int{}}
	c.limit = o.MaxElements
	c.compile()
	if p.layout(o.MaxElements); c.expanded > c.limit || int64(p.floats)+int64(p.ints) > o.MaxElements {
		return nil, graph.Refuse("a row takes more than %d elements of working memory", o.MaxElements)
	}
	return p, nil
}

// result holds the output against what the file declares.
func (b *binder) result(v *graph.Value, d graph.Declared) {
	if v.Const != nil || len(v.Dims) == 0 || v.Dims[0] != graph.Batch {
		b.refuse(nil, "output %q does not depend on the input row by row", v.Name)
		return
	}
	if d.Type != v.Type {
		b.refuse(nil, "output %q is declared as %s, but its node computes %s", v.Name, d.Type, v.Type)
	}
	if width(v) == 0 {
		b.refuse(nil, "output %q has no elements", v.Name)
	}
	if !d.Shaped {
		return
	}
	ok := len(d.Dims) == len(v.Dims)
	for i := 1; ok && i < len(d.Dims); i++ {
		ok = d.Dims[i] == graph.Batch || d.Dims[i] == v.Dims[i]
	}
	if !ok {
		b.refuse(nil, "output %q is declared with dimensions %v, but its node computes %v", v.Name, d.Dims, v.Dims)
	}
}

// width is the number of elements of a value per row of the batch.
func width(v *graph.Value) int {
	n := 1
	for _, d := range v.Dims[1:] {
		n *= d
	}
	return n
}

// compiler turns bound nodes into steps.
type compiler struct {
	*Program
	opset int64
	uses  map[*graph.Value]int
	dense map[*graph.Value]int // the step of a dense layer by the value it computes

	limit, expanded int64 // elements of constants written out as rows
}

func (c *compiler) compile() {
	for _, n := range c.nodes {
		for _, v := range n.node.In {
			c.uses[v]++
		}
	}
	c.buffers = make([]buffer, arenaBuffers)
	c.place[c.input] = inputBuffer
	for i := range c.nodes {
		c.node(&c.nodes[i])
	}
	c.finish()
	for i := range c.steps {
		s := &c.steps[i]
		if s.kind == denseStep {
			s.dense = f32.NewDense(s.dense.K, s.dense.N, s.weights, s.bias)
			s.dense.Act, s.weights, s.bias = s.act, nil, nil
		}
	}
}

// finish makes the last step write to the caller's results.
func (c *compiler) finish() {
	b := c.place[c.output]
	switch {
	case c.buffers[b].ints:
		c.add(step{kind: floatsStep, in: b, out: outputBuffer, width: c.OutWidth, names: "to float32"})
	case b == inputBuffer:
		c.add(step{kind: copyStep, in: b, out: outputBuffer, width: c.OutWidth, names: "copy"})
	default: // nothing but the output reads the buffer after it is written, whatever its alias
		c.buffers[b].width = 0
		for i := range c.steps {
			s := &c.steps[i]
			if s.out == b {
				s.out = outputBuffer
			}
		}
		for v, at := range c.place {
			if at == b {
				c.place[v] = outputBuffer
			}
		}
	}
}

func (c *compiler) add(s step) int {
	c.steps = append(c.steps, s)
	return len(c.steps) - 1
}

// alloc gives a value a buffer of its own.
func (c *compiler) alloc(v *graph.Value) int {
	c.buffers = append(c.buffers, buffer{width: width(v), ints: v.Type == graph.Int64})
	c.place[v] = len(c.buffers) - 1
	return c.place[v]
}

func (c *compiler) node(b *bound) {
	n := b.node
	switch n.Op {
	case "Identity", "Reshape", "Flatten": // the same elements in the same order
		c.place[n.Out[0]] = c.place[n.In[0]]
	case "Gemm":
		if !c.gemm(n) {
			c.kernel(b)
		}
	case "MatMul":
		if !c.matmul(n) {
			c.kernel(b)
		}
	case "Add", "Sub", "Mul", "Div":
		if !c.arith(n) {
			c.kernel(b)
		}
	case "Relu", "LeakyRelu", "Tanh", "Sigmoid", "Clip":
		c.activation(n)
	default:
		c.kernel(b)
	}
}

// kernel runs an operator's reference kernel as a step.
func (c *compiler) kernel(b *bound) {
	for _, v := range b.node.Out {
		if v != nil {
			c.alloc(v)
		}
	}
	c.add(step{kind: kernelStep, node: b, out: c.place[b.node.Out[0]], width: width(b.node.Out[0]), names: b.node.Op})
}

func (c *compiler) gemm(n *graph.Node) bool {
	w, bias := n.In[1], n.Input(2)
	if w.Const == nil || bias != nil && bias.Const == nil {
		return false
	}
	k, m := w.Dims[0], w.Dims[1]
	weights := make([]float32, len(w.Const.Floats))
	copy(weights, w.Const.Floats)
	if n.Int("transB", 0) != 0 {
		k, m = m, k
		for r := range k {
			for j := range m {
				weights[r*m+j] = w.Const.Floats[j*k+r]
			}
		}
	}
	scale(weights, n.Float("alpha", 1))
	var row []float32
	if bias != nil {
		row = c.expand(bias, []int{m})
		scale(row, n.Float("beta", 1))
	}
	c.layer(n, k, m, weights, row)
	return true
}

func scale(v []float32, by float32) {
	if by == 1 {
		return
	}
	for i := range v {
		v[i] *= by
	}
}

func (c *compiler) matmul(n *graph.Node) bool {
	w := n.In[1]
	if w.Const == nil || len(w.Dims) > 2 {
		return false
	}
	m := 1
	if len(w.Dims) == 2 {
		m = w.Dims[1]
	}
	c.layer(n, w.Dims[0], m, w.Const.Floats, nil)
	return true
}

// layer adds a dense layer for node n.
func (c *compiler) layer(n *graph.Node, k, m int, weights, bias []float32) {
	y := n.Out[0]
	rows := 1
	for _, d := range n.In[0].Dims[1 : len(n.In[0].Dims)-1] {
		rows *= d
	}
	out := c.alloc(y)
	c.dense[y] = c.add(step{
		kind: denseStep, in: c.place[n.In[0]], out: out, rows: rows, width: width(y), names: n.Op,
		dense: &f32.Dense{K: k, N: m}, weights: weights, bias: bias,
	})
}

// fusable returns the dense layer that computes v, if nothing else reads v and no activation follows yet.
func (c *compiler) fusable(v *graph.Value) *step {
	i, ok := c.dense[v]
	if !ok || c.uses[v] != 1 || c.steps[i].act.Kind != f32.None {
		return nil
	}
	return &c.steps[i]
}

// fuse lets the layer that computed x compute y, which is of the same size.
func (c *compiler) fuse(s *step, n *graph.Node, x, y *graph.Value) {
	c.place[y], c.dense[y] = c.place[x], c.dense[x]
	s.names += "+" + n.Op
}

var activations = map[string]f32.Kind{
	"Relu": f32.Relu, "LeakyRelu": f32.LeakyRelu, "Tanh": f32.TanhAct, "Sigmoid": f32.SigmoidAct, "Clip": f32.ClipAct,
}

func (c *compiler) activation(n *graph.Node) {
	x, y := n.In[0], n.Out[0]
	act := f32.Act{Kind: activations[n.Op]}
	switch n.Op {
	case "LeakyRelu":
		act.Alpha = n.Float("alpha", 0.01)
	case "Clip":
		act.Lo, act.Hi, _ = op.ClipBounds(n, c.opset)
	}
	if s := c.fusable(x); s != nil {
		s.act = act
		c.fuse(s, n, x, y)
		return
	}
	in := c.place[x]
	c.add(step{kind: actStep, in: in, out: c.alloc(y), width: width(y), act: act, names: n.Op})
}

var ariths = map[string]f32.Arith{"Add": f32.Add, "Sub": f32.Sub, "Mul": f32.Mul, "Div": f32.Div}

func (c *compiler) arith(n *graph.Node) bool {
	x, y, z := n.In[0], n.In[1], n.Out[0]
	swapped := x.Const != nil
	if swapped {
		x, y = y, x
	}
	if !slices.Equal(x.Dims, z.Dims) {
		return false
	}
	s := step{in: c.place[x], width: width(z), arith: ariths[n.Op], swapped: swapped, names: n.Op}
	switch {
	case y.Const != nil:
		if d := c.fusable(x); d != nil && n.Op == "Add" && d.bias == nil && rowwise(y.Dims, d.dense.N) {
			d.bias = c.expand(y, []int{d.dense.N})
			c.fuse(d, n, x, z)
			return true
		}
		s.kind, s.row = rowsStep, c.expand(y, z.Dims[1:])
	case slices.Equal(y.Dims, z.Dims):
		s.kind, s.in2 = binaryStep, c.place[y]
	default:
		return false
	}
	s.out = c.alloc(z)
	c.add(s)
	return true
}

// rowwise says whether a constant of these dimensions is one number, or one for each of n columns.
func rowwise(dims []int, n int) bool {
	for i, d := range dims {
		if d != 1 && (i < len(dims)-1 || d != n) {
			return false
		}
	}
	return true
}

// expand broadcasts a constant to dims, which its last dimensions broadcast to; those before them are 1.
func (c *compiler) expand(v *graph.Value, dims []int) []float32 {
	n := 1
	for _, d := range dims {
		n *= d
	}
	if c.expanded += int64(n); c.expanded > c.limit {
		return nil // layout refuses
	}
	row := make([]float32, n)
	op.Expand(row, dims, v.Const.Floats, v.Dims[max(0, len(v.Dims)-len(dims)):])
	return row
}
