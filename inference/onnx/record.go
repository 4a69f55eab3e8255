package onnx

import (
	"errors"
	"fmt"

	"github.com/owulveryck/onnx-go"
	gonum "gonum.org/v1/gonum/graph"
	"gorgonia.org/tensor"
)

// recorder is an onnx-go backend that computes nothing: it notes what the decoder tells it.
type recorder struct {
	values []*recValue
	ops    []recOp
}

type recOp struct {
	op      string
	attrs   map[string]any
	in, out []string
}

// recValue is onnx-go's node: one value of the ONNX graph.
type recValue struct {
	id   int64
	name string
	data tensor.Tensor
	args []string // operands of the operation being decoded, until it is applied
}

var (
	_ onnx.Backend     = (*recorder)(nil)
	_ onnx.Namer       = (*recValue)(nil)
	_ onnx.DataCarrier = (*recValue)(nil)
)

func (v *recValue) ID() int64                       { return v.id }
func (v *recValue) SetName(s string)                { v.name = s }
func (v *recValue) GetName() string                 { return v.name }
func (v *recValue) SetTensor(t tensor.Tensor) error { v.data = t; return nil }
func (v *recValue) GetTensor() tensor.Tensor        { return v.data }

// recEdge goes from a computed value to its operand number index.
type recEdge struct {
	from, to *recValue
	index    float64
}

func (e recEdge) From() gonum.Node         { return e.from }
func (e recEdge) To() gonum.Node           { return e.to }
func (e recEdge) Weight() float64          { return e.index }
func (e recEdge) ReversedEdge() gonum.Edge { return recEdge{e.to, e.from, e.index} }

func (r *recorder) NewNode() gonum.Node  { return &recValue{id: int64(len(r.values))} }
func (r *recorder) AddNode(n gonum.Node) { r.values = append(r.values, n.(*recValue)) }

func (r *recorder) NewWeightedEdge(from, to gonum.Node, index float64) gonum.WeightedEdge {
	return recEdge{from.(*recValue), to.(*recValue), index}
}

// SetWeightedEdge is called for each operand, in order, before the operation is applied. A pending list instead of
// a graph keeps both edges of Mul(x, x).
func (r *recorder) SetWeightedEdge(e gonum.WeightedEdge) {
	out, in := e.From().(*recValue), e.To().(*recValue)
	if e.Weight() == 0 {
		out.args = out.args[:0]
	}
	out.args = append(out.args, in.name)
}

func (r *recorder) ApplyOperation(op onnx.Operation, outs ...gonum.Node) error {
	if len(outs) == 0 {
		return errors.New("an operation without results")
	}
	o := recOp{op: op.Name, attrs: op.Attributes, in: append([]string(nil), outs[0].(*recValue).args...)}
	for _, n := range outs {
		v := n.(*recValue)
		v.args = nil
		o.out = append(o.out, v.name)
	}
	r.ops = append(r.ops, o)
	return nil
}

// The decoder never reads the graph back.
func (r *recorder) Node(int64) gonum.Node                      { return nil }
func (r *recorder) Nodes() gonum.Nodes                         { return gonum.Empty }
func (r *recorder) From(int64) gonum.Nodes                     { return gonum.Empty }
func (r *recorder) To(int64) gonum.Nodes                       { return gonum.Empty }
func (r *recorder) Edge(_, _ int64) gonum.Edge                 { return nil }
func (r *recorder) HasEdgeBetween(_, _ int64) bool             { return false }
func (r *recorder) HasEdgeFromTo(_, _ int64) bool              { return false }
func (r *recorder) WeightedEdge(_, _ int64) gonum.WeightedEdge { return nil }
func (r *recorder) Weight(_, _ int64) (float64, bool)          { return 0, false }

// record decodes a model with onnx-go, which panics on some input that the pre-scan cannot foresee.
func record(b []byte) (r *recorder, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("onnx: the decoder failed: %v", p)
		}
	}()
	r = &recorder{}
	if err := onnx.NewModel(r).UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	return r, nil
}
