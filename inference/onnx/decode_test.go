package onnx_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/inference/graph"
	"github.com/ghostgym/ghostgym/inference/onnx"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
	"google.golang.org/protobuf/encoding/protowire"
)

var limits = onnx.Limits{MaxBytes: 1 << 20, MaxElements: 1 << 20, MaxItems: 1 << 20}

func decode(t *testing.T, b *onnxtest.Builder) *graph.Graph {
	t.Helper()
	g, err := onnx.Decode(b.Bytes(), limits)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tensor is a TensorProto named w with two elements, its data in the given field.
func tensor(typ uint64, field protowire.Number, wire protowire.Type, data ...uint64) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 2)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), typ)
	b = protowire.AppendString(protowire.AppendTag(b, 8, protowire.BytesType), "w")
	var packed []byte
	for _, v := range data {
		if wire == protowire.Fixed32Type {
			b = protowire.AppendFixed32(protowire.AppendTag(b, field, wire), uint32(v))
		} else if wire == protowire.VarintType {
			b = protowire.AppendVarint(protowire.AppendTag(b, field, wire), v)
		} else if field == 4 {
			packed = protowire.AppendFixed32(packed, uint32(v))
		} else {
			packed = protowire.AppendVarint(packed, v)
		}
	}
	if wire == protowire.BytesType {
		b = protowire.AppendBytes(protowire.AppendTag(b, field, wire), packed)
	}
	return b
}

func TestDataInEveryField(t *testing.T) {
	const one, two = 0x3f800000, 0x40000000
	minus := ^uint64(0)
	cases := []struct {
		name string
		body []byte
		want any
	}{
		{"float_data packed", tensor(1, 4, protowire.BytesType, one, two), []float32{1, 2}},
		{"float_data one by one", tensor(1, 4, protowire.Fixed32Type, one, two), []float32{1, 2}},
		{"int64_data packed", tensor(7, 7, protowire.BytesType, 300, minus), []int64{300, -1}},
		{"int64_data one by one", tensor(7, 7, protowire.VarintType, 300, minus), []int64{300, -1}},
	}
	for _, c := range cases {
		b := onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").RawGraph(5, c.body).
			Node("Add", []string{"x", "w"}, []string{"y"}, nil)
		w := decode(t, b).Nodes[0].In[1]
		var got any = w.Const.Floats
		if w.Type == graph.Int64 {
			got = w.Const.Ints
		}
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(w.Dims, []int{2}) {
			t.Errorf("%s: %v %v, want %v", c.name, w.Dims, got, c.want)
		}
	}
}

func TestWhatOnnxGoHides(t *testing.T) {
	b := onnxtest.New(13).IR(7).Meta("schema", "abc").Meta("seed", "7").
		Input("x", "batch", 3, "").Output("y", "batch", "m").
		Node("Dropout", []string{"x", "", "late"}, []string{"a", ""}, onnxtest.Attrs{"seed": 3, "ratio": float32(0.5), "mode": "m",
			"axes": []int64{1, 2}, "scales": []float32{1, 2}}).
		NodeIn("com.acme", "Magic", []string{"a", "a"}, []string{"y"}, nil).
		Node("Constant", nil, []string{"late"}, onnxtest.Attrs{"value": onnxtest.Floats([]float32{4})})
	g := decode(t, b)
	if g.Opset != 13 || g.IR != 7 || g.Producer != "onnxtest" || g.Meta["schema"] != "abc" || g.Meta["seed"] != "7" {
		t.Errorf("opset %d, IR %d, producer %q, meta %v", g.Opset, g.IR, g.Producer, g.Meta)
	}
	x := g.Inputs[0]
	if !reflect.DeepEqual(x.Dims, []int{-1, 3, -1}) || !reflect.DeepEqual(x.Symbols, []string{"batch", "", ""}) {
		t.Errorf("input dimensions %v, symbols %q", x.Dims, x.Symbols)
	}
	if d := g.Declared[0]; !reflect.DeepEqual(d.Symbols, []string{"batch", "m"}) || !d.Shaped || d.Type != graph.Float32 {
		t.Errorf("output declared as %+v", d)
	}
	var order []string
	for _, n := range g.Nodes {
		order = append(order, n.Name+":"+n.Domain)
	}
	if got := strings.Join(order, " "); got != "late_node: a_node: y_node:com.acme" {
		t.Errorf("nodes in order %s", got)
	}
	n := g.Nodes[1]
	if len(n.In) != 3 || n.In[1] != nil || n.In[2].From != g.Nodes[0] || len(n.Out) != 2 || n.Out[1] != nil {
		t.Errorf("optional operands: in %v, out %v", n.In, n.Out)
	}
	want := map[string]any{"seed": int64(3), "ratio": float32(0.5), "mode": "m", "axes": []int64{1, 2}, "scales": []float32{1, 2}}
	if !reflect.DeepEqual(n.Attrs, want) {
		t.Errorf("attributes %v", n.Attrs)
	}
	if m := g.Nodes[2]; m.In[0] != m.In[1] || m.In[0] == nil {
		t.Errorf("one value read twice: %v", m.In)
	}
	if c, _ := g.Nodes[0].Attrs["value"].(*graph.Tensor); c == nil || len(c.Floats) != 1 || c.Floats[0] != 4 || len(c.Dims) != 0 {
		t.Errorf("scalar constant %+v", g.Nodes[0].Attrs["value"])
	}
}

