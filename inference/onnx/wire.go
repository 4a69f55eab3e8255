package onnx

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a protobuf message.
type field struct {
	num  protowire.Number
	typ  protowire.Type
	v    uint64 // of a varint or fixed field
	body []byte // of a length-delimited field
	raw  []byte // tag and value, as in the file
}

// each calls f for every field of message b. path names the message in errors.
func each(b []byte, path string, f func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("onnx: %s: %w", path, protowire.ParseError(n))
		}
		x := field{num: num, typ: typ}
		m := 0
		switch typ {
		case protowire.VarintType:
			x.v, m = protowire.ConsumeVarint(b[n:])
		case protowire.Fixed32Type:
			var v uint32
			v, m = protowire.ConsumeFixed32(b[n:])
			x.v = uint64(v)
		case protowire.Fixed64Type:
			x.v, m = protowire.ConsumeFixed64(b[n:])
		case protowire.BytesType:
			x.body, m = protowire.ConsumeBytes(b[n:])
		default: // groups do not occur in ONNX, and nest without limit
			return fmt.Errorf("onnx: %s: field %d has wire type %d, which ONNX does not use", path, num, typ)
		}
		if m < 0 {
			return fmt.Errorf("onnx: %s: field %d: %w", path, num, protowire.ParseError(m))
		}
		x.raw = b[:n+m]
		b = b[n+m:]
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

func (f field) want(typ protowire.Type, path string) error {
	if f.typ != typ {
		return fmt.Errorf("onnx: %s: field %d has wire type %d, expected %d", path, f.num, f.typ, typ)
	}
	return nil
}

func (f field) text(dst *string, path string) error {
	if err := f.want(protowire.BytesType, path); err != nil {
		return err
	}
	if !utf8.Valid(f.body) {
		return fmt.Errorf("onnx: %s: field %d is not valid UTF-8", path, f.num)
	}
	*dst = string(f.body)
	return nil
}

func (f field) int(dst *int64, path string) error {
	if err := f.want(protowire.VarintType, path); err != nil {
		return err
	}
	*dst = int64(f.v)
	return nil
}

// ints appends a repeated integer field, packed or not.
func (f field) ints(dst *[]int64, path string) error {
	if f.typ == protowire.VarintType {
		*dst = append(*dst, int64(f.v))
		return nil
	}
	if err := f.want(protowire.BytesType, path); err != nil {
		return err
	}
	for b := f.body; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return fmt.Errorf("onnx: %s: field %d: %w", path, f.num, protowire.ParseError(n))
		}
		*dst = append(*dst, int64(v))
		b = b[n:]
	}
	return nil
}

// count is the number of elements in a repeated scalar field, packed or not; size is an element's in bytes, 0 for
// varints.
func (f field) count(size int, path string) (int64, error) {
	if f.typ != protowire.BytesType {
		return 1, nil
	}
	if size > 0 {
		if len(f.body)%size != 0 {
			return 0, fmt.Errorf("onnx: %s: field %d holds %d bytes, not a multiple of %d", path, f.num, len(f.body), size)
		}
		return int64(len(f.body) / size), nil
	}
	var n int64
	for _, c := range f.body {
		if c < 0x80 {
			n++
		}
	}
	return n, nil
}

// message appends a length-delimited field.
func message(dst []byte, num protowire.Number, body []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(num)<<3|uint64(protowire.BytesType))
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	return append(dst, body...)
}
