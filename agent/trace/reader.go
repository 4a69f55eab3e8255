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

// Reader reads a trace file, one turn at a time. It holds one turn in memory, grows only with bytes that really come, and bounds
// every list by a constant, so that no file can make it take more than it is long.
type Reader struct {
	in     *bufio.Reader
	val    values
	name   string
	header Header
	turn   Turn
	turns  uint64
	hash   Hash
	end    End
	done   error // what Next says from now on
}

// NewReader reads the header. The name of the file is for errors.
func NewReader(r io.Reader, name string) (*Reader, error) {
	x := &Reader{in: bufio.NewReaderSize(r, bufferSize), name: name}
	x.val.dec = msgpack.NewDecoder(x.in)
	if err := x.readHeader(); err != nil {
		return nil, x.fault("header", err)
	}
	return x, nil
}

// Header is what the file says was run.
func (x *Reader) Header() *Header { return &x.header }

// Turns is how many turns have been read.
func (x *Reader) Turns() uint64 { return x.turns }

// Hash is the hash of the turns that have been read.
func (x *Reader) Hash() Hash { return x.hash }

// End is the end record, once Next has said io.EOF.
func (x *Reader) End() (End, bool) { return x.end, errors.Is(x.done, io.EOF) }

// Next reads a turn, which is valid until the next call. It says io.EOF after an end record that fits what came before it; the error
// matches ErrCutOff where the file ends without one. Every error is final and names the file and the turn, counted from zero.
func (x *Reader) Next() (*Turn, error) {
	if x.done != nil {
		return nil, x.done
	}
	more, err := x.record()
	switch {
	case err != nil:
		x.done = x.fault(fmt.Sprintf("turn %d", x.turns), err)
	case !more:
		x.done = io.EOF
	default:
		x.hash.Turn(&x.turn)
		x.turns++
		return &x.turn, nil
	}
	return nil, x.done
}

func (x *Reader) fault(where string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCutOff
	}
	return fmt.Errorf("trace: %s: %s: %w", x.name, where, err)
}

func (x *Reader) record() (more bool, err error) {
	v := &x.val
	v.err = nil
	n := v.array("record", turnLen)
	kind := v.int("kind of record", turnRecord, endRecord)
	if v.err != nil {
		return false, v.err
	}
	switch {
	case kind == turnRecord && n == turnLen:
		x.readTurn()
		if v.err == nil {
			v.err = x.turn.check()
		}
		return true, v.err
	case kind == endRecord && n == endLen:
		x.readEnd()
		return false, v.err
	}
	return false, fmt.Errorf("a record of kind %d with %d elements", kind, n)
}

