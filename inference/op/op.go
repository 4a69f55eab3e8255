// Package op is the table of operators: for each, one function that checks a node, infers the types and
// dimensions of its results, and returns the reference kernel for them.
//
// Dimensions are checked once, with graph.Batch where the batch stands. It may stand at axis 0 only, and an
// operator that would mix rows (reduce, join or move axis 0) refuses. So whatever depends on an input has one row
// per row of the input, and rows are independent by construction.
//
// A new operator is one file and one line of the table.
package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ghostgym/ghostgym/inference/graph"
)

// Float is the type that a kernel computes in: float32 in plans, float64 in the reference interpreter.
type Float interface{ float32 | float64 }

// Tensor is an operand or result of a kernel: F for float values, I for integers. Dims[0] is the real number of
// rows where the batch stands.
type Tensor[T Float] struct {
	Dims []int
	F    []T
	I    []int64
}

// Func computes out from in; both are in the node's order, and an optional one left out is the zero Tensor. The
// results have their dimensions and room. It does not allocate, and a row's result does not depend on the others.
type Func[T Float] func(in, out []Tensor[T])

// Kernel is an operator's reference kernel, bound to a node's attributes, at both precisions.
type Kernel struct {
	F32 Func[float32]
	F64 Func[float64]
}

// Op is one line of the table.
type Op struct {
	MinIn, MaxIn   int
	MinOut, MaxOut int
	Since          int64  // first opset that has it
	Attrs          string // the attributes it may carry, separated by spaces
	Bind           func(*Check) Kernel
}

// unlimited is the MaxIn of operators with any number of operands.
const unlimited = 1 << 30

// Table has every operator by name.
var Table = map[string]Op{
	"Add":                {2, 2, 1, 1, 7, "", bindAdd},
	"ArgMax":             {1, 1, 1, 1, 1, "axis keepdims select_last_index", bindArgMax},
	"Clip":               {1, 3, 1, 1, 6, "min max", bindClip},
	"Concat":             {1, unlimited, 1, 1, 4, "axis", bindConcat},
	"Constant":           {0, 0, 1, 1, 1, "value value_float value_floats value_int value_ints", bindConstant},
	"Div":                {2, 2, 1, 1, 7, "", bindDiv},
	"Flatten":            {1, 1, 1, 1, 1, "axis", bindFlatten},
	"Gemm":               {2, 3, 1, 1, 7, "alpha beta transA transB", bindGemm},
	"Identity":           {1, 1, 1, 1, 1, "", bindIdentity},
	"LayerNormalization": {2, 3, 1, 3, 17, "axis epsilon stash_type", bindLayerNormalization},
	"LeakyRelu":          {1, 1, 1, 1, 6, "alpha", bindLeakyRelu},
	"MatMul":             {2, 2, 1, 1, 1, "", bindMatMul},
	"Mul":                {2, 2, 1, 1, 7, "", bindMul},
	"Relu":               {1, 1, 1, 1, 6, "", bindRelu},
	"Reshape":            {2, 2, 1, 1, 5, "allowzero", bindReshape},
	"Sigmoid":            {1, 1, 1, 1, 6, "", bindSigmoid},
	"Softmax":            {1, 1, 1, 1, 1, "axis", bindSoftmax},
	"Sub":                {2, 2, 1, 1, 7, "", bindSub},
	"Tanh":               {1, 1, 1, 1, 6, "", bindTanh},
}

// Check is one node being bound.
type Check struct {
	Node  *graph.Node
	Opset int64
	why   string // the first reason to refuse
}

// Supported says why a node cannot be run whatever its operands are; "" when it may be.
func Supported(n *graph.Node, opset int64) (o Op, why string) {
	if n.Domain != "" {
		return o, fmt.Sprintf("operator domain %q is not supported", n.Domain)
	}
	o, ok := Table[n.Op]
	switch {
	case !ok:
		return o, "the operator is not supported"
	case opset < o.Since:
		return o, fmt.Sprintf("the operator exists from opset %d on; the model uses %d", o.Since, opset)
	}
	return o, n.Defect
}

