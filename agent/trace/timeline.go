package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Processes of the timeline: rows of the viewer are grouped by them.
const (
	pidCPUs  = 1 // one row per CPU: who runs there
	pidTasks = 2 // one row per task: when it waits for a CPU
)

// Timeline is a Sink that writes a run as the JSON of Chrome's trace viewer; the package comment says what it shows. It keeps one
// entry per task slot. Close makes the file valid, also when the run was cut short.
type Timeline struct {
	buf     *bufio.Writer
	name    func(kernel.TaskID) string
	limit   int // events; 0: none
	events  int
	full    bool // the limit was met, and said
	err     error
	rows    []row             // by slot
	names   map[string]uint32 // the slot that bears a name without its number
	waiting int               // tasks
	last    int               // value of the counter
	now     kernel.Time
	closed  bool
}

// row is the task in a slot. What it did since it became runnable is written when that has ended.
type row struct {
	id    kernel.TaskID
	label string
	since kernel.Time // waits from then on, until at; Forever: it is not runnable
	at    kernel.Time // has cpu from then on; Forever: it has none
	cpu   int32
}

// TimelineEvents is a limit that viewers in a browser cope with: about 50 MB.
const TimelineEvents = 400_000

// NewTimeline begins a timeline of a machine. name names tasks; limit, if positive, is after how many events it ends at the turn
// under way.
func NewTimeline(w io.Writer, t *kernel.Topology, name func(kernel.TaskID) string, limit int) *Timeline {
	x := &Timeline{buf: bufio.NewWriterSize(w, bufferSize), name: name, limit: limit, names: map[string]uint32{}, last: -1}
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

// event begins the next event and writes it.
func (x *Timeline) event(format string, args ...any) {
	if x.events > 0 {
		x.raw(",")
	}
	x.events++
	x.raw("\n" + fmt.Sprintf(format, args...))
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
	x.event(`{"ph":"M","name":%q,"pid":%d,"tid":%d,"args":{"name":%s}}`, kind, pid, tid, quote(name))
}

// span writes a complete event, unless it is empty.
func (x *Timeline) span(name string, pid int, tid uint32, from, to kernel.Time) {
	if to > from {
		x.event(`{"ph":"X","name":%s,"pid":%d,"tid":%d,"ts":%s,"dur":%s}`, quote(name), pid, tid, micros(from), micros(to-from))
	}
}

// label is the task's name, with the number of its row where another row has that name already.
func (x *Timeline) label(id kernel.TaskID) string {
	slot := id.Slot()
	number := " " + strconv.FormatUint(uint64(slot), 10)
	n := ""
	if x.name != nil {
		n = x.name(id)
	}
	if n == "" {
		return "task" + number
	}
	if owner, ok := x.names[n]; ok && owner != slot {
		return n + number
	}
	x.names[n] = slot
	return n
}

// Turn implements Sink.
func (x *Timeline) Turn(t *Turn) error {
	if x.full {
		return x.err
	}
	x.now = t.Now
	for i := range t.Messages {
		x.message(&t.Messages[i])
	}
	for i := range t.Decisions {
		if d := &t.Decisions[i]; !d.Running && i < len(t.Placements) {
			p := &t.Placements[i]
			x.event(`{"ph":"i","s":"t","name":"decision","pid":%d,"tid":%d,"ts":%s,"args":{"id":%d,"reason":%q,"slot":%d,"key":%q}}`,
				pidTasks, d.Task, micros(t.Now), d.ID, d.Reason, p.Slot, strconv.FormatFloat(p.Key, 'g', 6, 64))
		}
	}
	for i := range t.Txns {
		if tx := &t.Txns[i]; tx.State == kernel.StateDone && tx.Flags&kernel.TxnAssign == 0 {
			x.dispatched(tx)
		}
	}
	if x.waiting != x.last {
		x.last = x.waiting
		x.event(`{"ph":"C","name":"waiting","pid":%d,"tid":0,"ts":%s,"args":{"tasks":%d}}`, pidCPUs, micros(t.Now), x.waiting)
	}
	if x.limit > 0 && x.events >= x.limit {
		x.full = true
		x.event(`{"ph":"i","s":"g","name":"the first %d events end here; the run goes on","pid":%d,"tid":0,"ts":%s}`,
			x.events, pidCPUs, micros(t.Now))
		x.endAll(t.Now)
	}
	return x.err
}

func (x *Timeline) message(m *kernel.Message) {
	if m.Type == kernel.TaskNew {
		x.enter(m)
		return
	}
	r := x.row(m.Task)
	if r == nil {
		return
	}
	switch m.Type {
	case kernel.TaskWakeup:
		x.wait(r, m.Time)
	case kernel.TaskYield, kernel.TaskPreempt:
		x.end(r, m.Time)
		x.wait(r, m.Time)
	case kernel.TaskBlocked, kernel.TaskDead, kernel.TaskDeparted:
		x.end(r, m.Time)
	}
}

// row is that of a task; nil if another one has its slot.
func (x *Timeline) row(id kernel.TaskID) *row {
	if s := id.Slot(); int(s) < len(x.rows) && x.rows[s].id == id {
		return &x.rows[s]
	}
	return nil
}

func (x *Timeline) enter(m *kernel.Message) {
	slot := m.Task.Slot()
	for len(x.rows) <= int(slot) {
		x.rows = append(x.rows, row{since: kernel.Forever, at: kernel.Forever})
	}
	r := &x.rows[slot]
	x.end(r, m.Time) // the end of the task that had the slot may not have been read yet
	r.id = m.Task
	if l := x.label(m.Task); l != r.label {
		r.label = l
		x.meta("thread_name", pidTasks, slot, l)
	}
	if m.Flags&kernel.FlagRunnable != 0 {
		x.wait(r, m.Time)
	}
}

func (x *Timeline) wait(r *row, since kernel.Time) {
	if r.since == kernel.Forever {
		r.since = since
		x.waiting++
	}
}

func (x *Timeline) dispatched(tx *kernel.Txn) {
	if r := x.row(tx.Task); r != nil && r.since != kernel.Forever && r.at == kernel.Forever { // else it goes on, with a new slice
		r.at, r.cpu = tx.At, tx.CPU
		x.waiting--
	}
}

// end writes a task's wait and its stay on a CPU. The stay never began if the task lost the CPU while it was being switched to.
func (x *Timeline) end(r *row, now kernel.Time) {
	if r.since == kernel.Forever {
		return
	}
	x.span("waits", pidTasks, r.id.Slot(), r.since, min(r.at, now))
	if r.at == kernel.Forever {
		x.waiting--
	} else {
		x.span(r.label, pidCPUs, uint32(r.cpu), r.at, now)
	}
	r.since, r.at = kernel.Forever, kernel.Forever
}

func (x *Timeline) endAll(now kernel.Time) {
	for i := range x.rows {
		x.end(&x.rows[i], now)
	}
}

// Close ends what is still under way at the end of the run and completes the file. The underlying writer is the caller's to close.
func (x *Timeline) Close(end kernel.Time) error {
	if x.closed {
		return x.err
	}
	x.closed = true
	x.endAll(max(end, x.now))
	x.raw("\n]}\n")
	if err := x.buf.Flush(); x.err == nil {
		x.err = err
	}
	return x.err
}

// CheckTimeline reads a timeline back and reports the first event that the viewer's format does not allow, or two slices of one row
// that overlap.
func CheckTimeline(r io.Reader) (events int, err error) {
	var file struct {
		Unit   string          `json:"displayTimeUnit"`
		Events []timelineEvent `json:"traceEvents"`
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return 0, fmt.Errorf("timeline: %w", err)
	}
	if file.Unit != "ns" && file.Unit != "ms" {
		return 0, fmt.Errorf("timeline: displayTimeUnit %q is none of ns, ms", file.Unit)
	}
	for i := range file.Events {
		if err := file.Events[i].check(); err != nil {
			return i, fmt.Errorf("timeline: event %d: %w", i, err)
		}
	}
	if i, err := overlap(file.Events); err != nil {
		return i, fmt.Errorf("timeline: event %d: %w", i, err)
	}
	return len(file.Events), nil
}

type timelineEvent struct {
	Ph   string         `json:"ph"`
	Name string         `json:"name"`
	Pid  *int           `json:"pid"`
	Tid  *int           `json:"tid"`
	Ts   *float64       `json:"ts"`
	Dur  *float64       `json:"dur"`
	S    string         `json:"s"`
	Args map[string]any `json:"args"`
}

func (e *timelineEvent) check() error {
	switch {
	case e.Name == "" || e.Pid == nil || e.Tid == nil:
		return errors.New("name, pid and tid are needed")
	case e.Ph == "M":
		if e.Args["name"] == nil {
			return errors.New("a name is needed")
		}
	case e.Ts == nil || *e.Ts < 0:
		return errors.New("ts is needed, not negative")
	case e.Ph == "X":
		if e.Dur == nil || *e.Dur <= 0 {
			return errors.New("a complete event needs a positive dur")
		}
	case e.Ph == "i":
		if e.S != "t" && e.S != "p" && e.S != "g" {
			return errors.New("an instant needs a scope")
		}
	case e.Ph == "C":
		if len(e.Args) == 0 {
			return errors.New("a counter needs values")
		}
	default:
		return fmt.Errorf("no such phase %q", e.Ph)
	}
	return nil
}

// overlap finds a slice that begins before the one before it on its row has ended.
func overlap(events []timelineEvent) (int, error) {
	var spans []int
	for i := range events {
		if events[i].Ph == "X" {
			spans = append(spans, i)
		}
	}
	slices.SortStableFunc(spans, func(a, b int) int {
		x, y := &events[a], &events[b]
		return cmp.Or(cmp.Compare(*x.Pid, *y.Pid), cmp.Compare(*x.Tid, *y.Tid), cmp.Compare(*x.Ts, *y.Ts))
	})
	for k := 1; k < len(spans); k++ {
		x, y := &events[spans[k-1]], &events[spans[k]]
		if *x.Pid == *y.Pid && *x.Tid == *y.Tid && *y.Ts < *x.Ts+*x.Dur-tick/2 {
			return spans[k], fmt.Errorf("%q begins at %.3f µs, while %q is on row %d of process %d until %.3f µs",
				y.Name, *y.Ts, x.Name, *x.Tid, *x.Pid, *x.Ts+*x.Dur)
		}
	}
	return 0, nil
}

// tick is the resolution of a timeline, in its unit.
const tick = 1e-3
