// Package plan compiles a graph into a flat list of steps over one arena, and runs it.
package plan

import (
	"fmt"
	"strings"

	"github.com/ghostgym/ghostgym/inference/graph"
	"github.com/ghostgym/ghostgym/inference/op"
)

// Options choose what is compiled, and bound the work.
type Options struct {
	Output      string // the output to compute; "" is the first
	FixedBatch  bool   // take a fixed dimension 0 of the input for the batch
	MaxElements int64  // elements of any value per row, of the arena per row, and computed while folding
}

// bound is a node with its kernel. Nodes whose results are constant are not among them.
type bound struct {
	node   *graph.Node
	kernel op.Kernel
}

// binder infers types and dimensions, folds constants and collects what cannot be run.
type binder struct {
	g        *graph.Graph
	limit    int64
	folded   int64 // work spent on constants so far, in elements read, written or multiplied
	nodes    []bound
	problems []graph.Problem
}

func (b *binder) refuse(n *graph.Node, format string, args ...any) {
	p := graph.Problem{Why: fmt.Sprintf(format, args...)}
	if n != nil {
		p.Node, p.Op = n.Name, n.Op
	}
	b.problems = append(b.problems, p)
}

// input checks the inputs that the output depends on and returns the one to be scored.
func (b *binder) input(nodes []*graph.Node, fixed bool) *graph.Value {
	used := map[*graph.Value]bool{}
	for _, n := range nodes {
		for _, v := range n.In {
			used[v] = true
		}
	}
	var input *graph.Value
	var names []string
	for _, v := range b.g.Inputs {
		if !used[v] {
			continue
		}
		input = v
		names = append(names, fmt.Sprintf("%q", v.Name))
		b.rows(v, fixed)
	}
	switch {
	case input == nil:
		b.refuse(nil, "the output depends on no input")
	case len(names) > 1:
		b.refuse(nil, "the output depends on several inputs (%s); a row of one float32 input is scored", strings.Join(names, ", "))
	case input.Type != graph.Float32:
		b.refuse(nil, "input %q has type %s, expected float32", input.Name, input.Type)
	}
	return input
}

// rows checks that dimension 0 of an input is the batch and that all others are fixed.
func (b *binder) rows(v *graph.Value, fixed bool) {
	if len(v.Dims) == 0 {
		b.refuse(nil, "input %q is a scalar; dimension 0 must be the batch", v.Name)
		return
	}
	dims := append([]int(nil), v.Dims...)
	for i, d := range dims {
		switch {
		case i == 0 && d != graph.Batch && !fixed:
			b.refuse(nil, "input %q has its batch fixed at %d; export with a dynamic batch axis "+
				"(dynamic_axes={%q: {0: \"batch\"}}, or dynamic_shapes with Dim(\"batch\"))", v.Name, d, v.Name)
		case i > 0 && d == graph.Batch:
			b.refuse(nil, "input %q: dimension %d (%q) is not fixed; only dimension 0, the batch, may be open",
				v.Name, i, v.Symbols[i])
			dims[i] = 1
		case d == 0:
			b.refuse(nil, "input %q: dimension %d is 0", v.Name, i)
		}
	}
	dims[0] = graph.Batch
	if _, ok := graph.Size(dims, b.limit); !ok {
		b.refuse(nil, "input %q has more than %d elements per row", v.Name, b.limit)
		v.Known = false
	}
	v.Dims = dims
}

// bind goes through nodes in order. A node that reads what a refused one computes is skipped, unless it could not
// be run in any case.
func (b *binder) bind(nodes []*graph.Node) {
	for _, n := range nodes {
		known, constant := true, true
		for _, v := range n.In {
			known = known && (v == nil || v.Known)
			constant = constant && (v == nil || v.Const != nil)
		}
		if !known {
			if _, why := op.Supported(n, b.g.Opset); why != "" {
				b.refuse(n, "%s", why)
			}
			continue
		}
		k, why := op.Bind(n, b.g.Opset)
		if why == "" {
			why = b.sizes(n)
		}
		if why == "" && constant && k.F32 != nil {
			why = b.fold(n, k)
		}
		if why != "" {
			b.refuse(n, "%s", why)
			for _, v := range n.Out {
				if v != nil {
					v.Known = false
				}
			}
			continue
		}
		if !constant {
			b.nodes = append(b.nodes, bound{n, k})
		}
	}
}

func (b *binder) sizes(n *graph.Node) string {
	for _, v := range n.Out {
		if v == nil {
			continue
		}
		if _, ok := graph.Size(v.Dims, b.limit); !ok {
			return fmt.Sprintf("its result %q, %v, has more than %d elements", v.Name, v.Dims, b.limit)
		}
	}
	return ""
}

// fold computes a node whose operands are all constant.
func (b *binder) fold(n *graph.Node, k op.Kernel) string {
	work := int64(0)
	in := make([]op.Tensor[float32], len(n.In))
	for i, v := range n.In {
		if v != nil {
			in[i] = op.Tensor[float32]{Dims: v.Dims, F: v.Const.Floats, I: v.Const.Ints}
			work += int64(v.Const.Len())
		}
	}
	out := make([]op.Tensor[float32], len(n.Out))
	for _, v := range n.Out {
		if v != nil {
			size, _ := graph.Size(v.Dims, b.limit)
			work += size
		}
	}
	if n.Op == "MatMul" || n.Op == "Gemm" { // each result element is a sum over an axis of the first operand
		size, _ := graph.Size(n.Out[0].Dims, b.limit)
		depth := 1
		for _, d := range n.In[0].Dims {
			depth = max(depth, d)
		}
		if size > 0 && int64(depth) > b.limit/size {
			work = b.limit + 1
		} else {
			work += size * int64(depth)
		}
	}
	if b.folded += work; b.folded > b.limit {
		return fmt.Sprintf("computing constants takes more than %d element operations; export with constants folded", b.limit)
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		size, _ := graph.Size(v.Dims, b.limit)
		v.Const = &graph.Tensor{Type: v.Type, Dims: v.Dims}
		if v.Type == graph.Int64 {
			v.Const.Ints = make([]int64, size)
		} else {
			v.Const.Floats = make([]float32, size)
		}
		out[i] = op.Tensor[float32]{Dims: v.Dims, F: v.Const.Floats, I: v.Const.Ints}
	}
	k.F32(in, out)
	return ""
}
