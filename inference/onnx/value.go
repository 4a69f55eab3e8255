package onnx

import (
	"fmt"

	"github.com/ghostgym/ghostgym/inference/graph"
	"google.golang.org/protobuf/encoding/protowire"
)

type valueInfo struct {
	name    string
	typ     int64
	kind    protowire.Number // 1 is a tensor; others are sequences, maps, …
	dims    []int
	symbols []string
	shaped  bool
}

// value reads a ValueInfoProto.
func value(b []byte, path string) (valueInfo, error) {
	var v valueInfo
	types := 0
	err := each(b, path, func(f field) error {
		switch f.num {
		case 1:
			return f.text(&v.name, path+".name")
		case 2:
			if types++; types > 1 {
				return fmt.Errorf("onnx: %s: the type occurs twice", path)
			}
			if err := f.want(protowire.BytesType, path+".type"); err != nil {
				return err
			}
			return v.typeOf(f.body, path)
		}
		return nil
	})
	if err == nil && v.name == "" {
		err = fmt.Errorf("onnx: %s has no name", path)
	}
	return v, err
}

func (v *valueInfo) typeOf(b []byte, path string) error {
	return each(b, path+".type", func(f field) error {
		if f.num == 6 { // denotation
			return nil
		}
		v.kind = f.num
		if f.num != 1 {
			return nil
		}
		if err := f.want(protowire.BytesType, path+".tensor_type"); err != nil {
			return err
		}
		return each(f.body, path+".tensor_type", func(f field) error {
			switch f.num {
			case 1:
				return f.int(&v.typ, path+".elem_type")
			case 2:
				if err := f.want(protowire.BytesType, path+".shape"); err != nil {
					return err
				}
				v.shaped = true
				return each(f.body, path+".shape", func(f field) error { return v.dim(f, path) })
			}
			return nil
		})
	})
}

func (v *valueInfo) dim(f field, path string) error {
	if f.num != 1 {
		return nil
	}
	if err := f.want(protowire.BytesType, path+".shape.dim"); err != nil {
		return err
	}
	size, symbol := int64(graph.Batch), ""
	err := each(f.body, path+".shape.dim", func(f field) error {
		switch f.num {
		case 1:
			err := f.int(&size, path+".dim_value")
			if err == nil && (size < 0 || size > 1<<40) {
				err = fmt.Errorf("onnx: %s (%q): dimension %d has size %d", path, v.name, len(v.dims), size)
			}
			return err
		case 2:
			return f.text(&symbol, path+".dim_param")
		}
		return nil
	})
	if size != graph.Batch {
		symbol = ""
	}
	v.dims, v.symbols = append(v.dims, int(size)), append(v.symbols, symbol)
	return err
}
