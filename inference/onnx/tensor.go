package onnx

import (
	"fmt"

	"github.com/ghostgym/ghostgym/inference/graph"
	"google.golang.org/protobuf/encoding/protowire"
)

type tensorInfo struct {
	name   string
	typ    int64
	dims   []int
	count  int64
	defect string // why the tensor cannot be decoded; "" when it can
	slim   []byte
}

// list counts the elements of a list attribute against the limit.
func (s *scan) list(f field, path string) error {
	n := int64(1)
	var err error
	switch f.num {
	case 7:
		n, err = f.count(4, path)
	case 8:
		n, err = f.count(0, path)
	}
	if s.elements += n; err == nil && s.elements > s.limits.MaxElements {
		err = graph.Refuse("%s brings the lists and constants above the limit of %d elements", path, s.limits.MaxElements)
	}
	return err
}

// decodable says whether onnx-go can read the tensor: it cannot read one without elements.
func (t *tensorInfo) decodable() bool { return t.defect == "" && t.count > 0 }

// tensor checks a TensorProto: known dimensions, exactly one data field, and as much data as dimensions ask for.
func (s *scan) tensor(b []byte, path string) (tensorInfo, error) {
	var t tensorInfo
	var dims []int64
	var location, raw, stored int64
	var external int
	var fields []protowire.Number
	err := each(b, path, func(f field) error {
		keep := true
		var err error
		switch f.num {
		case 1:
			err = f.ints(&dims, path+".dims")
		case 2:
			err = f.int(&t.typ, path+".data_type")
		case 8:
			err = f.text(&t.name, path+".name")
		case 4, 5, 6, 7, 9, 10, 11:
			if len(fields) == 0 || fields[len(fields)-1] != f.num {
				fields = append(fields, f.num)
			} else if f.num == 9 {
				err = fmt.Errorf("onnx: %s: raw_data occurs twice", path)
			}
			var n int64
			switch {
			case err != nil:
			case f.num == 9:
				err = f.want(protowire.BytesType, path+".raw_data")
				raw = int64(len(f.body))
			case f.num == 4:
				n, err = f.count(4, path+".float_data")
			case f.num == 7:
				n, err = f.count(0, path+".int64_data")
			}
			stored += n
		case 3:
			t.defect, keep = "is stored in segments", false
		case 13:
			external, keep = external+1, false
		case 14:
			keep, err = false, f.int(&location, path+".data_location")
		default:
			keep = false
		}
		if keep {
			t.slim = append(t.slim, f.raw...)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	label := path
	if t.name != "" {
		label = fmt.Sprintf("%s (%q)", path, t.name)
	}
	if external > 0 || location != 0 {
		return t, graph.Refuse("%s keeps its data in another file; export with external_data=False", label)
	}
	if len(dims) > graph.MaxRank {
		return t, graph.Refuse("%s has %d dimensions; at most %d are supported", label, len(dims), graph.MaxRank)
	}
	for _, d := range dims {
		if d < 0 {
			return t, fmt.Errorf("onnx: %s: dimensions %v are negative", label, dims)
		}
		if d > s.limits.MaxElements {
			return t, graph.Refuse("%s: dimensions %v are above the limit of %d elements", label, dims, s.limits.MaxElements)
		}
		t.dims = append(t.dims, int(d))
	}
	size, ok := graph.Size(t.dims, s.limits.MaxElements)
	if s.elements += size; !ok || s.elements > s.limits.MaxElements {
		return t, graph.Refuse("%s: dimensions %v bring the constants above the limit of %d elements", label, dims, s.limits.MaxElements)
	}
	t.count = size
	if len(fields) > 1 {
		return t, fmt.Errorf("onnx: %s has data in more than one field (%v)", label, fields)
	}
	width := map[graph.Type]int64{graph.Float32: 4, graph.Int64: 8}[graph.Type(t.typ)]
	if t.typ <= 0 || t.typ > 64 {
		return t, fmt.Errorf("onnx: %s has element type %d, which is none of ONNX's", label, t.typ)
	}
	if width == 0 {
		t.defect = fmt.Sprintf("has element type %s; only float32 and int64 are supported", graph.Type(t.typ))
		return t, nil
	}
	have := stored * width
	if len(fields) == 1 && fields[0] == 9 {
		have = raw
	} else if len(fields) == 1 && fields[0] != map[graph.Type]protowire.Number{graph.Float32: 4, graph.Int64: 7}[graph.Type(t.typ)] {
		return t, fmt.Errorf("onnx: %s: data field %d does not fit element type %s", label, fields[0], graph.Type(t.typ))
	}
	if have != size*width {
		return t, fmt.Errorf("onnx: %s: dimensions %v need %d bytes of data, the file has %d", label, dims, size*width, have)
	}
	return t, nil
}
