package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

func header() *Header {
	h := &Header{Schema: "abc", Scheduler: "learned+wp", Workload: "bimodal", Profile: "ideal", Seed: 1<<63 + 1, Episode: 2}
	h.Machine = kernel.Topology{Model: kernel.PerCPU, CPUs: make([]kernel.CPU, 2), Channels: make([]kernel.CPUSet, 2)}
	h.Machine.Channels[0].Add(0)
	h.Machine.Channels[1].Add(1)
	return h
}

func turns() []Turn {
	id := kernel.MakeTaskID(3, 2)
	return []Turn{
		{Now: 5, Channel: 0, Messages: []kernel.Message{{Time: 5, Task: id, Seq: 1, CPU: kernel.NoCPU, Type: kernel.TaskNew, Flags: kernel.FlagRunnable, Nice: -3}}},
		{
			Now: 1000, Channel: 1, Messages: []kernel.Message{{Time: 990, Runtime: 77, Task: id, Seq: 2, CPU: 1, Type: kernel.TaskPreempt}},
			Decisions: []sched.Decision{{ID: 9, Task: 3, Queue: 1, Seq: 2, Reason: sched.ReasonPreempt}, {Task: 1, Queue: 1, Seq: 8, Running: true}},
			Rows:      []float32{1, 2, 3, 4}, Scores: []float32{0.5, float32(math.Inf(1))},
			Placements: []sched.Placement{{Key: 0.5, Slot: 8}, {Key: math.Inf(1), Slot: 8, Source: sched.FallbackNonFinite, Slice: 5}},
			Txns:       []kernel.Txn{{Task: id, Slice: kernel.Forever, At: 1001, Barrier: 2, CPU: 1, State: kernel.StateDone}},
		},
		{Now: 2000, Channel: -1, Answers: []Answer{{ID: 4, Task: id, Placement: sched.Placement{Key: -1, Slot: 2}}}},
	}
}

func written(t *testing.T) ([]byte, Hash) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, header())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range turns() {
		if err := w.Turn(&x); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(&sched.Fates{Requested: 3, Applied: 3}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), w.Hash()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	b, hash := written(t)
	r, err := NewReader(bytes.NewReader(b), "x.trace")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Header(); !reflect.DeepEqual(got, header()) {
		t.Errorf("header %+v, want %+v", got, header())
	}
	empty := func(x Turn) Turn { // nil and empty say the same
		v := reflect.ValueOf(&x).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Slice && f.Len() == 0 {
				f.SetZero()
			}
		}
		return x
	}
	for i, want := range turns() {
		got, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(empty(*got), empty(want)) {
			t.Errorf("turn %d: %+v, want %+v", i, *got, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last turn: %v", err)
	}
	end, whole := r.End()
	if !whole || r.Hash() != hash || end.Fates.Applied != 3 || r.Turns() != 3 {
		t.Errorf("end %+v, whole %v, hash %x of %x", end, whole, r.Hash(), hash)
	}
}

// TestCutAndBrokenFiles: every prefix, and every changed byte, is read without a panic. A prefix is never taken for whole, and what
// is taken for whole says what the hash covers as it was written.
func TestCutAndBrokenFiles(t *testing.T) {
	b, hash := written(t)
	read := func(b []byte) (whole bool, h Hash, err error) {
		r, err := NewReader(bytes.NewReader(b), "x.trace")
		if err != nil {
			return false, 0, err
		}
		for {
			if _, err := r.Next(); err != nil {
				_, whole := r.End()
				return whole, r.Hash(), err
			}
		}
	}
	for n := range b {
		if whole, _, err := read(b[:n]); whole || err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "x.trace") {
			t.Errorf("%d of %d bytes: whole %v, %v", n, len(b), whole, err)
		}
	}
	refused := 0
	for i := range b {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			c := append([]byte(nil), b...)
			c[i] ^= flip
			whole, h, err := read(c)
			if whole && h != hash {
				t.Errorf("byte %d: the file is taken for whole, and its turns are others", i)
			}
			if !errors.Is(err, io.EOF) || !whole {
				refused++
			}
		}
	}
	if refused < 2*len(b) {
		t.Errorf("only %d of %d changes were noticed", refused, 3*len(b))
	}
}

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w, err := NewWriter(&b, header())
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range turns() {
		if err := w.Turn(&x); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(&sched.Fates{}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), "x")
		for n := 0; err == nil; n++ {
			if n > len(b) {
				t.Fatal("more turns than bytes")
			}
			_, err = r.Next()
		}
	})
}