func TestInitializersAmongInputs(t *testing.T) {
	b := onnxtest.New(17).Input("w", 2).Input("x", "n", 2).OutputUnshaped(1, "y").Init("w", onnxtest.Floats([]float32{1, 2}, 2)).
		Node("Add", []string{"x", "w"}, []string{"y"}, nil)
	g := decode(t, b)
	if len(g.Inputs) != 1 || g.Inputs[0].Name != "x" || g.Nodes[0].In[1].Const == nil {
		t.Errorf("inputs %v", g.Inputs)
	}
}

func TestEmptyTensorAndUnreadableConstant(t *testing.T) {
	b := onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").Init("none", onnxtest.Floats(nil, 0, 3)).
		Init("half", onnxtest.Tensor{Type: 10, Dims: []int64{1}, Data: []byte{0, 60}}).
		Node("Foo", []string{"x", "none", "half"}, []string{"y"}, nil)
	in := decode(t, b).Nodes[0].In
	if in[1].Const == nil || in[1].Const.Len() != 0 || !reflect.DeepEqual(in[1].Dims, []int{0, 3}) {
		t.Errorf("empty tensor: %+v", in[1])
	}
	if in[2].Const != nil || in[2].Type.String() != "float16" {
		t.Errorf("float16 tensor: %+v", in[2])
	}
}

// A node without operands gets an invented one from onnx-go, which must not hide a value of that name.
func TestInventedOperandHidesNothing(t *testing.T) {
	b := onnxtest.New(17).Input("/input", "n", 2).OutputUnshaped(1, "y").
		Node("Constant", nil, []string{"k"}, onnxtest.Attrs{"value_float": float32(1)}).
		Node("Add", []string{"/input", "k"}, []string{"y"}, nil)
	if in := decode(t, b).Nodes[1].In[0]; in.Name != "/input" || in.From != nil || !in.Known {
		t.Errorf("operand %+v", in)
	}
}

// The order of the nodes must not cost more than linear work, nor depth on the stack.
func TestLongChainBackwards(t *testing.T) {
	const n = 20000
	b := onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, fmt.Sprintf("v%d", n))
	for i := n; i > 0; i-- {
		from := fmt.Sprintf("v%d", i-1)
		if i == 1 {
			from = "x"
		}
		b.Node("Relu", []string{from}, []string{fmt.Sprintf("v%d", i)}, nil)
	}
	g, err := onnx.Decode(b.Bytes(), onnx.Limits{MaxBytes: 1 << 22, MaxElements: 1, MaxItems: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range g.Nodes {
		if want := fmt.Sprintf("v%d", i+1); node.Out[0].Name != want {
			t.Fatalf("node %d computes %s, want %s", i, node.Out[0].Name, want)
		}
	}
}