// Bind checks a node whose operands are known, sets type and dimensions of its results, and returns its kernel.
// The reason is "" unless the node is refused.
func Bind(n *graph.Node, opset int64) (Kernel, string) {
	o, why := Supported(n, opset)
	if why != "" {
		return Kernel{}, why
	}
	c := &Check{Node: n, Opset: opset}
	c.arity(&o)
	if c.why != "" {
		return Kernel{}, c.why
	}
	k := o.Bind(c)
	return k, c.why
}

func (c *Check) arity(o *Op) {
	n := c.Node
	if len(n.In) < o.MinIn || len(n.In) > o.MaxIn {
		c.Refuse("has %d operands", len(n.In))
		return
	}
	if len(n.Out) < o.MinOut || len(n.Out) > o.MaxOut {
		c.Refuse("has %d results", len(n.Out))
		return
	}
	for i, v := range n.In {
		switch {
		case v == nil && (i < o.MinIn || o.MaxIn == unlimited):
			c.Refuse("operand %d is missing", i)
		case v != nil && v.Type != graph.Float32 && v.Type != graph.Int64:
			c.Refuse("operand %q has type %s; only float32 and int64 are supported", v.Name, v.Type)
		case v != nil && len(v.Dims) > graph.MaxRank:
			c.Refuse("operand %q has %d dimensions; at most %d are supported", v.Name, len(v.Dims), graph.MaxRank)
		}
	}
	if n.Out[0] == nil {
		c.Refuse("its first result is missing")
	}
	known := strings.Fields(o.Attrs)
	for name := range n.Attrs {
		if !slices.Contains(known, name) {
			c.Refuse("attribute %q is not supported", name)
		}
	}
}

// Refuse notes why the node cannot be run; the first reason counts.
func (c *Check) Refuse(format string, args ...any) Kernel {
	if c.why == "" {
		c.why = fmt.Sprintf(format, args...)
	}
	return Kernel{}
}

// Result sets type and dimensions of result i, unless it is left out.
func (c *Check) Result(i int, t graph.Type, dims []int) {
	if len(dims) > graph.MaxRank {
		c.Refuse("its result has %d dimensions; at most %d are supported", len(dims), graph.MaxRank)
		return
	}
	if i < len(c.Node.Out) && c.Node.Out[i] != nil {
		v := c.Node.Out[i]
		v.Type, v.Dims, v.Known = t, dims, true
	}
}

// Floats refuses operands that are not float32.
func (c *Check) Floats() bool {
	for _, v := range c.Node.In {
		if v != nil && v.Type != graph.Float32 {
			c.Refuse("operand %q has type %s, expected float32", v.Name, v.Type)
		}
	}
	return c.why == ""
}

// Int is an integer attribute, or def; it refuses one of another type.
func (c *Check) Int(name string, def int64) int64 {
	if _, ok := c.Node.Attrs[name].(int64); !ok && c.Node.Has(name) {
		c.Refuse("attribute %q is not an integer", name)
	}
	return c.Node.Int(name, def)
}

// Float is a float attribute, or def; it refuses one of another type.
func (c *Check) Float(name string, def float32) float32 {
	if _, ok := c.Node.Attrs[name].(float32); !ok && c.Node.Has(name) {
		c.Refuse("attribute %q is not a float", name)
	}
	return c.Node.Float(name, def)
}

// Axis turns an axis that may count from the end into an index below rank.
func (c *Check) Axis(axis int64, rank int) int {
	a := axis
	if a < 0 {
		a += int64(rank)
	}
	if a < 0 || a >= int64(rank) {
		c.Refuse("axis %d is outside of %d dimensions", axis, rank)
		return 0
	}
	return int(a)
}

// Within refuses an axis that is the batch.
func (c *Check) Within(axis int, dims []int) {
	if axis < len(dims) && dims[axis] == graph.Batch {
		c.Refuse("axis %d is the batch; rows would depend on each other", axis)
	}
}

// size is the number of elements of dims, which holds no Batch when a kernel runs.
func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// dimsString prints dims with B for the batch.
func dimsString(dims []int) string {
	return strings.ReplaceAll(fmt.Sprint(dims), fmt.Sprint(graph.Batch), "B")
}
