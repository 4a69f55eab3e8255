package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/env"
)

// The library's state: handles, replies that wait to be fetched, calls that run.
var (
	objects = table{live: map[int64]*object{}}
	kept    = replies{waiting: map[uint64][]byte{}}
	running = runs{live: map[uint64]*run{}}
)

// object is what a handle stands for.
type object struct {
	mu     sync.Mutex // held by the call that uses the object
	value  io.Closer
	closed bool
	broken bool // a panic left it half-way
	bound  bool // the buffers of a vector are known
}

type table struct {
	mu   sync.RWMutex
	last int64
	live map[int64]*object
}

func (t *table) add(value io.Closer) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++ // never used again: a stale handle is refused, not another object
	t.live[t.last] = &object{value: value}
	return t.last
}

// use takes an object for one call; the caller must release it.
func (t *table) use(h int64) (*object, error) {
	t.mu.RLock()
	o := t.live[h]
	t.mu.RUnlock()
	if o == nil {
		return nil, fail(errClosed, "handle %d is closed", h)
	}
	if !o.mu.TryLock() {
		return nil, fail(errBusy, "handle %d is in use by another thread", h)
	}
	switch {
	case o.closed:
		o.mu.Unlock()
		return nil, fail(errClosed, "handle %d is closed", h)
	case o.broken:
		o.mu.Unlock()
		return nil, fmt.Errorf("handle %d was left half-way by an internal error: close it", h)
	}
	return o, nil
}

// release ends a use; a panic becomes the call's error and marks the object.
func (o *object) release(err *error) {
	if p := recover(); p != nil {
		o.broken = true
		*err = env.PanicError(p)
	}
	o.mu.Unlock()
}

// close waits for the call that uses the object; a second close does nothing.
func (t *table) close(h int64) (err error) {
	t.mu.Lock()
	o := t.live[h]
	delete(t.live, h)
	t.mu.Unlock()
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.release(&err)
	o.closed = true
	return o.value.Close()
}

// recovered turns a panic into the call's error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = env.PanicError(p)
	}
}

// acquire finds a handle's object as a T, which names what the handle should have been.
func acquire[T any](h int64) (o *object, value T, err error) {
	if o, err = objects.use(h); err != nil {
		return nil, value, err
	}
	value, ok := o.value.(T)
	if !ok {
		o.mu.Unlock()
		return nil, value, fail(errConfig, "handle %d is a %T", h, o.value)
	}
	return o, value, nil
}

func bind(h int64, buffers [][]byte) (err error) {
	o, v, err := acquire[vector](h)
	if err != nil {
		return err
	}
	defer o.release(&err)
	if err := checkBuffers(v.Layout(), buffers); err != nil {
		return err
	}
	err = v.Bind(buffers)
	o.bound = err == nil
	return err
}

func reset(h int64, req []byte) (body []byte, err error) {
	o, v, err := acquire[vector](h)
	if err != nil {
		return nil, err
	}
	defer o.release(&err)
	if !o.bound {
		return nil, fail(errShape, "reset before bind: the vector has no buffers")
	}
	return v.Reset(req)
}

func step(h int64) (err error) {
	o, v, err := acquire[vector](h)
	if err != nil {
		return err
	}
	defer o.release(&err)
	if !o.bound {
		return fail(errShape, "step before bind: the vector has no buffers")
	}
	return v.Step()
}

func resume(h int64) (err error) {
	o, v, err := acquire[vector](h)
	if err != nil {
		return err
	}
	defer o.release(&err)
	return v.Resume()
}

func info(h int64) (body []byte, err error) {
	o, v, err := acquire[interface{ Info() ([]byte, error) }](h)
	if err != nil {
		return nil, err
	}
	defer o.release(&err)
	return v.Info()
}

func score(h int64, rows []float32, n int, out []float32) (err error) {
	o, m, err := acquire[model](h)
	if err != nil {
		return err
	}
	defer o.release(&err)
	if len(rows) != n*m.In() || len(out) != n*m.Out() {
		return fail(errShape, "%d rows take %d numbers in and %d out, not %d and %d",
			n, n*m.In(), n*m.Out(), len(rows), len(out))
	}
	return m.Score(rows, n, out)
}

// sizes are the bytes of an element by NumPy's name for it.
var sizes = map[string]int{"bool": 1, "int8": 1, "uint8": 1, "int32": 4, "int64": 8, "float32": 4, "float64": 8}

// checkBuffers compares what the caller bound with what the layout says: count, length, alignment.
func checkBuffers(layout []field, buffers [][]byte) error {
	if len(buffers) != len(layout) {
		return fail(errShape, "bind takes %d buffers, got %d", len(layout), len(buffers))
	}
	for i, f := range layout {
		size, known := sizes[f.Type]
		if !known {
			return fmt.Errorf("buffer %s: no element type %q", f.Name, f.Type)
		}
		want := size
		for _, n := range f.Shape {
			want *= n
		}
		if len(buffers[i]) != want {
			return fail(errShape, "buffer %s takes %d bytes (%s%v), got %d", f.Name, want, f.Type, f.Shape, len(buffers[i]))
		}
		if want > 0 && uintptr(unsafe.Pointer(&buffers[i][0]))%uintptr(size) != 0 {
			return fail(errShape, "buffer %s is not aligned to %d bytes", f.Name, size)
		}
	}
	return nil
}

// replies holds what did not fit into a caller's buffer until it is fetched.
type replies struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64][]byte
}

func (r *replies) put(body []byte) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.waiting[r.last] = body
	return r.last
}

// take hands a reply out, once; a buffer that is too small again leaves it where it is.
func (r *replies) take(ticket uint64, size int) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, ok := r.waiting[ticket]
	if !ok {
		return nil, fail(errClosed, "no reply waits under ticket %d", ticket)
	}
	if len(body) > size {
		return nil, fail(errShape, "the reply under ticket %d takes %d bytes, the buffer has %d", ticket, len(body), size)
	}
	delete(r.waiting, ticket)
	return body, nil
}

// run is a call that can be cancelled and says how far it is.
type run struct {
	cancel      context.CancelFunc
	done, total atomic.Int64
}

// runs are the calls that run, by the caller's token; one with token 0 cannot be found again.
type runs struct {
	mu   sync.Mutex
	live map[uint64]*run
}

func (r *runs) begin(token uint64) (context.Context, func()) {
	if token == 0 {
		return context.Background(), func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	this := &run{cancel: cancel}
	r.mu.Lock()
	r.live[token] = this
	r.mu.Unlock()
	ctx = env.WithProgress(ctx, func(done, total int) {
		this.total.Store(int64(total))
		this.done.Store(int64(done))
	})
	return ctx, func() {
		r.mu.Lock()
		delete(r.live, token)
		r.mu.Unlock()
		cancel()
	}
}

// find returns nil where nothing runs under the token, before it began or after it ended.
func (r *runs) find(token uint64) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[token]
}

// cancel ends the context of a call.
func (r *runs) cancel(token uint64) {
	if this := r.find(token); this != nil {
		this.cancel()
	}
}

func encode(v any) ([]byte, error) { return msgpack.Marshal(v) }
