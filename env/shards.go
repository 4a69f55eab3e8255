package env

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
)

// shard is the environments that one worker steps.
type shard struct {
	from, to int
	next     int // from where it goes on
	beats    int
	limit    int // of beats in one call
	err      error
	panicked error
}

// maxBeats is after how many beats, of 1024 turns each, a call returns ErrUnderWay: about a tenth of a second.
const maxBeats = 256

// beat is the pulse of a shard's machines.
func (sh *shard) beat() error {
	if sh.beats++; sh.beats > sh.limit {
		return ErrUnderWay
	}
	return nil
}

func (sh *shard) run(f func(i int) error) {
	for ; sh.next < sh.to; sh.next++ {
		if err := f(sh.next); err != nil {
			sh.err = fmt.Errorf("environment %d: %w", sh.next, err)
			return
		}
	}
}

// each calls f for every environment: shard by shard, the first of them here.
func (v *Vector) each(f func(i int) error) error {
	for i := range v.shards {
		v.shards[i].next = v.shards[i].from
	}
	v.going = f
	return v.goOn()
}

// goOn calls what is under way for the environments that are left.
func (v *Vector) goOn() error {
	f := v.going
	v.going = nil
	for i := range v.shards {
		v.shards[i].beats = 0
	}
	v.join.Add(len(v.wake))
	for _, ch := range v.wake {
		ch <- f
	}
	v.first(f)
	var err, panicked, longer error
	for i := range v.shards {
		sh := &v.shards[i]
		if sh.err != nil && errors.Is(sh.err, ErrUnderWay) {
			longer, sh.err = sh.err, nil
		}
		err, panicked = cmp.Or(err, sh.err), cmp.Or(panicked, sh.panicked)
		sh.err, sh.panicked = nil, nil
	}
	if panicked != nil {
		panic(panicked) // as if it had happened here
	}
	if err == nil && longer != nil {
		v.going = f
		return longer
	}
	if err == nil {
		v.collect()
	}
	return err
}

// first runs f over the first shard and waits for the others, also if f panics: who meets the panic may give up the buffers.
func (v *Vector) first(f func(i int) error) {
	defer v.join.Wait()
	v.shards[0].run(f)
}

func (v *Vector) work(ch chan func(i int) error, sh *shard) {
	for f := range ch {
		v.guarded(f, sh)
	}
}

// guarded keeps a panic of a worker, which nobody could recover there, for the caller of goOn.
func (v *Vector) guarded(f func(i int) error, sh *shard) {
	defer v.join.Done()
	defer func() {
		if p := recover(); p != nil {
			sh.panicked = fmt.Errorf("%v, in a worker:\n%s", p, debug.Stack())
		}
	}()
	sh.run(f)
}
