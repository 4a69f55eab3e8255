package env

import (
	"encoding/binary"
	"errors"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// maxDepth bounds how deep lists and maps lie within each other; no request of ours goes beyond 4.
const maxDepth = 32

var (
	errCutShort  = errors.New("it ends before what it announces")
	errTooDeep   = errors.New("lists and maps lie too deep within each other")
	errExtension = errors.New("it holds an extension type, and no request does")
	errNoCode    = errors.New("it holds a byte that begins no value")
	errMore      = errors.New("more follows after its end")
)

// wellFormed looks whether a request is one whole msgpack value of the types that requests are made of. The decoder makes room
// for what a list or map announces before it looks whether that follows (msgpack v5.4.1, decodeSliceValue), and reads on inside
// extensions: five bytes could ask it for gigabytes.
func wellFormed(req []byte) error {
	rest, err := skip(req, maxDepth)
	if err == nil && len(rest) > 0 {
		err = errMore
	}
	return err
}

// skip returns what follows the first value.
func skip(b []byte, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, errTooDeep
	}
	if len(b) == 0 {
		return nil, errCutShort
	}
	code := b[0]
	head, size, values := shape(code) // bytes that tell a length, bytes or values that follow by the code alone
	if head < 0 {
		if msgpcode.IsExt(code) {
			return nil, errExtension
		}
		return nil, errNoCode
	}
	if b = b[1:]; len(b) < head {
		return nil, errCutShort
	}
	var n uint64
	switch head {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b))
	}
	if b = b[head:]; values == 0 {
		if n += uint64(size); n > uint64(len(b)) {
			return nil, errCutShort
		}
		return b[n:], nil
	}
	n = (n + uint64(size)) * uint64(values)
	if n > uint64(len(b)) { // each is a byte at least
		return nil, errCutShort
	}
	var err error
	for ; n > 0 && err == nil; n-- {
		b, err = skip(b, depth-1)
	}
	return b, err
}

// shape tells of a code how many bytes after it hold a length, how long it is besides, and how many values an element of it is: 0 for
// what is counted in bytes, 1 for lists, 2 for maps. The head is negative where nothing of ours begins so.
func shape(code byte) (head, size, values int) {
	switch {
	case msgpcode.IsFixedNum(code), code == msgpcode.Nil, code == msgpcode.False, code == msgpcode.True:
		return 0, 0, 0
	case msgpcode.IsFixedString(code):
		return 0, int(code & msgpcode.FixedStrMask), 0
	case msgpcode.IsFixedArray(code):
		return 0, int(code & msgpcode.FixedArrayMask), 1
	case msgpcode.IsFixedMap(code):
		return 0, int(code & msgpcode.FixedMapMask), 2
	}
	switch code {
	case msgpcode.Uint8, msgpcode.Int8:
		return 0, 1, 0
	case msgpcode.Uint16, msgpcode.Int16:
		return 0, 2, 0
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 0, 4, 0
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 0, 8, 0
	case msgpcode.Str8, msgpcode.Bin8:
		return 1, 0, 0
	case msgpcode.Str16, msgpcode.Bin16:
		return 2, 0, 0
	case msgpcode.Str32, msgpcode.Bin32:
		return 4, 0, 0
	case msgpcode.Array16:
		return 2, 0, 1
	case msgpcode.Array32:
		return 4, 0, 1
	case msgpcode.Map16:
		return 2, 0, 2
	case msgpcode.Map32:
		return 4, 0, 2
	}
	return -1, 0, 0
}
