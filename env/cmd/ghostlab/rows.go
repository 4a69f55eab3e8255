package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/ghostgym/ghostgym/agent/trace"
)

// rows are what a model is to score.
type rows struct {
	data     []float32
	n, width int
	schema   string      // hash, of a trace
	scores   [][]float32 // that a trace has of each row; nil where the rows come from elsewhere
}

// maxBytes bounds what a file may hold.
const maxBytes = 256 << 20

const npyMagic = "\x93NUMPY"

// readRows reads a NumPy file or a trace.
func readRows(path string) (*rows, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxBytes {
		return nil, fmt.Errorf("%s: it has more than %d bytes", path, maxBytes)
	}
	if bytes.HasPrefix(b, []byte(npyMagic)) {
		return readNPY(path, b)
	}
	r, err := readTrace(path, b)
	if err != nil {
		return nil, fmt.Errorf("%w (and it is no NumPy file)", err)
	}
	return r, nil
}

// readTrace gathers the rows of all decisions.
func readTrace(path string, b []byte) (*rows, error) {
	in, err := trace.NewReader(bytes.NewReader(b), path)
	if err != nil {
		return nil, err
	}
	r := &rows{schema: in.Header().Schema, scores: [][]float32{}}
	for {
		t, err := in.Next()
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		n := len(t.Decisions)
		if n == 0 || len(t.Rows) == 0 {
			continue
		}
		width, k := len(t.Rows)/n, len(t.Scores)/n
		if r.n > 0 && width != r.width {
			return nil, fmt.Errorf("rows of %d and of %d numbers", r.width, width)
		}
		r.width = width
		r.n += n
		r.data = append(r.data, t.Rows...)
		for i := range n {
			r.scores = append(r.scores, slices.Clone(t.Scores[i*k:(i+1)*k]))
		}
	}
}

var npyHeader = regexp.MustCompile(`'descr': '<f4', 'fortran_order': False, 'shape': \((\d+), (\d+)\)`)

// readNPY reads a two-dimensional little-endian float32 array in NumPy's file format, version 1 to 3.
func readNPY(path string, b []byte) (*rows, error) {
	fail := func(why string) (*rows, error) {
		return nil, fmt.Errorf("%s: %s; numpy.save(path, rows.astype('float32')) writes what is wanted", path, why)
	}
	if len(b) < 12 {
		return fail("its header is cut off")
	}
	start, size := 10, int(binary.LittleEndian.Uint16(b[8:]))
	if b[6] >= 2 {
		start, size = 12, int(binary.LittleEndian.Uint32(b[8:]))
	}
	if size > len(b)-start {
		return fail("its header is cut off")
	}
	m := npyHeader.FindSubmatch(b[start : start+size])
	if m == nil {
		return fail("it is no C-ordered two-dimensional float32 array")
	}
	n, err1 := strconv.Atoi(string(m[1]))
	width, err2 := strconv.Atoi(string(m[2]))
	body := b[start+size:]
	if err1 != nil || err2 != nil || n > maxBytes || width > maxBytes || n*width*4 != len(body) {
		return fail("its size is not what its header says")
	}
	r := &rows{data: make([]float32, n*width), n: n, width: width}
	for i := range r.data {
		r.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return r, nil
}
