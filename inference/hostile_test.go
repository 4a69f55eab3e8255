package inference_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/inference/onnxtest"
	"google.golang.org/protobuf/encoding/protowire"
)

// msg encodes a protobuf message from (field, value) pairs; a value is an int, string or []byte.
func msg(pairs ...any) []byte {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		num := protowire.Number(pairs[i].(int))
		switch v := pairs[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
		case string:
			b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), []byte(v))
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
		}
	}
	return b
}

// plain is a good model: y = Relu(x + c).
func plain() *onnxtest.Builder {
	return onnxtest.New(17).Input("x", "n", 2).Output("y", "n", 2).Init("c", onnxtest.Floats(floats(1, 2), 2)).
		Node("Add", []string{"x", "c"}, []string{"s"}, nil).Node("Relu", []string{"s"}, []string{"y"}, nil)
}

// initializer is the good model with one more initializer, read by nobody.
func initializer(body []byte) []byte { return plain().RawGraph(5, body).Bytes() }

// hostile files, by what is wrong with them, and a part of the error.
func hostile() map[string]struct {
	file []byte
	want string
} {
	type file = struct {
		file []byte
		want string
	}
	good := plain().Bytes()
	eight := string(make([]byte, 8))
	return map[string]file{
		"empty":                {nil, "empty"},
		"text":                 {[]byte("\x89PNG\r\n\x1a\n"), "is it an ONNX file?"},
		"words":                {[]byte("no model"), "is it an ONNX file?"},
		"truncated":            {good[:len(good)/2], "the file is cut short"},
		"cut by a byte":        {good[:len(good)-1], "the file is cut short"},
		"trailing garbage":     {append(append([]byte{}, good...), 0xff, 0xff), "onnx"},
		"length lie":           {[]byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0x07, 1}, "onnx"},
		"no graph":             {msg(1, 8), "no graph"},
		"two graphs":           {append(append([]byte{}, good...), good...), "twice"},
		"group":                {append(append([]byte{}, good...), 0x0b, 0x0b, 0x0c, 0x0c), "wire type"},
		"graph as number":      {msg(1, 8, 7, 1), "wire type"},
		"name not UTF-8":       {plain().RawGraph(1, msg(1, "x", 2, "\xff", 4, "Relu")).Bytes(), "UTF-8"},
		"no opset":             {msg(1, 8, 7, msg(1, msg(1, "x", 2, "y", 4, "Relu"), 11, msg(1, "x"), 12, msg(1, "y"))), "no version"},
		"opset of the future":  {onnxtest.New(1<<62).Input("x", "n", 2).Bytes(), "opset"},
		"opset of the past":    {onnxtest.New(6).Input("x", "n", 2).Bytes(), "opset"},
		"two opsets":           {plain().RawModel(8, msg(2, 13)).Bytes(), "imported as version"},
		"IR of the future":     {plain().IR(99).Bytes(), "IR version"},
		"functions":            {plain().RawModel(25, msg(1, "f")).Bytes(), "functions"},
		"sparse initializer":   {plain().RawGraph(15, nil).Bytes(), "sparse"},
		"external data":        {initializer(msg(1, 2, 2, 1, 8, "w", 13, msg(1, "location", 2, "../../etc/passwd"), 14, 1)), "another file"},
		"external by location": {initializer(msg(1, 2, 2, 1, 8, "w", 9, eight, 14, 1)), "another file"},
		"external in Constant": {plain().Node("Constant", nil, []string{"k"}, nil).RawGraph(1, msg(2, "q", 4, "Constant",
			5, msg(1, "value", 20, 4, 5, msg(1, 1, 2, 1, 13, msg(1, "location", 2, "/dev/zero"))))).Bytes(), "another file"},
		"negative dimension":       {initializer(msg(1, -2, 2, 1, 8, "w", 9, eight)), "negative"},
		"two negative dimensions":  {initializer(msg(1, -1, 1, -2, 2, 1, 8, "w", 9, eight)), "negative"},
		"huge dimension":           {initializer(msg(1, 1<<40, 2, 1, 8, "w", 9, eight)), "limit"},
		"overflowing product":      {initializer(msg(1, 1<<20, 1, 1<<22, 1, 1<<22, 2, 1, 8, "w", 9, eight)), "limit"},
		"product overflows to 0":   {initializer(msg(1, 1<<22, 1, 1<<22, 1, 1<<22, 2, 1, 8, "w")), "limit"},
		"rank of 3000":             {initializer(append(msg(2, 1, 8, "w", 9, "abcd"), rank(3000)...)), "3000 dimensions"},
		"too little raw data":      {initializer(msg(1, 3, 2, 1, 8, "w", 9, eight)), "need 12 bytes"},
		"too much raw data":        {initializer(msg(1, 1, 2, 1, 8, "w", 9, eight)), "need 4 bytes"},
		"unaligned raw data":       {initializer(msg(1, 1, 2, 1, 8, "w", 9, "abc")), "need 4 bytes"},
		"no data":                  {initializer(msg(1, 1, 2, 1, 8, "w")), "need 4 bytes"},
		"data twice":               {initializer(msg(1, 1, 2, 1, 8, "w", 4, "abcd", 9, "abcd")), "more than one field"},
		"raw data twice":           {initializer(msg(1, 1, 2, 1, 8, "w", 9, "abcd", 9, "abcd")), "twice"},
		"data of another type":     {initializer(msg(1, 1, 2, 1, 8, "w", 7, 5)), "does not fit"},
		"unknown element type":     {initializer(msg(1, 1, 2, 999, 8, "w", 9, "abcd")), "999"},
		"undefined element type":   {initializer(msg(1, 1, 8, "w", 9, "abcd")), "element type 0"},
		"initializer without name": {initializer(msg(1, 1, 2, 1, 9, "abcd")), "no name"},
		"initializer twice":        {initializer(msg(1, 1, 2, 1, 8, "c", 9, "abcd")), "twice"},
		"initializer is computed":  {initializer(msg(1, 1, 2, 1, 8, "s", 9, "abcd")), "more than once"},
		"node without output":      {plain().RawGraph(1, msg(1, "x", 4, "Relu")).Bytes(), "no output"},
		"node without operator":    {plain().RawGraph(1, msg(1, "x", 2, "z")).Bytes(), "no operator"},
		"attribute twice":          {plain().RawGraph(1, msg(1, "x", 2, "z", 4, "Elu", 5, msg(1, "a", 20, 2, 3, 1), 5, msg(1, "a", 20, 2, 3, 1))).Bytes(), "twice"},
		"tensor attribute empty":   {plain().RawGraph(1, msg(2, "z", 4, "Constant", 5, msg(1, "value", 20, 4))).Bytes(), "no tensor"},
		"operand of nowhere":       {plain().Node("Relu", []string{"nowhere"}, []string{"z"}, nil).Bytes(), `"nowhere"`},
		"value written twice":      {plain().Node("Relu", []string{"x"}, []string{"s"}, nil).Bytes(), "more than once"},
		"input written":            {plain().Node("Relu", []string{"c"}, []string{"x"}, nil).Bytes(), "more than once"},
		"input twice":              {plain().Input("x", "n", 2).Bytes(), "twice"},
		"output of nowhere":        {plain().Output("z", "n", 2).Bytes(), `"z"`},
		"output twice":             {plain().Output("y", "n", 2).Bytes(), "twice"},
		"self loop":                {plain().Node("Relu", []string{"l"}, []string{"l"}, nil).Bytes(), "cycle"},
		"cycle": {plain().Node("Relu", []string{"q"}, []string{"p"}, nil).
			Node("Relu", []string{"p"}, []string{"q"}, nil).Bytes(), "cycle"},
		"input of negative size": {onnxtest.New(17).Input("x", -4, 2).OutputUnshaped(1, "y").
			Node("Relu", []string{"x"}, []string{"y"}, nil).Bytes(), "size -4"},
		"sequence input": {onnxtest.New(17).RawGraph(11, msg(1, "x", 2, msg(4, msg(1, msg(1, 1))))).OutputUnshaped(1, "y").
			Node("Relu", []string{"x"}, []string{"y"}, nil).Bytes(), "not a tensor"},
		"input without shape": {onnxtest.New(17).RawGraph(11, msg(1, "x", 2, msg(1, msg(1, 1)))).OutputUnshaped(1, "y").
			Node("Relu", []string{"x"}, []string{"y"}, nil).Bytes(), "no shape"},
		"subgraph": {onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").
			RawGraph(1, msg(1, "x", 2, "y", 3, "branch", 4, "Relu", 5, msg(1, "then", 20, 5, 6, nested(500)))).Bytes(), "subgraph"},
		"constant of float16": {onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").
			Node("Constant", nil, []string{"k"}, attrs{"value": onnxtest.Tensor{Type: 10, Data: make([]byte, 2)}}).
			Node("Mul", []string{"x", "k"}, []string{"y"}, nil).Bytes(), "float16"},
		"a node of many operands and results": {plain().Node("Foo", strings.Split(strings.Repeat("x ", 999)+"x", " "),
			make([]string, 1000), nil).Bytes(), "more than 65536"},
		"too many nodes":        {chain(40000), "more than 65536"},
		"constants that double": {doubling(30), "element operations"},
		"constants of a million squared": {onnxtest.New(17).Input("x", "n", 1).OutputUnshaped(1, "y").
			Init("a", onnxtest.Floats(make([]float32, 100000), 100000, 1)).Init("b", onnxtest.Floats(make([]float32, 100000), 100000)).
			Node("Add", []string{"a", "b"}, []string{"k"}, nil).Node("Mul", []string{"x", "k"}, []string{"y"}, nil).Bytes(), "more than"},
		"integer division by zero": {onnxtest.New(17).Input("x", "n", 1).OutputUnshaped(1, "y").
			Init("a", onnxtest.Ints([]int64{1}, 1)).Init("b", onnxtest.Ints([]int64{0}, 1)).
			Node("Div", []string{"a", "b"}, []string{"k"}, nil).Node("Reshape", []string{"x", "k"}, []string{"y"}, nil).Bytes(), "by zero"},
	}
}

