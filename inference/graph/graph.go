// Package graph is the typed graph between a model file and the compiled plan.
//
// A graph is a list of nodes in an order that can be executed, over values that are each written once.
// Values know their type and dimensions as soon as those are known: inputs and constants from the file,
// all others after shape inference. Dimension 0 of whatever depends on an input is the batch.
package graph

import (
	"fmt"
	"strings"
)

// Batch stands for the one dimension that is unknown until a batch is scored.
const Batch = -1

// MaxRank is the largest number of dimensions a value may have.
const MaxRank = 8

// Type is an element type, by ONNX's TensorProto.DataType code.
type Type int32

// The element types that can be computed with; all others can be named, but not run.
const (
	Float32 Type = 1
	Int64   Type = 7
)

var typeNames = [...]string{
	"undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16",
	"float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz",
	"float8e5m2", "float8e5m2fnuz", "uint4", "int4", "float4e2m1",
}

func (t Type) String() string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", int32(t))
}

// Tensor is a constant: dimensions and data in row-major order. Exactly the slice that Type names is set.
type Tensor struct {
	Type   Type
	Dims   []int
	Floats []float32
	Ints   []int64
}

// Len is the number of elements.
func (t *Tensor) Len() int {
	if t.Type == Int64 {
		return len(t.Ints)
	}
	return len(t.Floats)
}

// Value is an edge of the graph: an input, a constant, or what a node computes.
type Value struct {
	Name    string
	Type    Type
	Dims    []int    // Batch where symbolic; nil and !Known where not yet inferred
	Symbols []string // names of the symbolic dimensions of an input or output, "" where it has none
	Known   bool     // Type and Dims are set
	Const   *Tensor  // the value of a constant
	From    *Node    // the node that computes it; nil for inputs and initializers
}

// Node is one operation. A nil entry of In or Out is an optional one left out.
type Node struct {
	Name   string // as in the file, or #index where the file gives none
	Op     string
	Domain string // "" is ONNX's own
	In     []*Value
	Out    []*Value
	Attrs  map[string]any // float32, int64, string, []float32, []int64, []string or *Tensor
	Defect string         // why the decoder could not read the node whole; "" when it could
}

// Input returns operand i, nil if it is left out.
func (n *Node) Input(i int) *Value {
	if i < len(n.In) {
		return n.In[i]
	}
	return nil
}

// Graph is a decoded model.
type Graph struct {
	Nodes    []*Node // every operand is computed by an earlier node
	Inputs   []*Value
	Outputs  []*Value
	Declared []Declared // what the file says of the outputs, in the order of Outputs
	Opset    int64      // version of ONNX's own operator set
	IR       int64
	Producer string
	Meta     map[string]string
}

// Declared is the signature that a file gives to an output.
type Declared struct {
	Type    Type
	Dims    []int
	Symbols []string
	Shaped  bool // the file gives dimensions
}

// Problem is one reason why a model cannot be run.
type Problem struct {
	Node string // name of the node, or "" where the reason is not one node's
	Op   string
	Why  string
}

func (p Problem) String() string {
	if p.Node == "" {
		return p.Why
	}
	return fmt.Sprintf("node %q (%s): %s", p.Node, p.Op, p.Why)
}

// Refusal is the error of a model that is well formed but cannot be run; it lists every reason.
type Refusal struct{ Problems []Problem }

func (r *Refusal) Error() string {
	if len(r.Problems) == 1 {
		return "model refused: " + r.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "model refused, %d problems:", len(r.Problems))
	for _, p := range r.Problems {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// Refuse makes the error of a single problem that is not one node's.
func Refuse(format string, args ...any) error {
	return &Refusal{Problems: []Problem{{Why: fmt.Sprintf(format, args...)}}}
}

// Size is the product of dims, Batch counted as 1; ok is false when it exceeds limit.
func Size(dims []int, limit int64) (size int64, ok bool) {
	size = 1
	zero := false
	for _, d := range dims {
		switch {
		case d == Batch || d == 1:
		case d < 0:
			return 0, false
		case d == 0:
			zero = true
		case size > limit/int64(d):
			return 0, false
		default:
			size *= int64(d)
		}
	}
	if zero {
		return 0, true
	}
	return size, size <= limit
}
