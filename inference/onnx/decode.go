// Package onnx decodes ONNX models into typed graphs.
//
// Decoding has two halves. A pre-scan reads the file with nothing but the protobuf wire format: it takes what
// onnx-go drops (operator-set versions, metadata, symbolic dimensions, names of nodes), checks what onnx-go would
// trust (sizes, amounts of data, external files, functions, subgraphs), and writes a slim copy without anything
// onnx-go reads wrongly. onnx-go then decodes that copy, with a backend of ours that records instead of computing.
// The two must agree on every node.
package onnx

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ghostgym/ghostgym/inference/graph"
	"google.golang.org/protobuf/encoding/protowire"
	"gorgonia.org/tensor"
)

// Limits bound the work that a file can cause.
type Limits struct {
	MaxBytes    int64 // size of the file
	MaxElements int64 // elements in all constants and lists together
	MaxItems    int64 // nodes, edges, attributes, constants, inputs and outputs together
}

// The versions that the operators are written against.
const (
	MinOpset, MaxOpset = 8, 28
	MaxIR              = 14
)

// guess adds what probably befell a file that is no message, or not one to its end.
func guess(b []byte, err error) error {
	const versionTag = 1<<3 | byte(protowire.VarintType) // ir_version, which whoever writes ONNX writes first
	switch {
	case errors.As(err, new(*graph.Refusal)):
		return err
	case b[0] != versionTag:
		return fmt.Errorf("%w; is it an ONNX file?", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w; the file is cut short", err)
	}
	return err
}

// Decode reads a model. The error is a *graph.Refusal where the file is well formed but asks for what is not
// supported. Nodes with unknown operators are decoded: refusing them is left to whoever needs them.
func Decode(b []byte, l Limits) (*graph.Graph, error) {
	if int64(len(b)) > l.MaxBytes {
		return nil, graph.Refuse("the file has more than %d bytes", l.MaxBytes) // how many, whoever reads a file does not know
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("onnx: the file is empty")
	}
	s := newScan(l)
	if err := s.model(b); err != nil {
		return nil, guess(b, err)
	}
	if s.ir < 3 || s.ir > MaxIR {
		return nil, graph.Refuse("the file has IR version %d; 3 to %d are supported", s.ir, MaxIR)
	}
	opset, ok := s.opsets[""]
	if !ok {
		return nil, graph.Refuse("the model imports no version of ONNX's own operators")
	}
	if opset < MinOpset || opset > MaxOpset {
		return nil, graph.Refuse("the model uses opset %d; %d to %d are supported; export with opset_version=17", opset, MinOpset, MaxOpset)
	}
	if len(s.outputs) == 0 {
		return nil, fmt.Errorf("onnx: the graph has no output")
	}
	if len(s.nodes) == 0 {
		return nil, graph.Refuse("the graph has no nodes")
	}
	r, err := record(message(nil, 7, s.slim))
	if err != nil {
		return nil, err
	}
	return build(s, r, opset)
}

func build(s *scan, r *recorder, opset int64) (*graph.Graph, error) {
	g := &graph.Graph{Opset: opset, IR: s.ir, Producer: s.producer, Meta: s.meta}
	values := map[string]*graph.Value{}
	data := make(map[string]tensor.Tensor, len(s.inits))
	for _, v := range r.values {
		if v.data != nil {
			data[v.name] = v.data
		}
	}
	initialized := make(map[string]bool, len(s.inits))
	for _, t := range s.inits {
		initialized[t.name] = true
		v := &graph.Value{Name: t.name, Type: graph.Type(t.typ), Dims: t.dims, Known: true}
		if t.defect == "" {
			c, err := constant(&t, data[t.name])
			if err != nil {
				return nil, fmt.Errorf("onnx: initializer %q: %w", t.name, err)
			}
			v.Const = c
		}
		values[t.name] = v
	}
	for _, in := range s.inputs {
		if initialized[in.name] {
			continue // an initializer listed among the inputs is a constant here
		}
		if values[in.name] != nil {
			return nil, fmt.Errorf("onnx: input %q occurs twice", in.name)
		}
		if in.kind != 1 {
			return nil, graph.Refuse("input %q is not a tensor; export without sequences, maps and optionals", in.name)
		}
		if !in.shaped {
			return nil, graph.Refuse("input %q has no shape; export with its dimensions", in.name)
		}
		if len(in.dims) > graph.MaxRank {
			return nil, graph.Refuse("input %q has %d dimensions; at most %d are supported", in.name, len(in.dims), graph.MaxRank)
		}
		v := &graph.Value{Name: in.name, Type: graph.Type(in.typ), Dims: in.dims, Symbols: in.symbols, Known: true}
		values[in.name] = v
		g.Inputs = append(g.Inputs, v)
	}
	nodes, err := nodes(s, r, values)
	if err != nil {
		return nil, err
	}
	if g.Nodes, err = graph.Order(nodes); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	seen := make(map[*graph.Value]bool, len(s.outputs))
	for _, out := range s.outputs {
		v := values[out.name]
		if v == nil {
			return nil, fmt.Errorf("onnx: output %q is computed by no node", out.name)
		}
		if seen[v] {
			return nil, fmt.Errorf("onnx: output %q occurs twice", out.name)
		}
		seen[v] = true
		g.Outputs = append(g.Outputs, v)
		g.Declared = append(g.Declared, graph.Declared{
			Type: graph.Type(out.typ), Dims: out.dims, Symbols: out.symbols, Shaped: out.shaped,
		})
	}
	return g, nil
}

// nodes links the nodes of both halves. values gains what they compute.
func nodes(s *scan, r *recorder, values map[string]*graph.Value) ([]*graph.Node, error) {
	if len(r.ops) != len(s.nodes) {
		return nil, fmt.Errorf("onnx: the decoder saw %d nodes where the file has %d", len(r.ops), len(s.nodes))
	}
	list := make([]*graph.Node, len(s.nodes))
	for i := range s.nodes {
		info, op := &s.nodes[i], &r.ops[i]
		if op.op != info.op || !slices.Equal(op.out, info.out) || len(info.in) > 0 && !slices.Equal(op.in, info.in) {
			return nil, fmt.Errorf("onnx: node %q: the decoder saw %s(%q) → %q where the file has %s(%q) → %q",
				info.name, op.op, op.in, op.out, info.op, info.in, info.out)
		}
		n := &graph.Node{Name: info.name, Op: info.op, Domain: info.domain, Attrs: op.attrs, Defect: info.defect}
		for name, t := range info.tensors {
			if t.defect != "" {
				continue
			}
			d, _ := op.attrs[name].(tensor.Tensor)
			c, err := constant(&t, d)
			if err != nil {
				return nil, fmt.Errorf("onnx: node %q: attribute %q: %w", info.name, name, err)
			}
			n.Attrs[name] = c
		}
		for _, name := range info.out {
			if name == "" {
				n.Out = append(n.Out, nil)
				continue
			}
			if values[name] != nil {
				return nil, fmt.Errorf("onnx: value %q is defined more than once, last by node %q", name, info.name)
			}
			v := &graph.Value{Name: name, From: n}
			values[name] = v
			n.Out = append(n.Out, v)
		}
		list[i] = n
	}
	for i, n := range list {
		for _, name := range s.nodes[i].in {
			v := values[name]
			if v == nil && name != "" {
				return nil, fmt.Errorf("onnx: node %q (%s) reads %q, which nothing defines", n.Name, n.Op, name)
			}
			n.In = append(n.In, v)
		}
	}
	return list, nil
}

// constant takes a decoded tensor over, holding it against what the pre-scan saw.
func constant(t *tensorInfo, d tensor.Tensor) (*graph.Tensor, error) {
	c := &graph.Tensor{Type: graph.Type(t.typ), Dims: t.dims}
	if t.count > 0 {
		if d == nil {
			return nil, fmt.Errorf("the decoder found no data")
		}
		switch v := d.Data().(type) { // onnx-go hands a scalar over as a number
		case []float32:
			c.Floats = v
		case float32:
			c.Floats = []float32{v}
		case []int64:
			c.Ints = v
		case int64:
			c.Ints = []int64{v}
		default:
			return nil, fmt.Errorf("the decoder returned %T for %s", v, c.Type)
		}
	}
	if int64(c.Len()) != t.count {
		return nil, fmt.Errorf("the decoder returned %d elements of %s where the file has %d", c.Len(), c.Type, t.count)
	}
	return c, nil
}
