package inference_test

import (
	"math"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
)

type attrs = onnxtest.Attrs

func floats(v ...float32) []float32 { return v }

// single builds a model of one node "y_node" on input x of shape [n, dims…], with constants as further operands.
func single(opset int64, op string, dims []any, a attrs, consts ...onnxtest.Tensor) []byte {
	b := onnxtest.New(opset).Input("x", append([]any{"n"}, dims...)...)
	in := []string{"x"}
	for i, c := range consts {
		name := "c" + string(rune('0'+i))
		b.Init(name, c)
		in = append(in, name)
	}
	typ := int64(1)
	if op == "ArgMax" {
		typ = 7
	}
	return b.Node(op, in, []string{"y"}, a).OutputUnshaped(typ, "y").Bytes()
}

func TestOperators(t *testing.T) {
	inf := float32(math.Inf(1))
	e := func(x float64) float32 { return float32(math.Exp(x)) }
	f := onnxtest.Floats
	cases := []struct {
		name   string
		opset  int64
		op     string
		dims   []any
		attrs  attrs
		consts []onnxtest.Tensor
		in     []float32 // one or more rows
		want   []float32
	}{
		{"add a row", 13, "Add", []any{3}, nil, []onnxtest.Tensor{f(floats(1, 2, 3), 3)}, floats(1, 1, 1, 2, 2, 2), floats(2, 3, 4, 3, 4, 5)},
		{"subtract a scalar", 13, "Sub", []any{2}, nil, []onnxtest.Tensor{f(floats(1))}, floats(1, 5), floats(0, 4)},
		{"multiply by a column", 13, "Mul", []any{2, 2}, nil, []onnxtest.Tensor{f(floats(2, 3), 2, 1)}, floats(1, 1, 1, 1), floats(2, 2, 3, 3)},
		{"divide, result wider", 13, "Div", []any{1}, nil, []onnxtest.Tensor{f(floats(1, 2, 4), 1, 3)}, floats(8, 4), floats(8, 4, 2, 4, 2, 1)},
		{"relu", 13, "Relu", []any{3}, nil, nil, floats(-1, 0, 2), floats(0, 0, 2)},
		{"leaky relu default", 13, "LeakyRelu", []any{2}, nil, nil, floats(-1, 2), floats(-0.01, 2)},
		{"clip by attributes", 9, "Clip", []any{3}, attrs{"min": float32(-1), "max": float32(1)}, nil, floats(-5, 0.5, 3), floats(-1, 0.5, 1)},
		{"clip below only", 11, "Clip", []any{2}, nil, []onnxtest.Tensor{f(floats(0))}, floats(-5, inf), floats(0, inf)},
		{"softmax 12 over all", 12, "Softmax", []any{1, 2}, nil, nil, floats(0, 0), floats(0.5, 0.5)},
		{"softmax 12 joins axes", 12, "Softmax", []any{2, 1}, nil, nil, floats(0, 0), floats(0.5, 0.5)},
		{"softmax 13 takes the last", 13, "Softmax", []any{2, 1}, nil, nil, floats(0, 0), floats(1, 1)},
		{"softmax of large logits", 13, "Softmax", []any{2}, nil, nil, floats(1000, 999), floats(1/(1+e(-1)), e(-1)/(1+e(-1)))},
		{"layer norm", 17, "LayerNormalization", []any{2}, attrs{"epsilon": float32(0)}, []onnxtest.Tensor{f(floats(2, 3), 2), f(floats(1, 1), 2)}, floats(0, 2), floats(-1, 4)},
		{"gemm", 13, "Gemm", []any{2}, attrs{"alpha": float32(2), "beta": float32(3)}, []onnxtest.Tensor{f(floats(1, 2, 3, 4), 2, 2), f(floats(1))}, floats(1, 1), floats(11, 15)},
		{"gemm transposed, no bias", 13, "Gemm", []any{2}, attrs{"transB": 1}, []onnxtest.Tensor{f(floats(1, 2, 3, 4), 2, 2)}, floats(1, 1), floats(3, 7)},
		{"matmul by a vector", 13, "MatMul", []any{2}, nil, []onnxtest.Tensor{f(floats(1, 2), 2)}, floats(1, 1, 2, 2), floats(3, 6)},
		{"matmul per slot", 13, "MatMul", []any{2, 1}, nil, []onnxtest.Tensor{f(floats(1, 2), 1, 2)}, floats(1, 10), floats(1, 2, 10, 20)},
		{"concat", 13, "Concat", []any{1, 2}, attrs{"axis": 1}, nil, floats(1, 2), floats(1, 2)},
		{"reshape", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{onnxtest.Ints([]int64{0, 2, -1}, 3)}, floats(1, 2, 3, 4), floats(1, 2, 3, 4)},
		{"flatten", 13, "Flatten", []any{2, 2}, nil, nil, floats(1, 2, 3, 4), floats(1, 2, 3, 4)},
		{"argmax takes the first", 13, "ArgMax", []any{3}, attrs{"axis": 1, "keepdims": 0}, nil, floats(1, 3, 3, 9, 0, 0), floats(1, 0)},
		{"argmax takes the last", 13, "ArgMax", []any{3}, attrs{"axis": -1, "select_last_index": 1}, nil, floats(1, 3, 3), floats(2)},
		{"argmax inside", 13, "ArgMax", []any{2, 2}, attrs{"axis": 1}, nil, floats(1, 5, 2, 4), floats(1, 0)},
		{"identity", 13, "Identity", []any{2}, nil, nil, floats(1, 2), floats(1, 2)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := load(t, single(c.opset, c.op, c.dims, c.attrs, c.consts...))
			n := len(c.in) / m.Width()
			got := score(t, session(t, m, n), c.in, n)
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for i, w := range c.want {
				if got[i] != w && !(math.Abs(float64(got[i]-w)) <= 1e-6*math.Abs(float64(w))) {
					t.Errorf("%v, want %v", got, c.want)
					break
				}
			}
		})
	}
}

