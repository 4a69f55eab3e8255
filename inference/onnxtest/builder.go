// Package onnxtest writes small ONNX models as bytes, so that tests need neither Python nor fixtures.
package onnxtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"
)

// Builder collects a model. The zero value is not usable; call New.
type Builder struct {
	opset, ir              int64
	nodes, inits, ins, out [][]byte
	meta                   map[string]string
	rawGraph, rawModel     []byte
}

// New starts a model of the given version of ONNX's operator set.
func New(opset int64) *Builder { return &Builder{opset: opset, ir: 8, meta: map[string]string{}} }

// Attrs are a node's attributes: int, int64, float32, string, []int64, []float32 or Tensor.
type Attrs map[string]any

// Tensor is a constant; Data is []float32, []int64, or []byte with its Type given.
type Tensor struct {
	Type int64
	Dims []int64
	Data any
}

func varint(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

func bytesField(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func text(b []byte, field protowire.Number, v string) []byte { return bytesField(b, field, []byte(v)) }

// io declares an input or output; each dim is an int, or a string for a symbolic one ("" leaves it unset).
func io(name string, typ int64, dims []any) []byte {
	var shape []byte
	for _, d := range dims {
		var dim []byte
		switch d := d.(type) {
		case int:
			dim = varint(nil, 1, int64(d))
		case string:
			if d != "" {
				dim = text(nil, 2, d)
			}
		default:
			panic(fmt.Sprintf("onnxtest: dimension %v is neither int nor string", d))
		}
		shape = bytesField(shape, 1, dim)
	}
	tensor := bytesField(varint(nil, 1, typ), 2, shape)
	return bytesField(text(nil, 1, name), 2, bytesField(nil, 1, tensor))
}

// Input declares a float32 input. Dimensions are ints, or strings for symbolic ones.
func (b *Builder) Input(name string, dims ...any) *Builder { return b.InputOf(1, name, dims...) }

// InputOf declares an input of another element type (ONNX's code).
func (b *Builder) InputOf(typ int64, name string, dims ...any) *Builder {
	b.ins = append(b.ins, io(name, typ, dims))
	return b
}

// Output declares a float32 output.
func (b *Builder) Output(name string, dims ...any) *Builder { return b.OutputOf(1, name, dims...) }

// OutputOf declares an output of another element type (ONNX's code).
func (b *Builder) OutputOf(typ int64, name string, dims ...any) *Builder {
	b.out = append(b.out, io(name, typ, dims))
	return b
}

// OutputUnshaped declares an output without dimensions.
func (b *Builder) OutputUnshaped(typ int64, name string) *Builder {
	b.out = append(b.out, bytesField(text(nil, 1, name), 2, bytesField(nil, 1, varint(nil, 1, typ))))
	return b
}

// Init adds an initializer.
func (b *Builder) Init(name string, t Tensor) *Builder {
	b.inits = append(b.inits, t.encode(name))
	return b
}

// Floats is a float32 tensor.
func Floats(data []float32, dims ...int64) Tensor { return Tensor{Type: 1, Dims: dims, Data: data} }

// Ints is an int64 tensor.
func Ints(data []int64, dims ...int64) Tensor { return Tensor{Type: 7, Dims: dims, Data: data} }

func (t Tensor) encode(name string) []byte {
	var b []byte
	for _, d := range t.Dims {
		b = varint(b, 1, d)
	}
	b = varint(b, 2, t.Type)
	var raw []byte
	switch d := t.Data.(type) {
	case []float32:
		for _, v := range d {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
	case []int64:
		for _, v := range d {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
	case []byte:
		raw = d
	default:
		panic(fmt.Sprintf("onnxtest: tensor data of type %T", d))
	}
	return bytesField(text(b, 8, name), 9, raw)
}

// Node adds a node named after its first output.
func (b *Builder) Node(op string, in, out []string, attrs Attrs) *Builder {
	return b.NodeIn("", op, in, out, attrs)
}

// NodeIn adds a node of another operator domain.
func (b *Builder) NodeIn(domain, op string, in, out []string, attrs Attrs) *Builder {
	var n []byte
	for _, v := range in {
		n = text(n, 1, v)
	}
	for _, v := range out {
		n = text(n, 2, v)
	}
	if len(out) > 0 {
		n = text(n, 3, out[0]+"_node")
	}
	n = text(n, 4, op)
	if domain != "" {
		n = text(n, 7, domain)
	}
	names := make([]string, 0, len(attrs))
	for k := range attrs {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		n = bytesField(n, 5, attribute(k, attrs[k]))
	}
	b.nodes = append(b.nodes, n)
	return b
}

func attribute(name string, v any) []byte {
	b := text(nil, 1, name)
	switch v := v.(type) {
	case float32:
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(v))
		return varint(b, 20, 1)
	case int:
		return varint(varint(b, 3, int64(v)), 20, 2)
	case int64:
		return varint(varint(b, 3, v), 20, 2)
	case string:
		return varint(text(b, 4, v), 20, 3)
	case Tensor:
		return varint(bytesField(b, 5, v.encode("")), 20, 4)
	case []float32:
		for _, x := range v {
			b = protowire.AppendFixed32(protowire.AppendTag(b, 7, protowire.Fixed32Type), math.Float32bits(x))
		}
		return varint(b, 20, 6)
	case []int64:
		for _, x := range v {
			b = varint(b, 8, x)
		}
		return varint(b, 20, 7)
	}
	panic(fmt.Sprintf("onnxtest: attribute of type %T", v))
}

// Meta adds an entry of metadata_props.
func (b *Builder) Meta(key, value string) *Builder {
	b.meta[key] = value
	return b
}

// RawGraph appends a length-delimited field to the graph, as it is: a way to write what no exporter would.
func (b *Builder) RawGraph(field int32, body []byte) *Builder {
	b.rawGraph = bytesField(b.rawGraph, protowire.Number(field), body)
	return b
}

// RawModel appends a length-delimited field to the model, as it is.
func (b *Builder) RawModel(field int32, body []byte) *Builder {
	b.rawModel = bytesField(b.rawModel, protowire.Number(field), body)
	return b
}

// IR sets the version of the file format, 8 unless set.
func (b *Builder) IR(version int64) *Builder {
	b.ir = version
	return b
}

// Bytes encodes the model.
func (b *Builder) Bytes() []byte {
	var g []byte
	for _, n := range b.nodes {
		g = bytesField(g, 1, n)
	}
	g = text(g, 2, "graph")
	for _, t := range b.inits {
		g = bytesField(g, 5, t)
	}
	for _, v := range b.ins {
		g = bytesField(g, 11, v)
	}
	for _, v := range b.out {
		g = bytesField(g, 12, v)
	}
	g = append(g, b.rawGraph...)
	m := varint(nil, 1, b.ir)
	m = text(m, 2, "onnxtest")
	m = bytesField(m, 7, g)
	m = bytesField(m, 8, varint(text(nil, 1, ""), 2, b.opset))
	keys := make([]string, 0, len(b.meta))
	for k := range b.meta {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		m = bytesField(m, 14, text(text(nil, 1, k), 2, b.meta[k]))
	}
	return append(m, b.rawModel...)
}
