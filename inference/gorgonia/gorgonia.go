// Package gorgonia runs a model in onnx-go's own Gorgonia backend: slow, but written by others, and so an oracle
// for the compiled plan.
//
// It runs only what that backend gets right. Its Gemm reuses the bias as the result where both have the same size,
// which makes a second run wrong, so every call builds the graph anew and Gemm at one row is refused; it has no
// LayerNormalization, Clip or ArgMax; it joins both operands of Mul(x, x); it ignores Softmax's axis. A mismatch of
// shapes would end the process from a goroutine of its own, so a model must have passed inference.Load.
package gorgonia

import (
	"fmt"
	"sync"

	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/inference/graph"
	decoder "github.com/ghostgym/ghostgym/inference/onnx"
	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"gorgonia.org/tensor"
)

// safe are the operators that the backend gets right, on operands of at most two dimensions.
var safe = map[string]bool{
	"Add": true, "Gemm": true, "LeakyRelu": true, "MatMul": true, "Mul": true, "Relu": true, "Sigmoid": true,
	"Softmax": true, "Sub": true, "Tanh": true,
}

// building guards a counter that the backend shares between graphs.
var building sync.Mutex

// Score computes n rows of the model's first output. It refuses, naming the node, what the backend is not known to
// get right.
func Score(b []byte, rows []float32, n int) (out []float32, err error) {
	m, err := inference.Load(b, inference.Options{})
	if err != nil {
		return nil, err
	}
	if n < 1 || len(rows) != n*m.Width() {
		return nil, fmt.Errorf("gorgonia: %d float32s are not %d rows of %d", len(rows), n, m.Width())
	}
	g, err := decoder.Decode(b, decoder.Limits{MaxBytes: int64(len(b)), MaxElements: 1 << 23, MaxItems: 1 << 20})
	if err != nil {
		return nil, err
	}
	for _, node := range g.Nodes {
		if why := unsafe(node, n); why != "" {
			return nil, &graph.Refusal{Problems: []graph.Problem{{Node: node.Name, Op: node.Op, Why: "in Gorgonia, " + why}}}
		}
	}
	if len(g.Inputs) != 1 || len(g.Inputs[0].Dims) != 2 || len(g.Outputs) != 1 {
		return nil, graph.Refuse("Gorgonia runs models of one matrix input and one output")
	}
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("gorgonia: %v", p)
		}
	}()
	building.Lock()
	defer building.Unlock()
	backend := gorgonnx.NewGraph()
	model := onnx.NewModel(backend)
	if err := model.UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("gorgonia: %w", err)
	}
	in, ok := model.GetNodeByName(g.Inputs[0].Name)
	if !ok {
		return nil, fmt.Errorf("gorgonia: input %q is missing", g.Inputs[0].Name)
	}
	x := tensor.New(tensor.WithShape(n, m.Width()), tensor.WithBacking(append([]float32(nil), rows...)))
	if err := in.(onnx.DataCarrier).SetTensor(x); err != nil {
		return nil, fmt.Errorf("gorgonia: %w", err)
	}
	if err := backend.Run(); err != nil {
		return nil, fmt.Errorf("gorgonia: %w", err)
	}
	y, ok := model.GetNodeByName(g.Outputs[0].Name)
	if !ok {
		return nil, fmt.Errorf("gorgonia: output %q is missing", g.Outputs[0].Name)
	}
	switch data := y.(onnx.DataCarrier).GetTensor().Data().(type) {
	case []float32:
		out = append(out, data...)
	case float32:
		out = append(out, data)
	}
	if len(out) != n*m.OutWidth() {
		return nil, fmt.Errorf("gorgonia: %d results, expected %d rows of %d", len(out), n, m.OutWidth())
	}
	return out, nil
}

// unsafe says why the backend must not be trusted with a node; "" when it may.
func unsafe(n *graph.Node, rows int) string {
	seen := map[*graph.Value]bool{}
	for _, v := range n.In {
		switch {
		case v == nil:
			return "operands cannot be left out"
		case seen[v]:
			return "an operand cannot be used twice"
		case v.From == nil && len(v.Dims) > 2:
			return "operands have at most two dimensions"
		}
		seen[v] = true
	}
	switch {
	case !safe[n.Op]:
		return "the operator is missing or wrong"
	case n.Op == "Gemm" && len(n.In) < 3:
		return "Gemm needs a bias"
	case n.Op == "Gemm" && rows == 1:
		return "Gemm is wrong at one row"
	case n.Op == "Softmax" && (rows == 1 || n.Int("axis", 1) != 1 && n.Int("axis", 1) != -1):
		return "Softmax works over axis 1 of more than one row"
	}
	return ""
}
