package onnx

import (
	"fmt"

	"github.com/ghostgym/ghostgym/inference/graph"
	"google.golang.org/protobuf/encoding/protowire"
)

// scan is what the pre-scan finds: everything that onnx-go hides or would trust, and a slim copy of the model
// that holds only what onnx-go reads well.
type scan struct {
	limits          Limits
	ir              int64
	producer        string
	opsets          map[string]int64
	meta            map[string]string
	inputs, outputs []valueInfo
	nodes           []nodeInfo
	inits           []tensorInfo
	functions       int
	graphs          int
	elements        int64
	items           int64
	slim            []byte // a GraphProto
}

type nodeInfo struct {
	name, op, domain string
	in, out          []string
	tensors          map[string]tensorInfo // attributes that are tensors
	defect           string
}

func newScan(l Limits) *scan {
	return &scan{limits: l, opsets: map[string]int64{}, meta: map[string]string{}}
}

// charge counts items against the limit. onnx-go makes an edge from each result of a node to each operand.
func (s *scan) charge(n int64) error {
	if s.items += n; s.items > s.limits.MaxItems {
		return graph.Refuse("the graph has more than %d nodes, edges, attributes, constants, inputs and outputs", s.limits.MaxItems)
	}
	return nil
}

func (s *scan) model(b []byte) error {
	err := each(b, "model", func(f field) error {
		switch f.num {
		case 1:
			return f.int(&s.ir, "model.ir_version")
		case 2:
			return f.text(&s.producer, "model.producer_name")
		case 7:
			if s.graphs++; s.graphs > 1 {
				return fmt.Errorf("onnx: model: the graph occurs twice")
			}
			if err := f.want(protowire.BytesType, "model.graph"); err != nil {
				return err
			}
			return s.graph(f.body)
		case 8:
			return s.opset(f)
		case 14:
			return s.metadata(f)
		case 25:
			s.functions++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.graphs == 0 {
		return fmt.Errorf("onnx: the file holds no graph")
	}
	if s.functions > 0 {
		return graph.Refuse("the model defines %d functions of its own; export with them inlined", s.functions)
	}
	return nil
}

func (s *scan) opset(f field) error {
	var domain string
	var version int64
	if err := f.want(protowire.BytesType, "model.opset_import"); err != nil {
		return err
	}
	err := each(f.body, "model.opset_import", func(f field) error {
		switch f.num {
		case 1:
			return f.text(&domain, "model.opset_import.domain")
		case 2:
			return f.int(&version, "model.opset_import.version")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if domain == "ai.onnx" {
		domain = ""
	}
	if old, ok := s.opsets[domain]; ok && old != version {
		return fmt.Errorf("onnx: opset_import: domain %q is imported as version %d and as %d", domain, old, version)
	}
	s.opsets[domain] = version
	return nil
}

func (s *scan) metadata(f field) error {
	var k, v string
	if err := f.want(protowire.BytesType, "model.metadata_props"); err != nil {
		return err
	}
	err := each(f.body, "model.metadata_props", func(f field) error {
		switch f.num {
		case 1:
			return f.text(&k, "model.metadata_props.key")
		case 2:
			return f.text(&v, "model.metadata_props.value")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, ok := s.meta[k]; ok {
		return fmt.Errorf("onnx: metadata_props: key %q occurs twice", k)
	}
	s.meta[k] = v
	return nil
}

func (s *scan) graph(b []byte) error {
	seen := map[string]bool{}
	return each(b, "graph", func(f field) error {
		switch f.num {
		case 1, 5, 11, 12, 15:
			if err := f.want(protowire.BytesType, "graph"); err != nil {
				return err
			}
			if err := s.charge(1); err != nil {
				return err
			}
		}
		switch f.num {
		case 1:
			return s.node(f.body)
		case 5:
			t, err := s.tensor(f.body, fmt.Sprintf("graph.initializer[%d]", len(s.inits)))
			if err != nil {
				return err
			}
			if t.name == "" {
				return fmt.Errorf("onnx: graph.initializer[%d] has no name", len(s.inits))
			}
			if seen[t.name] {
				return fmt.Errorf("onnx: initializer %q occurs twice", t.name)
			}
			seen[t.name] = true
			s.inits = append(s.inits, t)
			if t.decodable() {
				s.slim = message(s.slim, 5, t.slim)
			}
		case 11:
			v, err := value(f.body, fmt.Sprintf("graph.input[%d]", len(s.inputs)))
			if err != nil {
				return err
			}
			s.inputs = append(s.inputs, v)
			s.slim = message(s.slim, 11, message(nil, 1, []byte(v.name)))
		case 12:
			v, err := value(f.body, fmt.Sprintf("graph.output[%d]", len(s.outputs)))
			if err != nil {
				return err
			}
			s.outputs = append(s.outputs, v)
			s.slim = message(s.slim, 12, message(nil, 1, []byte(v.name)))
		case 15:
			return graph.Refuse("the model holds a sparse initializer; export it dense")
		}
		return nil
	})
}

func (s *scan) node(b []byte) error {
	path := fmt.Sprintf("graph.node[%d]", len(s.nodes))
	n := nodeInfo{tensors: map[string]tensorInfo{}}
	var slim []byte
	seen := map[string]bool{}
	err := each(b, path, func(f field) error {
		var text string
		switch f.num {
		case 1, 2:
			if err := f.text(&text, path); err != nil {
				return err
			}
			other := len(n.in)
			if f.num == 1 {
				other = len(n.out)
			}
			if err := s.charge(max(1, int64(other))); err != nil {
				return err
			}
			if f.num == 1 {
				n.in = append(n.in, text)
			} else {
				n.out = append(n.out, text)
			}
			slim = append(slim, f.raw...)
		case 3:
			return f.text(&n.name, path+".name")
		case 4:
			slim = append(slim, f.raw...)
			return f.text(&n.op, path+".op_type")
		case 7:
			return f.text(&n.domain, path+".domain")
		case 5:
			if err := f.want(protowire.BytesType, path); err != nil {
				return err
			}
			if err := s.charge(1); err != nil {
				return err
			}
			a, err := s.attribute(f.body, path, &n)
			if err != nil {
				return err
			}
			if seen[a.name] {
				return fmt.Errorf("onnx: %s: attribute %q occurs twice", path, a.name)
			}
			seen[a.name] = true
			if a.slim != nil {
				slim = message(slim, 5, a.slim)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n.name == "" {
		n.name = fmt.Sprintf("#%d", len(s.nodes))
	}
	if n.domain == "ai.onnx" {
		n.domain = ""
	}
	if n.op == "" {
		return fmt.Errorf("onnx: %s (%s) has no operator", path, n.name)
	}
	if len(n.out) == 0 {
		return fmt.Errorf("onnx: %s (%s) has no output", path, n.name)
	}
	s.nodes = append(s.nodes, n)
	s.slim = message(s.slim, 1, slim)
	return nil
}

// Attribute types of AttributeProto that onnx-go reads; each has its value in the field given.
var attributeFields = map[int64]protowire.Number{1: 2, 2: 3, 3: 4, 4: 5, 6: 7, 7: 8, 8: 9}

var attributeKinds = map[int64]string{
	0: "no type", 5: "a subgraph", 9: "a list of tensors", 10: "a list of subgraphs", 11: "a sparse tensor",
	12: "a list of sparse tensors", 13: "a type", 14: "a list of types",
}

type attributeInfo struct {
	name string
	slim []byte // nil where onnx-go cannot read it
}

func (s *scan) attribute(b []byte, path string, n *nodeInfo) (attributeInfo, error) {
	var a attributeInfo
	var typ int64
	var ref string
	err := each(b, path+".attribute", func(f field) error {
		switch f.num {
		case 1:
			return f.text(&a.name, path+".attribute.name")
		case 20:
			return f.int(&typ, path+".attribute.type")
		case 21:
			return f.text(&ref, path+".attribute.ref_attr_name")
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	want, ok := attributeFields[typ]
	if !ok || ref != "" {
		what := attributeKinds[typ]
		if what == "" || ref != "" {
			what = "a kind that is not supported"
		}
		n.defect = fmt.Sprintf("attribute %q is %s", a.name, what)
		return a, nil
	}
	path += fmt.Sprintf(".attribute %q", a.name)
	slim := message(nil, 1, []byte(a.name))
	slim = protowire.AppendVarint(protowire.AppendTag(slim, 20, protowire.VarintType), uint64(typ))
	found := 0
	err = each(b, path, func(f field) error {
		if f.num != want {
			return nil
		}
		found++
		if typ != 4 {
			slim = append(slim, f.raw...)
			return s.list(f, path)
		}
		if err := f.want(protowire.BytesType, path); err != nil {
			return err
		}
		if found > 1 {
			return fmt.Errorf("onnx: %s: the tensor occurs twice", path)
		}
		t, err := s.tensor(f.body, path)
		if err != nil {
			return err
		}
		n.tensors[a.name] = t
		if t.defect != "" {
			n.defect = fmt.Sprintf("attribute %q %s", a.name, t.defect)
		}
		slim = message(slim, 5, t.slim)
		if !t.decodable() {
			slim = nil
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	if typ == 4 && found == 0 {
		return a, fmt.Errorf("onnx: %s holds no tensor", path)
	}
	a.slim = slim
	return a, nil
}