func TestRefusedNodes(t *testing.T) {
	f, i := onnxtest.Floats, onnxtest.Ints
	cases := []struct {
		name   string
		opset  int64
		op     string
		dims   []any
		attrs  attrs
		consts []onnxtest.Tensor
		why    string
	}{
		{"unknown operator", 13, "Gelu", []any{2}, nil, nil, "not supported"},
		{"unknown attribute", 13, "Relu", []any{2}, attrs{"colour": 1}, nil, `"colour"`},
		{"attribute of the wrong type", 13, "LeakyRelu", []any{2}, attrs{"alpha": 1}, nil, "not a float"},
		{"too many operands", 13, "Relu", []any{2}, nil, []onnxtest.Tensor{f(floats(1))}, "2 operands"},
		{"before its opset", 16, "LayerNormalization", []any{2}, nil, []onnxtest.Tensor{f(floats(1, 1), 2)}, "from opset 17"},
		{"float64 operand", 13, "Add", []any{1}, nil, []onnxtest.Tensor{{Type: 11, Dims: []int64{1}, Data: make([]byte, 8)}}, "float64"},
		{"types differ", 13, "Add", []any{1}, nil, []onnxtest.Tensor{i([]int64{1}, 1)}, "types"},
		{"no broadcast", 13, "Add", []any{3}, nil, []onnxtest.Tensor{f(floats(1, 2), 2)}, "broadcast"},
		{"batch against a constant", 13, "Add", []any{1}, nil, []onnxtest.Tensor{f(floats(1, 2), 2, 1)}, "broadcast"},
		{"batch moved inwards", 13, "Add", []any{1}, nil, []onnxtest.Tensor{f(floats(1, 2), 2, 1, 1)}, "broadcast"},
		{"softmax over the batch", 13, "Softmax", []any{2}, attrs{"axis": 0}, nil, "batch"},
		{"softmax 12 joins the batch", 12, "Softmax", []any{2}, attrs{"axis": 0}, nil, "batch"},
		{"axis out of range", 13, "Softmax", []any{2}, attrs{"axis": 5}, nil, "axis 5"},
		{"axis of a huge model", 13, "Softmax", []any{2}, attrs{"axis": int64(1) << 62}, nil, "axis"},
		{"argmax over the batch by default", 13, "ArgMax", []any{2}, nil, nil, "batch"},
		{"select_last_index too early", 11, "ArgMax", []any{2}, attrs{"axis": 1, "select_last_index": 1}, nil, "opset 12"},
		{"clip attributes too late", 11, "Clip", []any{2}, attrs{"min": float32(0)}, nil, "operands from opset 11"},
		{"clip operands too early", 10, "Clip", []any{2}, nil, []onnxtest.Tensor{f(floats(0))}, "before opset 11"},
		{"clip bound of two numbers", 13, "Clip", []any{2}, nil, []onnxtest.Tensor{f(floats(0, 1), 2)}, "single"},
		{"gemm of wrong depth", 13, "Gemm", []any{3}, nil, []onnxtest.Tensor{f(floats(1, 2), 2, 1)}, "do not multiply"},
		{"gemm mixing the batch", 13, "Gemm", []any{2}, attrs{"transA": 1}, []onnxtest.Tensor{f(floats(1, 2), 2, 1)}, "batch"},
		{"gemm without bias too early", 10, "Gemm", []any{2}, nil, []onnxtest.Tensor{f(floats(1, 2), 2, 1)}, "opset 11"},
		{"gemm bias per row", 13, "Gemm", []any{1}, nil, []onnxtest.Tensor{f(floats(1), 1, 1), f(floats(1, 2), 2, 1)}, "bias"},
		{"matmul of wrong depth", 13, "MatMul", []any{3}, nil, []onnxtest.Tensor{f(floats(1, 2), 2)}, "do not multiply"},
		{"matmul by a scalar", 13, "MatMul", []any{3}, nil, []onnxtest.Tensor{f(floats(1))}, "scalar"},
		{"reshape baking a batch of 1", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{i([]int64{1, 4}, 2)}, "dynamic batch"},
		{"reshape mixing the batch", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{i([]int64{-1, 2}, 2)}, "keep the batch"},
		{"reshape with two -1", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{i([]int64{-1, -1}, 2)}, "more than one"},
		{"reshape to a huge size", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{i([]int64{0, 1 << 40, 1 << 40}, 3)}, "too large"},
		{"reshape to INT64_MIN", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{i([]int64{0, math.MinInt64}, 2)}, "impossible"},
		{"reshape to what does not fit", 13, "Reshape", []any{4}, nil, []onnxtest.Tensor{i([]int64{0, 3}, 2)}, "does not fit"},
		{"flatten into the batch", 13, "Flatten", []any{2, 2}, attrs{"axis": 2}, nil, "batch"},
		{"concat without axis", 13, "Concat", []any{2}, nil, nil, "axis"},
		{"concat along the batch", 13, "Concat", []any{2}, attrs{"axis": 0}, nil, "batch"},
		{"layer norm over the batch", 17, "LayerNormalization", []any{2}, attrs{"axis": 0}, []onnxtest.Tensor{f(floats(1, 1), 2)}, "batch"},
		{"layer norm in bfloat16", 17, "LayerNormalization", []any{2}, attrs{"stash_type": 16}, []onnxtest.Tensor{f(floats(1, 1), 2)}, "stash_type"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := refusal(t, single(c.opset, c.op, c.dims, c.attrs, c.consts...), inference.Options{})
			if len(r.Problems) != 1 || r.Problems[0].Node != "y_node" || !strings.Contains(r.Problems[0].Why, c.why) {
				t.Errorf("refused with %v, want %q of y_node", r, c.why)
			}
		})
	}
}

