package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Processes of the timeline: rows of the viewer are grouped by them.
const (
	pidCPUs  = 1 // one row per CPU: who runs there
	pidTasks = 2 // one row per task: when it waits for a CPU
)

// Timeline is a Sink that writes a run as the JSON of Chrome's trace viewer: per CPU which task ran when, per task when it waited
// for a CPU, decisions as instants on the task's row, and the number of waiting tasks as a counter. Times are in microseconds. It
// keeps one entry per task and CPU. Close makes the file valid, also when the run was cut short.
// The file ends with an instant that says so where the run had more events than the limit.
type Timeline struct {
	buf     *bufio.Writer
	name    func(kernel.TaskID) string
	limit   int // events; 0: none
	events  int
	full    bool // the limit was met, and said
	err     error
	on      []stay                        // by CPU
	waiting map[kernel.TaskID]kernel.Time // since when
	named   map[uint32]string             // rows that have a name
	last    int                           // value of the counter
	now     kernel.Time
	closed  bool
}

type stay struct {
	task kernel.TaskID
	at   kernel.Time
}

// TimelineEvents is a limit that viewers in a browser cope with: about 50 MB.
const TimelineEvents = 400_000

// NewTimeline begins a timeline of a machine. name names tasks; limit, if positive, is after how many events it stops growing.
func NewTimeline(w io.Writer, t *kernel.Topology, name func(kernel.TaskID) string, limit int) *Timeline {
	x := &Timeline{
		buf: bufio.NewWriterSize(w, bufferSize), name: name, limit: limit, on: make([]stay, len(t.CPUs)),
		waiting: map[kernel.TaskID]kernel.Time{}, named: map[uint32]string{}, last: -1,
	}
	x.raw(`{"displayTimeUnit":"ns","traceEvents":[`)
	x.meta("process_name", pidCPUs, 0, "CPUs")
	x.meta("process_name", pidTasks, 0, "waiting for a CPU")
	for n := range t.CPUs {
		what := "CPU " + strconv.Itoa(n)
		if t.CPUs[n].Agent {
			what += " (agent)"
		}
		x.meta("thread_name", pidCPUs, uint32(n), what)
	}
	return x
}

func (x *Timeline) raw(s string) {
	if x.err == nil {
		_, x.err = x.buf.WriteString(s)
	}
}