func TestHashSeesEverything(t *testing.T) {
	hash := func(change func(x *Turn)) Hash {
		var h Hash
		for i, x := range turns() {
			if i == 1 && change != nil {
				change(&x)
			}
			h.Turn(&x)
		}
		return h
	}
	seen := map[Hash]int{hash(nil): -1}
	for i, change := range []func(x *Turn){
		func(x *Turn) { x.Now++ }, func(x *Turn) { x.Channel++ }, func(x *Turn) { x.Messages[0].Time++ },
		func(x *Turn) { x.Messages[0].Runtime++ }, func(x *Turn) { x.Messages[0].Task++ }, func(x *Turn) { x.Messages[0].Seq++ },
		func(x *Turn) { x.Messages[0].CPU++ }, func(x *Turn) { x.Messages[0].Type++ }, func(x *Turn) { x.Messages[0].Flags++ },
		func(x *Turn) { x.Messages[0].Nice++ }, func(x *Turn) { x.Messages = nil }, func(x *Turn) { x.Placements[1].Key = 1 },
		func(x *Turn) { x.Placements[0].Slot-- }, func(x *Turn) { x.Placements[0].Source++ }, func(x *Turn) { x.Placements[0].Slice++ },
		func(x *Turn) { x.Txns[0].Task++ }, func(x *Turn) { x.Txns[0].Slice-- }, func(x *Turn) { x.Txns[0].At++ },
		func(x *Turn) { x.Txns[0].Barrier++ }, func(x *Turn) { x.Txns[0].CPU-- }, func(x *Turn) { x.Txns[0].State++ },
		func(x *Turn) { x.Txns[0].Flags++ }, func(x *Turn) { x.Answers = []Answer{{}} },
		func(x *Turn) { x.Placements[0], x.Placements[1] = x.Placements[1], x.Placements[0] },
	} {
		h := hash(change)
		if was, twice := seen[h]; twice {
			t.Errorf("changes %d and %d give one hash", was, i)
		}
		seen[h] = i
	}
	if hash(func(x *Turn) { x.Rows[0]++; x.Scores[0]++ }) != hash(nil) {
		t.Error("rows and scores are no part of the hash")
	}
}