func rank(n int) (dims []byte) {
	for range n {
		dims = append(dims, msg(1, 1)...)
	}
	return dims
}

// nested is a graph in an attribute of a node of a graph, and so on.
func nested(depth int) []byte {
	var g []byte
	for range depth {
		g = msg(1, msg(2, "o", 4, "If", 5, msg(1, "then", 20, 5, 6, g)))
	}
	return g
}

// chain is many nodes, one after another.
func chain(n int) []byte {
	b := onnxtest.New(17).Input("v0", "n", 1).OutputUnshaped(1, "y")
	for i := range n {
		b.Node("Relu", []string{fmt.Sprintf("v%d", i)}, []string{fmt.Sprintf("v%d", i+1)}, nil)
	}
	return b.Node("Relu", []string{fmt.Sprintf("v%d", n)}, []string{"y"}, nil).Bytes()
}

// doubling joins a constant to itself again and again.
func doubling(times int) []byte {
	b := onnxtest.New(17).Input("x", "n", 1).OutputUnshaped(1, "y").Init("k", onnxtest.Floats(floats(1), 1))
	at := "k"
	for range times {
		b.Node("Concat", []string{at, at}, []string{at + "k"}, attrs{"axis": 0})
		at += "k"
	}
	return b.Node("Mul", []string{"x", at}, []string{"y"}, nil).Bytes()
}

