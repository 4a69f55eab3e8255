package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ghostgym/ghostgym/env"
)

// backend is what the library offers, as a table: the functions behind gg_call by name, and the makers of the two
// kinds of objects.
type backend struct {
	schema func() string // the hash of the feature schema
	calls  map[string]call
	vector func(req []byte) (vector, error)
	model  func(file []byte) (model, error)
}

// call is one function of the control plane, msgpack in and out.
type call = func(ctx context.Context, req []byte) ([]byte, error)

// vector is a set of environments that step together over buffers of the caller.
type vector interface {
	// Layout names the buffers that Bind must be given, in order.
	Layout() []field
	// Bind keeps one buffer per field until Close; lengths and alignment have been checked.
	Bind(buffers [][]byte) error
	Reset(req []byte) ([]byte, error)
	Step() error
	// Resume goes on with a Reset or Step that returned env.ErrUnderWay.
	Resume() error
	Info() ([]byte, error)
	Close() error
}

// field describes one buffer.
type field = env.Field

// model scores rows of In numbers into Out numbers each.
type model interface {
	In() int
	Out() int
	Info() ([]byte, error)
	Score(rows []float32, n int, out []float32) error
	Close() error
}

// Codes of errors, as python/ghostgym/_native.py reads them; -100 is the shim's.
const (
	codeInternal  = -1 // a defect of ours: everything that has no class below
	codeClosed    = -2
	codeConfig    = -3
	codeShape     = -4
	codeAction    = -5
	codeModel     = -6
	codeSchedule  = -7
	codeBusy      = -8
	codeCancelled = -9
	codeUnderWay  = 1 // no error: gg_resume goes on
)

var (
	errClosed = errors.New("closed")
	errConfig = errors.New("configuration")
	errShape  = errors.New("shape")
	errBusy   = errors.New("busy")
)

// classes says which code an error gets: that of the first line that it is.
var classes = []struct {
	class error
	code  int
}{
	{errClosed, codeClosed},
	{errConfig, codeConfig},
	{errShape, codeShape},
	{errBusy, codeBusy},
	{context.Canceled, codeCancelled},
	{env.ErrUnderWay, codeUnderWay},
}

func codeOf(err error) int {
	if err == nil {
		return 0
	}
	for _, c := range classes {
		if errors.Is(err, c.class) {
			return c.code
		}
	}
	if code := productCode(err); code != 0 {
		return code
	}
	return codeInternal
}

// classed is an error that belongs to a class without repeating the class's name in its message.
type classed struct {
	class error
	text  string
}

func (e *classed) Error() string { return e.text }
func (e *classed) Unwrap() error { return e.class }

func fail(class error, format string, args ...any) error {
	return &classed{class, fmt.Sprintf(format, args...)}
}

// do runs one function of the table; gg_cancel of the same token ends its context.
func (b *backend) do(method string, req []byte, token uint64) (body []byte, err error) {
	defer recovered(&err)
	f, ok := b.calls[method]
	if !ok {
		names := make([]string, 0, len(b.calls))
		for name := range b.calls {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fail(errConfig, "no method %q in the library; it has %q", method, names)
	}
	ctx, done := running.begin(token)
	defer done()
	return f(ctx, req)
}

func (b *backend) openVector(req []byte) (h int64, body []byte, err error) {
	defer recovered(&err)
	v, err := b.vector(req)
	if err != nil {
		return 0, nil, err
	}
	if body, err = encode(v.Layout()); err != nil {
		return 0, nil, errors.Join(err, v.Close())
	}
	return objects.add(v), body, nil
}

func (b *backend) openModel(file []byte) (h int64, body []byte, err error) {
	defer recovered(&err)
	m, err := b.model(file)
	if err != nil {
		return 0, nil, err
	}
	if body, err = m.Info(); err != nil {
		return 0, nil, errors.Join(err, m.Close())
	}
	return objects.add(m), body, nil
}
