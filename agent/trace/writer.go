package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

const bufferSize = 1 << 16

// Writer is a Sink that writes a trace file. It keeps no more than a buffer, and does not allocate per turn.
type Writer struct {
	buf    *bufio.Writer
	enc    *msgpack.Encoder
	err    error // the first one; nothing is written after it
	hash   Hash
	turns  uint64
	bytes  []byte // of a tensor
	closed bool
}

var _ Sink = (*Writer)(nil)

// NewWriter begins a trace. Closing w is the caller's, after Close.
func NewWriter(w io.Writer, h *Header) (*Writer, error) {
	x := &Writer{buf: bufio.NewWriterSize(w, bufferSize)}
	x.enc = msgpack.NewEncoder(x.buf)
	if len(h.Machine.CPUs) > kernel.MaxCPUs || len(h.Machine.Channels) > kernel.MaxCPUs {
		return nil, fmt.Errorf("trace: %d CPUs and %d channels, at most %d are possible", len(h.Machine.CPUs), len(h.Machine.Channels), kernel.MaxCPUs)
	}
	for _, s := range []string{h.Schema, h.Scheduler, h.Workload, h.Profile} {
		if len(s) > MaxString {
			return nil, fmt.Errorf("trace: a string of %d bytes in the header, at most %d are possible", len(s), MaxString)
		}
	}
	x.header(h)
	return x, x.fail("header")
}

// fail reports the first error.
func (x *Writer) fail(where string) error {
	if x.err != nil {
		return fmt.Errorf("trace: writing %s: %w", where, x.err)
	}
	return nil
}

func (x *Writer) keep(err error) {
	if x.err == nil {
		x.err = err
	}
}

func (x *Writer) array(n int)     { x.keep(x.enc.EncodeArrayLen(n)) }
func (x *Writer) mapping(n int)   { x.keep(x.enc.EncodeMapLen(n)) }
func (x *Writer) str(s string)    { x.keep(x.enc.EncodeString(s)) }
func (x *Writer) int(v int64)     { x.keep(x.enc.EncodeInt(v)) }
func (x *Writer) uint(v uint64)   { x.keep(x.enc.EncodeUint(v)) }
func (x *Writer) bool(v bool)     { x.keep(x.enc.EncodeBool(v)) }
func (x *Writer) float(v float64) { x.keep(x.enc.EncodeFloat64(v)) }

func (x *Writer) tensor(t []float32) {
	x.bytes = x.bytes[:0]
	for _, v := range t {
		x.bytes = binary.LittleEndian.AppendUint32(x.bytes, math.Float32bits(v))
	}
	x.keep(x.enc.EncodeBytesLen(len(x.bytes)))
	_, err := x.buf.Write(x.bytes)
	x.keep(err)
}

func (x *Writer) header(h *Header) {
	x.mapping(9)
	x.str("format")
	x.str(Format)
	x.str("version")
	x.int(Version)
	x.str("schema")
	x.str(h.Schema)
	x.str("scheduler")
	x.str(h.Scheduler)
	x.str("workload")
	x.str(h.Workload)
	x.str("profile")
	x.str(h.Profile)
	x.str("seed")
	x.uint(h.Seed)
	x.str("episode")
	x.uint(h.Episode)
	x.str("machine")
	x.machine(&h.Machine)
}

func (x *Writer) machine(m *kernel.Topology) {
	x.mapping(4)
	x.str("model")
	x.uint(uint64(m.Model))
	x.str("tasks")
	x.int(int64(m.Tasks))
	x.str("cpus")
	x.array(len(m.CPUs))
	for _, c := range m.CPUs {
		x.array(cpuLen)
		x.int(int64(c.Core))
		x.int(int64(c.LLC))
		x.int(int64(c.Node))
		x.bool(c.Agent)
	}
	x.str("channels")
	x.array(len(m.Channels))
	for i := range m.Channels {
		n := 0
		for cpu := range int32(kernel.MaxCPUs) {
			if m.Channels[i].Has(cpu) {
				n++
			}
		}
		x.array(n)
		for cpu := range int32(kernel.MaxCPUs) {
			if m.Channels[i].Has(cpu) {
				x.int(int64(cpu))
			}
		}
	}
}

// Turn implements Sink.
func (x *Writer) Turn(t *Turn) error {
	if x.closed {
		return errors.New("trace: a turn after the end")
	}
	if err := t.check(); err != nil && x.err == nil {
		x.err = err
	}
	if x.err != nil {
		return fmt.Errorf("trace: writing turn %d: %w", x.turns, x.err)
	}
	x.array(turnLen)
	x.int(turnRecord)
	x.int(int64(t.Now))
	x.int(int64(t.Channel))
	x.array(len(t.Messages))
	for i := range t.Messages {
		x.message(&t.Messages[i])
	}
	x.array(len(t.Decisions))
	for i := range t.Decisions {
		x.decision(&t.Decisions[i])
	}
	x.tensor(t.Rows)
	x.tensor(t.Scores)
	x.array(len(t.Placements))
	for i := range t.Placements {
		x.array(placementLen)
		x.placement(&t.Placements[i])
	}
	x.array(len(t.Answers))
	for i := range t.Answers {
		a := &t.Answers[i]
		x.array(answerLen)
		x.uint(a.ID)
		x.uint(uint64(a.Task))
		x.uint(uint64(a.Seq))
		x.placement(&a.Placement)
	}
	x.array(len(t.Txns))
	for i := range t.Txns {
		x.txn(&t.Txns[i])
	}
	if x.err != nil {
		return fmt.Errorf("trace: writing turn %d: %w", x.turns, x.err)
	}
	x.hash.Turn(t)
	x.turns++
	return nil
}

func (x *Writer) message(m *kernel.Message) {
	x.array(messageLen)
	x.int(int64(m.Time))
	x.int(int64(m.Runtime))
	x.uint(uint64(m.Task))
	x.uint(uint64(m.Seq))
	x.int(int64(m.CPU))
	x.uint(uint64(m.Type))
	x.uint(uint64(m.Flags))
	x.int(int64(m.Nice))
}

func (x *Writer) decision(d *sched.Decision) {
	x.array(decisionLen)
	x.uint(d.ID)
	x.int(int64(d.Task))
	x.int(int64(d.Queue))
	x.uint(uint64(d.Seq))
	x.uint(uint64(d.Reason))
	x.bool(d.Running)
}

func (x *Writer) placement(p *sched.Placement) {
	x.float(p.Key)
	x.int(int64(p.Slice))
	x.int(int64(p.Slot))
	x.uint(uint64(p.Source))
}

func (x *Writer) txn(t *kernel.Txn) {
	x.array(txnLen)
	x.uint(uint64(t.Task))
	x.int(int64(t.Slice))
	x.int(int64(t.At))
	x.uint(uint64(t.Barrier))
	x.int(int64(t.CPU))
	x.uint(uint64(t.Flags))
	x.uint(uint64(t.State))
}

// Hash is the hash of the turns so far.
func (x *Writer) Hash() Hash { return x.hash }

// Close writes the end record and empties the buffer. Without it the file counts as cut off. A second call does nothing.
func (x *Writer) Close(f *sched.Fates) error {
	if x.closed {
		return x.fail("the end")
	}
	x.closed = true
	if x.err == nil {
		x.array(endLen)
		x.int(endRecord)
		x.uint(uint64(x.hash))
		x.uint(x.turns)
		counts := *f
		list := fates(&counts)
		x.mapping(len(list))
		for _, c := range list {
			x.str(c.name)
			x.uint(*c.count)
		}
	}
	x.keep(x.buf.Flush())
	return x.fail("the end")
}