// timeline is what is drawn of turns that end at an instant.
func timeline(t *testing.T, name func(kernel.TaskID) string, limit int, turns []Turn, end kernel.Time) string {
	t.Helper()
	var b strings.Builder
	topo := header().Machine
	x := NewTimeline(&b, &topo, name, limit)
	for i := range turns {
		if err := x.Turn(&turns[i]); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := x.Close(end); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := CheckTimeline(strings.NewReader(b.String())); err != nil {
		t.Errorf("%v:\n%s", err, b.String())
	}
	return b.String()
}

func TestTimelineIsWhatViewersRead(t *testing.T) {
	text := timeline(t, func(kernel.TaskID) string { return `a "task"` }, 0, turns(), 2000)
	for _, want := range []string{`"waits"`, `a \"task\"`, `"decision"`, `"waiting"`, `"CPU 1"`, `"ts":0.990,"dur":0.011`, `"ts":1.001,"dur":0.999`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, bad := range []string{
		"", "{}", `{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1}]}`,
		`{"displayTimeUnit":"ns","traceEvents":[{"ph":"Q","name":"a","pid":1,"tid":1,"ts":1}]}`,
		`{"displayTimeUnit":"ns","traceEvents":[{"ph":"i","name":"a","pid":1,"tid":1,"ts":1}]}`,
		`{"displayTimeUnit":"ns","traceEvents":[{"ph":"C","name":"a","pid":1,"tid":1,"ts":-1,"args":{"x":1}}]}`,
		`{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":2,"dur":5},{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":1.001}]}`,
	} {
		if _, err := CheckTimeline(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	apart := `{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":2.1,"dur":5},` +
		`{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":1.1},{"ph":"X","name":"c","pid":1,"tid":2,"ts":1,"dur":9}]}`
	if _, err := CheckTimeline(strings.NewReader(apart)); err != nil {
		t.Error(err)
	}
}

// rows are the slices of a timeline, in the order of the file: row, name, from and to.
func rows(t *testing.T, text string) (all []string) {
	t.Helper()
	var file struct{ TraceEvents []timelineEvent }
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	names := map[[2]int]string{}
	for _, e := range file.TraceEvents {
		key := [2]int{*e.Pid, *e.Tid}
		if e.Ph == "M" && e.Name == "thread_name" {
			names[key] = e.Args["name"].(string)
		} else if e.Ph == "X" {
			all = append(all, fmt.Sprintf("%s: %s %g-%g", names[key], e.Name, *e.Ts, math.Round((*e.Ts+*e.Dur)*1e3)/1e3))
		}
	}
	return all
}

// TestTimelineRows: a task that was replaced, one that was replaced while it was being switched to, what is open at the end, and a name
// that two tasks have.
func TestTimelineRows(t *testing.T) {
	msg := func(us kernel.Time, slot uint32, typ kernel.MsgType) kernel.Message {
		m := kernel.Message{Time: us * kernel.Microsecond, Task: kernel.MakeTaskID(slot, 1), Type: typ, CPU: 1}
		if typ == kernel.TaskNew {
			m.Flags = kernel.FlagRunnable
		}
		return m
	}
	turn := func(us kernel.Time, dispatched int, msgs ...kernel.Message) Turn {
		x := Turn{Now: us * kernel.Microsecond, Messages: msgs}
		if dispatched >= 0 { // after a switch of 2 µs
			x.Txns = []kernel.Txn{{Task: kernel.MakeTaskID(uint32(dispatched), 1), CPU: 1, At: x.Now + 2*kernel.Microsecond, State: kernel.StateDone}}
		}
		return x
	}
	script := []Turn{
		turn(0, 0, msg(0, 0, kernel.TaskNew)),
		turn(10, 1, msg(10, 1, kernel.TaskNew)), // replaces 0, whose message comes later
		turn(11, 2, msg(10, 0, kernel.TaskPreempt), msg(11, 2, kernel.TaskNew)),
		turn(12, -1, msg(11, 1, kernel.TaskPreempt)), // and 1 had not begun
		turn(20, 0, msg(20, 2, kernel.TaskBlocked)),
	}
	name := func(id kernel.TaskID) string { return [...]string{"a", "b", "a"}[id.Slot()] }
	want := []string{"a: waits 0-2", "CPU 1: a 2-10", "b: waits 10-11", "a 2: waits 11-13", "CPU 1: a 2 13-20"}
	open := []string{"a: waits 10-22", "CPU 1: a 22-30", "b: waits 11-30"}
	if got := rows(t, timeline(t, name, 0, script, 30*kernel.Microsecond)); !slices.Equal(got, slices.Concat(want, open)) {
		t.Errorf("%q, want %q and %q", got, want, open)
	}
	// an end before a switch is over
	open = []string{"a: waits 10-21", "b: waits 11-21"}
	if got := rows(t, timeline(t, name, 0, script, 21*kernel.Microsecond)); !slices.Equal(got, slices.Concat(want, open)) {
		t.Errorf("%q, want %q and %q", got, want, open)
	}
	// a limit that the third turn reaches: what is open ends there
	text := timeline(t, name, 11, script, 30*kernel.Microsecond)
	want = []string{"a: waits 0-2", "CPU 1: a 2-10", "a: waits 10-11", "b: waits 10-11"}
	if got := rows(t, text); !slices.Equal(got, want) || strings.Count(text, "events end here; the run goes on") != 1 {
		t.Errorf("%q, want %q:\n%s", got, want, text)
	}
}

func TestWritingDoesNotAllocate(t *testing.T) {
	w, err := NewWriter(io.Discard, header())
	if err != nil {
		t.Fatal(err)
	}
	x := turns()[1]
	var h Hash
	if n := testing.AllocsPerRun(100, func() {
		if err := w.Turn(&x); err != nil {
			t.Fatal(err)
		}
		h.Turn(&x)
	}); n != 0 {
		t.Errorf("%v allocations per turn", n)
	}
}