// refusal fails unless the model is refused.
func refusal(t testing.TB, b []byte, o inference.Options) *inference.Refusal {
	t.Helper()
	_, err := inference.Load(b, o)
	r, ok := err.(*inference.Refusal)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return r
}

func TestEveryOffendingNodeIsListed(t *testing.T) {
	b := onnxtest.New(17).Input("x", "n", 4).Output("y", "n", 4).
		Node("Gelu", []string{"x"}, []string{"a"}, nil).
		Node("Relu", []string{"a"}, []string{"b"}, nil). // depends on what is unknown: no fault of its own
		NodeIn("com.microsoft", "FusedGelu", []string{"b"}, []string{"c"}, nil).
		Node("Softmax", []string{"x"}, []string{"d"}, attrs{"axis": 0}).
		Node("Add", []string{"c", "d"}, []string{"y"}, nil)
	r := refusal(t, b.Bytes(), inference.Options{})
	var names []string
	for _, p := range r.Problems {
		names = append(names, p.Node)
	}
	if got := strings.Join(names, " "); got != "a_node c_node d_node" {
		t.Errorf("lists %q:\n%v", got, r)
	}
	for _, name := range names {
		if !strings.Contains(r.Error(), name) {
			t.Errorf("the message leaves %s out: %v", name, r)
		}
	}
}

