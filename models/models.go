// Package models turns a model file into what an agent runs: a scorer, the check that it was trained on the rows which this version
// computes, and the heuristic that answers where it cannot. It is where inference and agent meet, who do not know each other.
//
// A model says what it is in its metadata, under the keys of package feature: the hash and the text of its schema, the kind of its
// action, and the ranges it was trained on. A model without them is a plain scorer: it can be run on rows of its own width, not
// inside of an agent.
package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/inference"
)

// Model is a loaded model. It does not change, and may be shared.
type Model struct {
	name    string
	net     *inference.Model
	meta    map[string]string
	schema  *feature.Schema
	refusal error
	ranges  map[string][2]float64
}

// ErrModel is matched, with errors.Is, by the error of a model that cannot be read or run, or cannot schedule here.
var ErrModel = errors.New("model")

type modelError struct{ err error }

func (e *modelError) Error() string   { return e.err.Error() }
func (e *modelError) Unwrap() []error { return []error{ErrModel, e.err} }

func bad(format string, args ...any) error { return &modelError{fmt.Errorf(format, args...)} }

// LoadFile reads an ONNX file. The error says what in it cannot be run.
func LoadFile(path string) (*Model, error) {
	net, err := inference.LoadFile(path, inference.Options{})
	if err != nil {
		return nil, bad("model: %w", err)
	}
	return newModel(path, net), nil
}

// Load reads an ONNX file's bytes. The model is named by the beginning of their hash.
func Load(data []byte) (*Model, error) {
	net, err := inference.Load(data, inference.Options{})
	if err != nil {
		return nil, bad("model: %w", err)
	}
	return newModel("sha256:"+net.Hash()[:12], net), nil
}

func newModel(name string, net *inference.Model) *Model {
	m := &Model{name: name, net: net, meta: net.Meta()}
	schema, err := schemaOf(net, m.meta)
	if err == nil {
		m.ranges, err = rangesOf(m.meta)
	}
	if err != nil {
		m.refusal = bad("model %s: %w", name, err)
		return m
	}
	m.schema = schema
	return m
}

func rangesOf(meta map[string]string) (ranges map[string][2]float64, err error) {
	text, ok := meta[feature.MetaRanges]
	if !ok {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &ranges); err != nil {
		return nil, fmt.Errorf("metadata %s: want {name: [lowest, highest], …}: %w", feature.MetaRanges, err)
	}
	return ranges, nil
}

// ErrNoSchema is matched, with errors.Is, by the refusal of a model that does not say what its rows are.
var ErrNoSchema = errors.New("it does not say what its rows are")

// SchemaError refuses a model that was trained on other rows than this version computes.
type SchemaError struct {
	Model, Here string   // hashes
	Differ      []string // what differs; nothing where the model's schema text is ours, and its hash is not
}

func (e *SchemaError) Error() string {
	if len(e.Differ) == 0 {
		return fmt.Sprintf("its metadata contradict each other: the schema text is the one here, of hash %s, and the hash beside it is %s; "+
			"ghostgym.export.stamp writes both anew", e.Here, e.Model)
	}
	return fmt.Sprintf("it was trained on another schema: hash %s in the model, %s here; what differs:\n  %s\ntrain it anew, or run the version it was made with",
		e.Model, e.Here, strings.Join(e.Differ, "\n  "))
}

// maxHash bounds what a refusal quotes of a hash that may be anything.
const maxHash = 64

func schemaOf(net *inference.Model, meta map[string]string) (*feature.Schema, error) {
	hash, kind := meta[feature.MetaHash], meta[feature.MetaAction]
	if hash == "" {
		return nil, fmt.Errorf("%w: metadata %s is missing (ghostgym.export.stamp adds it)", ErrNoSchema, feature.MetaHash)
	}
	i := slices.IndexFunc(feature.Schemas(), func(s *feature.Schema) bool { return s.Hash() == hash })
	if i < 0 {
		if len(hash) > maxHash {
			hash = hash[:maxHash]
		}
		s, err := feature.ByAction(kind)
		if err != nil {
			return nil, fmt.Errorf("hash %q is of no schema here, and metadata %s: %w", hash, feature.MetaAction, err)
		}
		return nil, &SchemaError{Model: hash, Here: s.Hash(), Differ: s.Diff(meta[feature.MetaSchema])}
	}
	s := feature.Schemas()[i]
	if kind != "" && kind != s.Action.Kind {
		return nil, fmt.Errorf("metadata %s is %q, and the schema it names wants %q", feature.MetaAction, kind, s.Action.Kind)
	}
	if net.Width() != s.Width() {
		return nil, fmt.Errorf("it takes rows of %d numbers, and the schema it names has %d", net.Width(), s.Width())
	}
	if w := s.Action.Width(); net.OutWidth() != w && !(s.Action.Kind == "slot" && net.OutWidth() == 1) {
		return nil, fmt.Errorf("it gives %d numbers for a row, and an action by %s takes %d", net.OutWidth(), s.Action.Kind, w)
	}
	return s, nil
}

