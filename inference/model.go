// Package inference scores batches of rows with small ONNX networks, without allocating.
//
// A Model is decoded, checked and compiled once; it is immutable and can be shared. A Session owns the memory of
// one goroutine. A row's result is a function of the model's bytes and of the row alone: it is the same to the bit
// at every batch size and position, in every program.
package inference

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/ghostgym/ghostgym/inference/graph"
	"github.com/ghostgym/ghostgym/inference/onnx"
	"github.com/ghostgym/ghostgym/inference/plan"
)

// Options bound the work that a file can cause and choose what is computed. The zero value is a sane default.
type Options struct {
	MaxBytes    int64  // size of the file; 0 means 32 MiB
	MaxElements int64  // constants in the file, values per row, and work of constant folding; 0 means 8,388,608
	MaxItems    int64  // nodes, edges, attributes, constants, inputs and outputs; 0 means 65,536
	Output      string // the output that Score computes; "" means the first
	// FixedBatch takes an input's fixed dimension 0 for the batch. Without it such a model is refused, because
	// an export with a fixed batch may have the batch size baked into other places.
	FixedBatch bool
}

const (
	defaultMaxBytes    = 32 << 20
	defaultMaxElements = 8 << 20
	defaultMaxItems    = 64 << 10
)

// IO is the signature of an input or output.
type IO struct {
	Name     string
	Dims     []int    // -1 where symbolic; dimension 0 is the batch
	DimNames []string // names of the symbolic dimensions, "" where there is none
	Type     string   // float32, int64, …
}

// Refusal is the error of a model that is well formed but cannot be run; it lists every reason with its node.
type Refusal = graph.Refusal

// Problem is one reason of a Refusal.
type Problem = graph.Problem

// Model is a compiled network.
type Model struct {
	program         *plan.Program
	meta            map[string]string
	hash            string
	inputs, outputs []IO
}

// Load decodes, checks and compiles a model. A well-formed model that cannot be run gives a *Refusal.
func Load(b []byte, o Options) (*Model, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxElements == 0 {
		o.MaxElements = defaultMaxElements
	}
	if o.MaxItems == 0 {
		o.MaxItems = defaultMaxItems
	}
	if o.MaxBytes < 0 || o.MaxItems < 0 || o.MaxElements < 0 || o.MaxElements > 1<<31 {
		return nil, fmt.Errorf("inference: limits of %d bytes, %d elements and %d items are out of range", o.MaxBytes, o.MaxElements, o.MaxItems)
	}
	g, err := onnx.Decode(b, onnx.Limits{MaxBytes: o.MaxBytes, MaxElements: o.MaxElements, MaxItems: o.MaxItems})
	if err != nil {
		return nil, err
	}
	m := &Model{meta: g.Meta}
	for _, v := range g.Inputs {
		m.inputs = append(m.inputs, IO{v.Name, v.Dims, v.Symbols, v.Type.String()})
	}
	for i, v := range g.Outputs {
		d := g.Declared[i]
		m.outputs = append(m.outputs, IO{v.Name, d.Dims, d.Symbols, d.Type.String()})
	}
	m.program, err = plan.Compile(g, plan.Options{Output: o.Output, FixedBatch: o.FixedBatch, MaxElements: o.MaxElements})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	m.hash = hex.EncodeToString(sum[:])
	return m, nil
}

// LoadFile is Load of a file, of which it reads no more than MaxBytes. Errors name the file.
func LoadFile(path string, o Options) (*Model, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, o.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	m, err := Load(b, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Meta is a copy of the file's metadata_props.
func (m *Model) Meta() map[string]string { return maps.Clone(m.meta) }

// Hash is the SHA-256 of the file, in hexadecimal.
func (m *Model) Hash() string { return m.hash }

// Inputs are all inputs of the model, as declared.
func (m *Model) Inputs() []IO { return m.inputs }

// Outputs are all outputs of the model, as declared; also those that Score does not compute.
func (m *Model) Outputs() []IO { return m.outputs }

// Width is the number of float32s in an input row.
func (m *Model) Width() int { return m.program.InWidth }

// OutWidth is the number of float32s in a result row.
func (m *Model) OutWidth() int { return m.program.OutWidth }

// Describe prints the signature and the compiled plan.
func (m *Model) Describe() string {
	var b strings.Builder
	for _, v := range m.inputs {
		fmt.Fprintf(&b, "input   %q %s %v\n", v.Name, v.Type, v.Dims)
	}
	for _, v := range m.outputs {
		fmt.Fprintf(&b, "output  %q %s %v\n", v.Name, v.Type, v.Dims)
	}
	return b.String() + m.program.Describe()
}

// Reference computes n rows in float64 with nothing fused: slow, and independent of the kernels that Score uses.
func (m *Model) Reference(rows []float32, n int) ([]float64, error) {
	if n < 0 || len(rows) != n*m.Width() {
		return nil, fmt.Errorf("inference: %d float32s are not %d rows of %d", len(rows), n, m.Width())
	}
	return m.program.Reference(rows, n), nil
}