func TestOutputsAndPruning(t *testing.T) {
	b := onnxtest.New(17).Input("x", "n", 3).Input("unused", 1, 7).
		Node("ArgMax", []string{"x"}, []string{"best"}, attrs{"axis": 1, "keepdims": 0}).
		Node("Relu", []string{"x"}, []string{"value"}, nil).
		Node("Gelu", []string{"x"}, []string{"odd"}, nil).
		OutputOf(7, "best", "n").Output("value", "n", 3).Output("odd", "n", 3).Bytes()
	m := load(t, b)
	if got := score(t, session(t, m, 2), floats(1, 9, 2, 5, 4, 3), 2); got[0] != 1 || got[1] != 0 || m.OutWidth() != 1 {
		t.Errorf("best = %v, width %d", got, m.OutWidth())
	}
	if len(m.Inputs()) != 2 || len(m.Outputs()) != 3 || m.Outputs()[0].Type != "int64" || m.Inputs()[0].DimNames[0] != "n" || m.Inputs()[0].Dims[0] != -1 {
		t.Errorf("signature: %+v → %+v", m.Inputs(), m.Outputs())
	}
	m, err := inference.Load(b, inference.Options{Output: "value"})
	if err != nil {
		t.Fatal(err)
	}
	if got := score(t, session(t, m, 1), floats(-1, 0, 2), 1); got[0] != 0 || got[2] != 2 {
		t.Errorf("value = %v", got)
	}
	refusal(t, b, inference.Options{Output: "odd"})
	if r := refusal(t, b, inference.Options{Output: "none"}); !strings.Contains(r.Error(), `"value"`) {
		t.Errorf("an unknown output does not list the known: %v", r)
	}
}

func TestBatchAxis(t *testing.T) {
	fixed := onnxtest.New(17).Input("x", 1, 2).Output("y", 1, 2).Node("Relu", []string{"x"}, []string{"y"}, nil).Bytes()
	if r := refusal(t, fixed, inference.Options{}); !strings.Contains(r.Error(), "dynamic batch") {
		t.Error(r)
	}
	m, err := inference.Load(fixed, inference.Options{FixedBatch: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := score(t, session(t, m, 1), floats(-1, 2, 3, -4), 2); got[1] != 2 || got[2] != 3 {
		t.Errorf("%v", got)
	}
	for name, b := range map[string]*onnxtest.Builder{
		"open inner dimension": onnxtest.New(17).Input("x", "n", "m"),
		"scalar":               onnxtest.New(17).Input("x"),
		"bool":                 onnxtest.New(17).InputOf(9, "x", "n", 2),
		"empty":                onnxtest.New(17).Input("x", "n", 0),
		"huge":                 onnxtest.New(17).Input("x", "n", 65536, 65536),
	} {
		b.Node("Relu", []string{"x"}, []string{"y"}, nil).OutputUnshaped(1, "y")
		if r := refusal(t, b.Bytes(), inference.Options{}); !strings.Contains(r.Error(), `"x"`) {
			t.Errorf("%s: %v", name, r)
		}
	}
	two := onnxtest.New(17).Input("a", "n", 2).Input("b", "n", 2).OutputUnshaped(1, "y").
		Node("Add", []string{"a", "b"}, []string{"y"}, nil).Bytes()
	if r := refusal(t, two, inference.Options{}); !strings.Contains(r.Error(), `"a", "b"`) {
		t.Error(r)
	}
	constant := onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").Init("c", onnxtest.Floats(floats(1), 1)).
		Node("Relu", []string{"c"}, []string{"y"}, nil).Bytes()
	if r := refusal(t, constant, inference.Options{}); !strings.Contains(r.Error(), "no input") {
		t.Error(r)
	}
}

func TestDeclaredOutputMustAgree(t *testing.T) {
	for name, b := range map[string]*onnxtest.Builder{
		"width": onnxtest.New(17).Output("y", "n", 3), "rank": onnxtest.New(17).Output("y", "n", 2, 1),
		"type": onnxtest.New(17).OutputOf(7, "y", "n", 2),
	} {
		b.Input("x", "n", 2).Node("Relu", []string{"x"}, []string{"y"}, nil)
		if r := refusal(t, b.Bytes(), inference.Options{}); !strings.Contains(r.Error(), "declared") {
			t.Errorf("%s: %v", name, r)
		}
	}
}