// Name is the path it was loaded from, or the beginning of its hash.
func (m *Model) Name() string { return m.name }

// Hash is the SHA-256 of the file, in hexadecimal.
func (m *Model) Hash() string { return m.net.Hash() }

// Schema is what its rows mean; nil where Check refuses it.
func (m *Model) Schema() *feature.Schema { return m.schema }

// Check says why the model cannot schedule; nil if it can.
func (m *Model) Check() error { return m.refusal }

// Meta is the model's metadata. It must not be changed.
func (m *Model) Meta() map[string]string { return m.meta }

// Width is how many numbers a row has, OutWidth how many the model gives for it.
func (m *Model) Width() int    { return m.net.Width() }
func (m *Model) OutWidth() int { return m.net.OutWidth() }

// NewSession makes an instance that scores rows as the graph does, whatever they mean. It is used by one goroutine.
func (m *Model) NewSession() (*inference.Session, error) {
	s, err := m.net.NewSession(batchRows)
	if err != nil {
		return nil, bad("model %s: %w", m.name, err)
	}
	return s, nil
}

// batchRows is the batch that sessions have room for from the start; they grow with need.
const batchRows = 16

// NewPolicy makes an instance that schedules, with the heuristic that answers where the model cannot. Its order is Schema().Order().
func (m *Model) NewPolicy(fallback string) (policy.Policy, error) {
	if m.refusal != nil {
		return nil, m.refusal
	}
	session, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	var s policy.Scorer = session
	if w := m.schema.Action.Width(); w != m.net.OutWidth() {
		s = &indexed{session: session, width: w}
	}
	e, err := policy.Find("learned")
	if err != nil {
		return nil, err
	}
	return e.New(policy.Config{Schema: m.schema, Scorer: s, Fallback: fallback})
}

// Outside compares what a machine is like with the ranges that the model was trained on, and words a warning for each value outside
// of them. Names that the model does not list are not judged.
func (m *Model) Outside(values map[string]float64) (warnings []string) {
	for name, x := range values {
		r, ok := m.ranges[name]
		if ok && !(x >= r[0] && x <= r[1]) {
			warnings = append(warnings, fmt.Sprintf("model %s: %s is %v, and it was trained on %v to %v", m.name, name, x, r[0], r[1]))
		}
	}
	sort.Strings(warnings)
	return warnings
}

// Info describes the model in msgpack: name, width, out_width, metadata, ranges, schema ("" if none of ours), and why it cannot
// schedule ("" if it can).
func (m *Model) Info() ([]byte, error) {
	kind, why := "", ""
	if m.schema != nil {
		kind = m.schema.Kind
	}
	if m.refusal != nil {
		why = m.refusal.Error()
	}
	return msgpack.Marshal(map[string]any{
		"name": m.name, "width": m.Width(), "out_width": m.OutWidth(), "metadata": m.meta, "ranges": m.ranges,
		"schema": kind, "refusal": why,
	})
}

// indexed serves graphs that end in an arg-max of their own: the index they give becomes the greatest logit, and the back the next,
// for where that action is illegal.
type indexed struct {
	session *inference.Session
	width   int // logits per row
	index   []float32
}

// Score implements policy.Scorer.
func (s *indexed) Score(rows []float32, n int, out []float32) error {
	for len(s.index) < n {
		s.index = append(s.index, 0)
	}
	if err := s.session.Score(rows, n, s.index[:n]); err != nil {
		return err
	}
	for i, x := range s.index[:n] {
		logits := out[i*s.width : (i+1)*s.width]
		clear(logits)
		logits[s.width-1] = 1
		switch {
		case x != x || math.IsInf(float64(x), 0):
			logits[s.width-1] = x // the fallback answers
		case x >= 0 && x < float32(s.width):
			logits[int(x)] = 2
		}
	}
	return nil
}