func (x *Reader) readTurn() {
	v, t := &x.val, &x.turn
	t.Now = v.time("now")
	t.Channel = kernel.Channel(v.int("channel", -1, math.MaxInt32))
	t.Messages = t.Messages[:0]
	for n := v.array("messages", MaxList); n > 0 && v.err == nil; n-- {
		v.exactly("message", messageLen)
		t.Messages = append(t.Messages, kernel.Message{
			Time: v.time("message time"), Runtime: v.time("runtime"), Task: kernel.TaskID(v.uint("task")), Seq: v.uint32("seq"),
			CPU: v.cpu(), Type: kernel.MsgType(v.int("message type", int64(kernel.TaskNew), int64(kernel.CPUBusy))),
			Flags: kernel.MsgFlags(v.int("flags", 0, math.MaxUint8)), Nice: int8(v.int("nice", math.MinInt8, math.MaxInt8)),
		})
	}
	t.Decisions = t.Decisions[:0]
	for n := v.array("decisions", MaxList); n > 0 && v.err == nil; n-- {
		v.exactly("decision", decisionLen)
		t.Decisions = append(t.Decisions, sched.Decision{
			ID: v.uint("decision id"), Task: int32(v.int("task slot", 0, math.MaxInt32)), Queue: int32(v.int("queue", 0, math.MaxInt32)),
			Seq: v.uint32("seq"), Reason: sched.Reason(v.int("reason", 0, int64(sched.ReasonPreempt))), Running: v.bool("running"),
		})
	}
	t.Rows = v.tensor("rows", t.Rows)
	t.Scores = v.tensor("scores", t.Scores)
	t.Placements = t.Placements[:0]
	for n := v.array("placements", MaxList); n > 0 && v.err == nil; n-- {
		v.exactly("placement", placementLen)
		t.Placements = append(t.Placements, v.placement())
	}
	t.Answers = t.Answers[:0]
	for n := v.array("answers", MaxList); n > 0 && v.err == nil; n-- {
		v.exactly("answer", answerLen)
		t.Answers = append(t.Answers, Answer{
			ID: v.uint("decision id"), Task: kernel.TaskID(v.uint("task")), Seq: v.uint32("seq"), Placement: v.placement(),
		})
	}
	t.Txns = t.Txns[:0]
	for n := v.array("transactions", MaxList); n > 0 && v.err == nil; n-- {
		v.exactly("transaction", txnLen)
		t.Txns = append(t.Txns, kernel.Txn{
			Task: kernel.TaskID(v.uint("task")), Slice: v.time("slice"), At: v.time("at"), Barrier: v.uint32("barrier"), CPU: v.cpu(),
			Flags: kernel.TxnFlags(v.int("flags", 0, math.MaxUint8)), State: kernel.TxnState(v.int("state", 0, int64(kernel.NumStates)-1)),
		})
	}
}

func (x *Reader) readEnd() {
	v := &x.val
	x.end = End{Hash: Hash(v.uint("hash")), Turns: v.uint("turns")}
	list := fates(&x.end.Fates)
	v.fields("fates", len(list), func(key string) bool {
		for _, f := range list {
			if f.name == key {
				*f.count = v.uint(key)
				return true
			}
		}
		return false
	})
	switch {
	case v.err != nil:
	case x.end.Turns != x.turns:
		v.err = fmt.Errorf("the end record says %d turns, the file has %d", x.end.Turns, x.turns)
	case x.end.Hash != x.hash:
		v.err = fmt.Errorf("the end record says hash %016x, the turns have %016x", uint64(x.end.Hash), uint64(x.hash))
	default:
		if _, err := x.in.ReadByte(); err == nil {
			v.err = errors.New("something follows the end record")
		} else if err != io.EOF {
			v.err = err
		}
	}
}

func (x *Reader) readHeader() error {
	v, h := &x.val, &x.header
	format, version := "", int64(0)
	v.fields("header", 9, func(key string) bool {
		switch key {
		case "format":
			format = v.str(key)
		case "version":
			version = v.int(key, 0, math.MaxInt64)
		case "schema":
			h.Schema = v.str(key)
		case "scheduler":
			h.Scheduler = v.str(key)
		case "workload":
			h.Workload = v.str(key)
		case "profile":
			h.Profile = v.str(key)
		case "seed":
			h.Seed = v.uint(key)
		case "episode":
			h.Episode = v.uint(key)
		case "machine":
			x.readMachine()
		default:
			return false
		}
		if key == "version" && v.err == nil && version != Version {
			v.err = fmt.Errorf("version %d of the format, this program reads %d", version, Version)
		}
		return true
	})
	if v.err == nil && format != Format {
		return fmt.Errorf("no %s file: its format is %q", Format, format)
	}
	return v.err
}

func (x *Reader) readMachine() {
	v, m := &x.val, &x.header.Machine
	v.fields("machine", 4, func(key string) bool {
		switch key {
		case "model":
			m.Model = kernel.Model(v.int(key, 0, int64(kernel.Global)))
		case "tasks":
			m.Tasks = int(v.int(key, 0, math.MaxInt32))
		case "cpus":
			m.CPUs = m.CPUs[:0]
			for n := v.array(key, kernel.MaxCPUs); n > 0 && v.err == nil; n-- {
				v.exactly("cpu", cpuLen)
				m.CPUs = append(m.CPUs, kernel.CPU{Core: v.int32("core"), LLC: v.int32("llc"), Node: v.int32("node"), Agent: v.bool("agent")})
			}
		case "channels":
			m.Channels = m.Channels[:0]
			for n := v.array(key, kernel.MaxCPUs); n > 0 && v.err == nil; n-- {
				var set kernel.CPUSet
				for k := v.array("channel", kernel.MaxCPUs); k > 0 && v.err == nil; k-- {
					set.Add(int32(v.int("cpu", 0, kernel.MaxCPUs-1)))
				}
				m.Channels = append(m.Channels, set)
			}
		default:
			return false
		}
		return true
	})
}