func (x *Timeline) begin() bool {
	if x.full {
		return false
	}
	if x.events > 0 {
		x.raw(",")
	}
	x.raw("\n")
	if x.full = x.limit > 0 && x.events >= x.limit; x.full {
		x.raw(fmt.Sprintf(`{"ph":"i","s":"g","name":"the first %d events end here; the run goes on","pid":%d,"tid":0,"ts":%s}`,
			x.limit, pidCPUs, micros(x.now)))
		return false
	}
	x.events++
	return true
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func micros(t kernel.Time) string { return strconv.FormatFloat(float64(t)/1e3, 'f', 3, 64) }

func (x *Timeline) meta(kind string, pid int, tid uint32, name string) {
	if x.begin() {
		x.raw(fmt.Sprintf(`{"ph":"M","name":%q,"pid":%d,"tid":%d,"args":{"name":%s}}`, kind, pid, tid, quote(name)))
	}
}

// span writes a complete event.
func (x *Timeline) span(name string, pid int, tid uint32, from, to kernel.Time) {
	if to > from && x.begin() {
		x.raw(fmt.Sprintf(`{"ph":"X","name":%s,"pid":%d,"tid":%d,"ts":%s,"dur":%s}`, quote(name), pid, tid, micros(from), micros(to-from)))
	}
}

func (x *Timeline) label(id kernel.TaskID) string {
	if x.name != nil {
		if n := x.name(id); n != "" {
			return n
		}
	}
	return "task " + strconv.FormatUint(uint64(id.Slot()), 10)
}

// Turn implements Sink.
func (x *Timeline) Turn(t *Turn) error {
	x.now = t.Now
	for i := range t.Messages {
		m := &t.Messages[i]
		switch m.Type {
		case kernel.TaskNew:
			if m.Flags&kernel.FlagRunnable != 0 {
				x.waiting[m.Task] = m.Time
			}
			if l := x.label(m.Task); x.named[m.Task.Slot()] != l {
				x.named[m.Task.Slot()] = l
				x.meta("thread_name", pidTasks, m.Task.Slot(), l)
			}
		case kernel.TaskWakeup:
			x.waiting[m.Task] = m.Time
		case kernel.TaskYield, kernel.TaskPreempt:
			x.left(m)
			x.waiting[m.Task] = m.Time
		case kernel.TaskBlocked, kernel.TaskDead, kernel.TaskDeparted:
			x.left(m)
			delete(x.waiting, m.Task)
		}
	}
	for i := range t.Decisions {
		d := &t.Decisions[i]
		if !d.Running && i < len(t.Placements) && x.begin() {
			p := &t.Placements[i]
			x.raw(fmt.Sprintf(`{"ph":"i","s":"t","name":"decision","pid":%d,"tid":%d,"ts":%s,"args":{"id":%d,"reason":%q,"slot":%d,"key":%q}}`,
				pidTasks, d.Task, micros(t.Now), d.ID, d.Reason, p.Slot, strconv.FormatFloat(p.Key, 'g', 6, 64)))
		}
	}
	for i := range t.Txns {
		if tx := &t.Txns[i]; tx.State == kernel.StateDone && tx.Flags&kernel.TxnAssign == 0 && tx.Task != 0 {
			x.dispatched(tx)
		}
	}
	if n := len(x.waiting); n != x.last && x.begin() {
		x.last = n
		x.raw(fmt.Sprintf(`{"ph":"C","name":"waiting","pid":%d,"tid":0,"ts":%s,"args":{"tasks":%d}}`, pidCPUs, micros(t.Now), n))
	}
	return x.err
}

func (x *Timeline) dispatched(tx *kernel.Txn) {
	n := int(tx.CPU)
	if n < 0 || n >= len(x.on) || x.on[n].task == tx.Task {
		return
	}
	if since, ok := x.waiting[tx.Task]; ok {
		x.span("waits", pidTasks, tx.Task.Slot(), since, tx.At)
		delete(x.waiting, tx.Task)
	}
	x.on[n] = stay{task: tx.Task, at: tx.At}
}

// left ends a stay on a CPU. A replaced task's place may have been taken already.
func (x *Timeline) left(m *kernel.Message) {
	n := int(m.CPU)
	if n < 0 || n >= len(x.on) || x.on[n].task != m.Task {
		return
	}
	x.span(x.label(m.Task), pidCPUs, uint32(n), x.on[n].at, m.Time)
	x.on[n] = stay{}
}

// Close ends what is still under way at the instant of the last turn and completes the file. The underlying writer is the caller's
// to close.
func (x *Timeline) Close() error {
	if x.closed {
		return x.err
	}
	x.closed = true
	for n, s := range x.on {
		if s.task != 0 {
			x.span(x.label(s.task), pidCPUs, uint32(n), s.at, x.now)
		}
	}
	x.raw("\n]}\n")
	if err := x.buf.Flush(); x.err == nil {
		x.err = err
	}
	return x.err
}

// CheckTimeline reads a timeline back and reports the first event that the viewer's format does not allow.
func CheckTimeline(r io.Reader) (events int, err error) {
	var file struct {
		Unit   string `json:"displayTimeUnit"`
		Events []struct {
			Ph   string         `json:"ph"`
			Name string         `json:"name"`
			Pid  *int           `json:"pid"`
			Tid  *int           `json:"tid"`
			Ts   *float64       `json:"ts"`
			Dur  *float64       `json:"dur"`
			S    string         `json:"s"`
			Args map[string]any `json:"args"`
		} `json:"traceEvents"`
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return 0, fmt.Errorf("timeline: %w", err)
	}
	if file.Unit != "ns" && file.Unit != "ms" {
		return 0, fmt.Errorf("timeline: displayTimeUnit %q is none of ns, ms", file.Unit)
	}
	for i, e := range file.Events {
		var why error
		switch {
		case e.Name == "" || e.Pid == nil || e.Tid == nil:
			why = errors.New("name, pid and tid are needed")
		case e.Ph == "M":
			if e.Args["name"] == nil {
				why = errors.New("a name is needed")
			}
		case e.Ts == nil || *e.Ts < 0:
			why = errors.New("ts is needed, not negative")
		case e.Ph == "X":
			if e.Dur == nil || *e.Dur <= 0 {
				why = errors.New("a complete event needs a positive dur")
			}
		case e.Ph == "i":
			if e.S != "t" && e.S != "p" && e.S != "g" {
				why = errors.New("an instant needs a scope")
			}
		case e.Ph == "C":
			if len(e.Args) == 0 {
				why = errors.New("a counter needs values")
			}
		default:
			why = fmt.Errorf("no such phase %q", e.Ph)
		}
		if why != nil {
			return i, fmt.Errorf("timeline: event %d: %w", i, why)
		}
	}
	return len(file.Events), nil
}