func TestHostileFiles(t *testing.T) {
	if _, err := inference.Load(plain().Bytes(), inference.Options{}); err != nil {
		t.Fatal("the good model: ", err)
	}
	for name, c := range hostile() {
		m, err := inference.Load(c.file, inference.Options{})
		if m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	b := onnxtest.MLP(3, []int{4}, 2, "Tanh", 1, map[string]string{"a": "b"})
	whole := load(t, b)
	for n := range b {
		// What is left may be a model still, where only opset_import or metadata was cut off whole.
		if m, err := inference.Load(b[:n], inference.Options{}); err == nil && m.Width() != whole.Width() {
			t.Fatalf("the first %d of %d bytes load as another model", n, len(b))
		}
	}
}

func TestLimits(t *testing.T) {
	b := plain().Bytes()
	refusal(t, b, inference.Options{MaxBytes: int64(len(b)) - 1})
	refusal(t, b, inference.Options{MaxElements: 1})
	refusal(t, b, inference.Options{MaxItems: 8})
	refusal(t, onnxtest.New(17).Input("x", "n", 2).OutputUnshaped(1, "y").Node("Foo", []string{"x"}, []string{"y"},
		attrs{"list": make([]int64, 20)}).Bytes(), inference.Options{MaxElements: 19})
	if m := load(t, chain(20000)); m.Width() != 1 {
		t.Error("a long chain within the limits")
	}
	if _, err := inference.Load(b, inference.Options{MaxBytes: int64(len(b)), MaxElements: 12, MaxItems: 12}); err != nil {
		t.Error(err)
	}
	if _, err := inference.Load(b, inference.Options{MaxElements: -1}); err == nil {
		t.Error("a negative limit: no error")
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := inference.LoadFile(path, inference.Options{MaxBytes: 8}); err == nil || !strings.Contains(err.Error(), path+": ") ||
		!strings.Contains(err.Error(), "more than 8 bytes") {
		t.Errorf("got %v, want an error that names the file and the limit", err)
	}
	if m, err := inference.LoadFile(path, inference.Options{}); err != nil || m.Hash() != load(t, b).Hash() {
		t.Errorf("%v", err)
	}
}

// FuzzLoad asserts that no file makes the loader or the session panic, and that what loads is batch-invariant.
func FuzzLoad(f *testing.F) {
	f.Add(plain().Bytes())
	f.Add(kitchenSink())
	f.Add(onnxtest.MLP(3, []int{4}, 2, "LeakyRelu", 1, map[string]string{"k": "v"}))
	for _, c := range hostile() {
		if len(c.file) < 1<<16 {
			f.Add(c.file)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := inference.Load(b, inference.Options{MaxBytes: 1 << 16, MaxElements: 1 << 16, FixedBatch: true})
		if err != nil {
			return
		}
		s := session(t, m, 1)
		rows := onnxtest.Normal(rand.New(rand.NewPCG(1, 1)), 2*m.Width(), 1)
		both := score(t, s, rows, 2)
		for i, v := range score(t, s, rows[m.Width():], 1) {
			if w := both[m.OutWidth()+i]; v != w && (v == v || w == w) {
				t.Fatalf("row 1 alone gives %v, behind another %v", v, w)
			}
		}
	})
}