// values reads single values, and remembers the first error, after which it reads nothing more.
type values struct {
	dec   *msgpack.Decoder
	err   error
	bytes []byte
}

func (v *values) fail(what string, err error) {
	if v.err == nil && err != nil {
		v.err = fmt.Errorf("%s: %w", what, err)
	}
}

// code is the next value's first byte.
func (v *values) code(what string) (c byte, ok bool) {
	if v.err != nil {
		return 0, false
	}
	c, err := v.dec.PeekCode()
	v.fail(what, err)
	return c, err == nil
}

// First bytes of MessagePack values.
const (
	codeFixArray, codeFixStr               = 0x90, 0xa0
	codeFalse, codeTrue                    = 0xc2, 0xc3
	codeBin8, codeBin32                    = 0xc4, 0xc6
	codeFloat64                            = 0xcb
	codeUint8, codeUint64                  = 0xcc, 0xcf
	codeInt8, codeInt64                    = 0xd0, 0xd3
	codeStr8, codeStr32                    = 0xd9, 0xdb
	codeArray16, codeArray32               = 0xdc, 0xdd
	codeMap16, codeMap32                   = 0xde, 0xdf
	codeFixMap, maxPositive, leastNegative = 0x80, 0x7f, 0xe0
)

func (v *values) array(what string, limit int) int {
	c, ok := v.code(what)
	if !ok {
		return 0
	}
	if c&0xf0 != codeFixArray && c != codeArray16 && c != codeArray32 {
		v.err = fmt.Errorf("%s: an array is needed, found 0x%02x", what, c)
		return 0
	}
	n, err := v.dec.DecodeArrayLen()
	v.fail(what, err)
	if err == nil && (n < 0 || n > limit) {
		v.err = fmt.Errorf("%s: %d entries, at most %d are possible", what, n, limit)
	}
	return n
}

func (v *values) exactly(what string, n int) {
	if k := v.array(what, n); v.err == nil && k != n {
		v.err = fmt.Errorf("%s: %d elements, %d are needed", what, k, n)
	}
}

// fields reads a map of n known keys, each once.
func (v *values) fields(what string, n int, field func(key string) bool) {
	c, ok := v.code(what)
	if !ok {
		return
	}
	if c&0xf0 != codeFixMap && c != codeMap16 && c != codeMap32 {
		v.err = fmt.Errorf("%s: a map is needed, found 0x%02x", what, c)
		return
	}
	k, err := v.dec.DecodeMapLen()
	v.fail(what, err)
	if err == nil && k != n {
		v.err = fmt.Errorf("%s: %d keys, %d are needed", what, k, n)
	}
	seen := make(map[string]bool, n)
	for ; n > 0 && v.err == nil; n-- {
		key := v.str(what)
		switch {
		case v.err != nil:
		case seen[key]:
			v.err = fmt.Errorf("%s: key %q twice", what, key)
		case !field(key):
			v.err = fmt.Errorf("%s: unknown key %q", what, key)
		}
		seen[key] = true
	}
}

func (v *values) str(what string) string {
	c, ok := v.code(what)
	if !ok {
		return ""
	}
	if c&0xe0 != codeFixStr && (c < codeStr8 || c > codeStr32) {
		v.err = fmt.Errorf("%s: a string is needed, found 0x%02x", what, c)
		return ""
	}
	return string(v.blob(what, MaxString))
}

