package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/vmihailenco/msgpack/v5"
)

// The self-test exercises the bridge without the simulator: what the tests of forking, cancelling and errors call,
// and what the bench of the bridge itself steps.

// selftestCalls are the functions "selftest.*" of gg_call.
var selftestCalls = map[string]func(ctx context.Context, req []byte) ([]byte, error){
	"selftest.echo":  func(_ context.Context, req []byte) ([]byte, error) { return req, nil },
	"selftest.work":  selftestWork,
	"selftest.wait":  selftestWait,
	"selftest.panic": func(context.Context, []byte) ([]byte, error) { panic("on request") },
}

// selftestWork fills the heap and collects it on several goroutines, which hangs in a broken runtime; it answers how
// many bytes it saw.
func selftestWork(_ context.Context, req []byte) ([]byte, error) {
	var rounds int
	if err := msgpack.Unmarshal(req, &rounds); err != nil {
		return nil, fail(errConfig, "selftest.work takes a number of rounds: %v", err)
	}
	sums := make(chan int)
	for range 4 {
		go func() {
			seen := 0
			for i := range rounds {
				block := make([]byte, 1<<12+i)
				seen += len(block)
			}
			sums <- seen
		}()
	}
	total := 0
	for range 4 {
		total += <-sums
	}
	runtime.GC()
	return encode(total)
}

// selftestWait waits to be cancelled.
func selftestWait(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// counters is the smallest vector: observation += action, reward = action.
type counters struct {
	n                           int
	observation, action, reward []byte
}

func newCounters(n int) (*counters, error) {
	if n < 1 || n > 1<<20 {
		return nil, fail(errConfig, "selftest: %d counters, want 1 to %d", n, 1<<20)
	}
	return &counters{n: n}, nil
}

func (c *counters) Layout() []field {
	return []field{
		{Name: "observation", Type: "int64", Shape: []int{c.n}},
		{Name: "action", Type: "int64", Shape: []int{c.n}},
		{Name: "reward", Type: "int64", Shape: []int{c.n}},
	}
}

func (c *counters) Bind(buffers [][]byte) error {
	c.observation, c.action, c.reward = buffers[0], buffers[1], buffers[2]
	return nil
}

func (c *counters) Reset([]byte) ([]byte, error) {
	clear(c.observation)
	return encode(nil)
}

func (c *counters) Step() error {
	for i := 0; i < len(c.action); i += 8 {
		a := binary.NativeEndian.Uint64(c.action[i:])
		binary.NativeEndian.PutUint64(c.observation[i:], binary.NativeEndian.Uint64(c.observation[i:])+a)
		binary.NativeEndian.PutUint64(c.reward[i:], a)
	}
	return nil
}

func (c *counters) Resume() error { return fail(errConfig, "a counter's step is never under way") }

func (c *counters) Info() ([]byte, error) { return encode(fmt.Sprint(c.n, " counters")) }

func (c *counters) Close() error {
	c.observation, c.action, c.reward = nil, nil, nil
	return nil
}