// blob reads the bytes of a string or bin value, in pieces, so that a length without bytes costs nothing.
func (v *values) blob(what string, limit int) []byte {
	n, err := v.dec.DecodeBytesLen()
	v.fail(what, err)
	if err != nil {
		return nil
	}
	if n < 0 || n > limit {
		v.err = fmt.Errorf("%s: %d bytes, at most %d are possible", what, n, limit)
		return nil
	}
	v.bytes = v.bytes[:0]
	for len(v.bytes) < n && v.err == nil {
		at := len(v.bytes)
		piece := min(n-at, bufferSize)
		for range piece {
			v.bytes = append(v.bytes, 0)
		}
		v.fail(what, v.dec.ReadFull(v.bytes[at:]))
	}
	return v.bytes
}

func (v *values) tensor(what string, dst []float32) []float32 {
	dst = dst[:0]
	c, ok := v.code(what)
	if !ok {
		return dst
	}
	if c < codeBin8 || c > codeBin32 {
		v.err = fmt.Errorf("%s: a bin value is needed, found 0x%02x", what, c)
		return dst
	}
	b := v.blob(what, MaxTensor)
	if v.err == nil && len(b)%4 != 0 {
		v.err = fmt.Errorf("%s: %d bytes are no float32 numbers", what, len(b))
	}
	if v.err != nil {
		return dst
	}
	for ; len(b) > 0; b = b[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return dst
}

func (v *values) int(what string, lo, hi int64) int64 {
	c, ok := v.code(what)
	if !ok {
		return lo
	}
	if !isInt(c) {
		v.err = fmt.Errorf("%s: an integer is needed, found 0x%02x", what, c)
		return lo
	}
	n, err := v.dec.DecodeInt64()
	v.fail(what, err)
	if err == nil && (n < lo || n > hi || c == codeUint64 && n < 0) {
		v.err = fmt.Errorf("%s: %d is not between %d and %d", what, n, lo, hi)
	}
	if v.err != nil {
		return lo
	}
	return n
}

func isInt(c byte) bool {
	return c <= maxPositive || c >= leastNegative || c >= codeUint8 && c <= codeInt64
}

func (v *values) uint(what string) uint64 {
	c, ok := v.code(what)
	if !ok {
		return 0
	}
	if c > maxPositive && (c < codeUint8 || c > codeUint64) {
		if isInt(c) {
			return uint64(v.int(what, 0, math.MaxInt64))
		}
		v.err = fmt.Errorf("%s: an integer is needed, found 0x%02x", what, c)
		return 0
	}
	n, err := v.dec.DecodeUint64()
	v.fail(what, err)
	return n
}

func (v *values) bool(what string) bool {
	c, ok := v.code(what)
	if !ok {
		return false
	}
	if c != codeFalse && c != codeTrue {
		v.err = fmt.Errorf("%s: true or false is needed, found 0x%02x", what, c)
		return false
	}
	b, err := v.dec.DecodeBool()
	v.fail(what, err)
	return b
}

func (v *values) float(what string) float64 {
	c, ok := v.code(what)
	if !ok {
		return 0
	}
	if c != codeFloat64 {
		v.err = fmt.Errorf("%s: a float64 is needed, found 0x%02x", what, c)
		return 0
	}
	f, err := v.dec.DecodeFloat64()
	v.fail(what, err)
	return f
}

func (v *values) time(what string) kernel.Time {
	return kernel.Time(v.int(what, math.MinInt64, math.MaxInt64))
}
func (v *values) uint32(what string) uint32 { return uint32(v.int(what, 0, math.MaxUint32)) }
func (v *values) int32(what string) int32   { return int32(v.int(what, math.MinInt32, math.MaxInt32)) }
func (v *values) cpu() int32                { return int32(v.int("cpu", int64(kernel.NoCPU), kernel.MaxCPUs-1)) }

func (v *values) placement() sched.Placement {
	return sched.Placement{
		Key: v.float("key"), Slice: v.time("slice"), Slot: v.int32("slot"), Source: sched.Source(v.int("source", 0, int64(sched.NumSources-1))),
	}
}
