// Package kerneltest is what every kernel must do: one suite, which each backend runs, and a scripted fake for tests of agents.
//
// The suite knows orders and outcomes, not times: it passes on a simulated machine as on one with real threads.
package kerneltest

import (
	"errors"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Scenario is a workload in terms that every kernel can play.
type Scenario struct {
	CPUs  int    // for tasks; the kernel may need more for itself
	Tasks []Task // all there from the start
}

// Task runs Burst of CPU time Bursts times, sleeping in between, and exits; with Yield it yields instead of sleeping.
type Task struct {
	Burst, Sleep kernel.Time
	Bursts       int
	Yield        bool
}

// limit bounds the turns of a test: a kernel that goes on for ever fails, it does not hang the suite.
const limit = 100000

// Run runs the suite. open makes a kernel that plays the scenario.
func Run(t *testing.T, open func(t *testing.T, s Scenario) kernel.Kernel) {
	const us = kernel.Microsecond
	for _, c := range []struct {
		name string
		s    Scenario
		play func(t *testing.T, d *driver)
	}{
		{"lifecycle", Scenario{CPUs: 1, Tasks: []Task{{Burst: 200 * us, Sleep: 500 * us, Bursts: 3}}}, lifecycle},
		{"many tasks", Scenario{CPUs: 2, Tasks: many(12)}, toTheEnd},
		{"yield", Scenario{CPUs: 1, Tasks: []Task{{Burst: 100 * us, Bursts: 3, Yield: true}, {Burst: 100 * us, Bursts: 3, Yield: true}}}, yields},
		{"slices", Scenario{CPUs: 1, Tasks: []Task{{Burst: 3000 * us, Bursts: 1}, {Burst: 3000 * us, Bursts: 1}}}, slices},
		{"stale barriers", Scenario{CPUs: 1, Tasks: []Task{{Burst: 100 * us, Bursts: 1}}}, stale},
		{"refusals", Scenario{CPUs: 1, Tasks: []Task{{Burst: 100 * us, Bursts: 1}}}, refusals},
		{"replaced", Scenario{CPUs: 1, Tasks: []Task{{Burst: 5000 * us, Bursts: 1}, {Burst: 100 * us, Bursts: 1}}}, replaced},
		{"taken off", Scenario{CPUs: 1, Tasks: []Task{{Burst: 5000 * us, Bursts: 1}}}, takenOff},
		{"deadline", Scenario{CPUs: 1, Tasks: []Task{{Burst: 50000 * us, Bursts: 1}}}, deadline},
		{"close", Scenario{CPUs: 1, Tasks: many(3)}, closes},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := open(t, c.s)
			d := &driver{t: t, k: k, slice: kernel.Forever, tasks: map[kernel.TaskID]*known{}, on: map[int32]kernel.TaskID{}}
			d.check(c.s)
			c.play(t, d)
			if err := k.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func many(n int) []Task {
	var all []Task
	for i := range n {
		all = append(all, Task{Burst: kernel.Time(50+10*i) * kernel.Microsecond, Sleep: 100 * kernel.Microsecond, Bursts: 4})
	}
	return all
}

// known is what the suite has been told of a task.
type known struct {
	last     kernel.Message
	runnable bool
	cpu      int32 // granted, or NoCPU
	gone     bool
	blocked  int
	yielded  int
	sliced   int
	replaced int
}

// driver is an agent that serves tasks first come, first served, and checks every message against the rules of package kernel.
type driver struct {
	t       *testing.T
	k       kernel.Kernel
	slice   kernel.Time
	tasks   map[kernel.TaskID]*known
	queue   []kernel.TaskID
	channel map[kernel.TaskID]kernel.Channel
	on      map[int32]kernel.TaskID
	now     kernel.Time
	expect  map[kernel.TaskID]bool // may lose its CPU to another
}

func (d *driver) check(s Scenario) {
	topo := d.k.Topology()
	if topo == nil || len(topo.Channels) == 0 {
		d.t.Fatal("no topology, or no channels in it")
	}
	usable, seen := 0, kernel.CPUSet{}
	for n, c := range topo.CPUs {
		for ch := range topo.Channels {
			if topo.Channels[ch].Has(int32(n)) {
				if seen.Has(int32(n)) {
					d.t.Errorf("CPU %d belongs to two channels", n)
				}
				seen.Add(int32(n))
				if !c.Agent {
					usable++
				}
			}
		}
	}
	if usable < s.CPUs {
		d.t.Fatalf("%d CPUs for tasks, the scenario wants %d", usable, s.CPUs)
	}
}

// poll takes one turn's messages; false when nothing is left.
func (d *driver) poll() (kernel.Channel, []kernel.Message, bool) {
	ch, msgs, err := d.k.Poll(nil, kernel.Forever)
	if errors.Is(err, kernel.ErrDone) {
		return -1, nil, false
	}
	if err != nil {
		d.t.Fatalf("poll: %v", err)
	}
	if ch < 0 || int(ch) >= len(d.k.Topology().Channels) {
		d.t.Fatalf("poll returned channel %d without a deadline", ch)
	}
	if now := d.k.Now(); now < d.now {
		d.t.Fatalf("the clock went back from %d to %d", d.now, now)
	} else {
		d.now = now
	}
	for _, m := range msgs {
		d.message(ch, m)
	}
	return ch, msgs, true
}

func (d *driver) message(ch kernel.Channel, m kernel.Message) {
	x := d.tasks[m.Task]
	if (x == nil) != (m.Type == kernel.TaskNew) {
		d.t.Fatalf("%v of task %v, which is known: %v", m.Type, m.Task, x != nil)
	}
	if x == nil {
		x = &known{cpu: kernel.NoCPU}
		d.tasks[m.Task] = x
		if d.channel == nil {
			d.channel = map[kernel.TaskID]kernel.Channel{}
		}
	} else {
		if m.Seq <= x.last.Seq || m.Time < x.last.Time || m.Runtime < x.last.Runtime || x.gone {
			d.t.Fatalf("%+v follows %+v", m, x.last)
		}
		if m.Time > d.now {
			d.t.Fatalf("%+v comes from the future: it is %d", m, d.now)
		}
	}
	d.channel[m.Task] = ch
	x.last = m
	off := func() {
		if x.cpu != kernel.NoCPU {
			if d.on[x.cpu] == m.Task {
				delete(d.on, x.cpu)
			}
			x.cpu = kernel.NoCPU
		}
	}
	switch m.Type {
	case kernel.TaskNew:
		x.runnable = m.Flags&kernel.FlagRunnable != 0
	case kernel.TaskWakeup:
		if x.runnable {
			d.t.Fatalf("task %v woke, and it was runnable", m.Task)
		}
		x.runnable = true
	case kernel.TaskBlocked:
		if !x.runnable || x.cpu == kernel.NoCPU {
			d.t.Fatalf("task %v blocked without having had a CPU", m.Task)
		}
		off()
		x.runnable = false
		x.blocked++
		return
	case kernel.TaskYield, kernel.TaskPreempt:
		if x.cpu == kernel.NoCPU {
			d.t.Fatalf("%v of task %v, which had no CPU", m.Type, m.Task)
		}
		switch {
		case m.Type == kernel.TaskYield:
			x.yielded++
		case m.Flags&kernel.FlagSlice != 0:
			x.sliced++
			if d.slice == kernel.Forever {
				d.t.Fatalf("task %v has used up a slice that never ends", m.Task)
			}
		default:
			x.replaced++
			if !d.expect[m.Task] {
				d.t.Fatalf("task %v lost its CPU to nobody", m.Task)
			}
		}
		off()
	case kernel.TaskDead, kernel.TaskDeparted:
		off()
		x.gone, x.runnable = true, false
		for i, q := range d.queue {
			if q == m.Task {
				d.queue = append(d.queue[:i], d.queue[i+1:]...)
				break
			}
		}
		return
	default:
		return
	}
	if x.runnable {
		d.queue = append(d.queue, m.Task)
	}
}

// act gives the channel's free CPUs to waiting tasks that it may speak for.
func (d *driver) act(ch kernel.Channel) {
	topo := d.k.Topology()
	var txns []kernel.Txn
	var rest []kernel.TaskID
	for _, id := range d.queue {
		n := int32(-1)
		for c := range topo.CPUs {
			taken := d.on[int32(c)] != 0
			for _, x := range txns {
				taken = taken || x.CPU == int32(c)
			}
			if !taken && !topo.CPUs[c].Agent && topo.Channels[ch].Has(int32(c)) && d.channel[id] == ch {
				n = int32(c)
				break
			}
		}
		if n < 0 {
			rest = append(rest, id)
			continue
		}
		txns = append(txns, kernel.Txn{Task: id, CPU: n, Barrier: d.tasks[id].last.Seq, Slice: d.slice})
	}
	d.queue = rest
	d.commit(ch, txns)
}

func (d *driver) commit(ch kernel.Channel, txns []kernel.Txn) {
	if err := d.k.Commit(ch, txns); err != nil {
		d.t.Fatalf("commit: %v", err)
	}
	for _, x := range txns {
		switch x.State {
		case kernel.StateDone:
			d.on[x.CPU], d.tasks[x.Task].cpu = x.Task, x.CPU
		case kernel.StatePending:
			d.t.Fatalf("%+v was not answered", x)
		default:
			d.queue = append(d.queue, x.Task)
		}
	}
}

func (d *driver) finish() {
	for range limit {
		ch, _, more := d.poll()
		if !more {
			return
		}
		d.act(ch)
	}
	d.t.Fatalf("the workload has not ended after %d turns", limit)
}

func lifecycle(t *testing.T, d *driver) {
	d.finish()
	for id, x := range d.tasks {
		if !x.gone || x.blocked < 2 || id.Generation() == 0 {
			t.Errorf("task %v: gone %v, blocked %d times", id, x.gone, x.blocked)
		}
		if x.last.Runtime < 3*200*kernel.Microsecond {
			t.Errorf("task %v used %d ns", id, x.last.Runtime)
		}
	}
}

func toTheEnd(t *testing.T, d *driver) {
	d.finish()
	if len(d.tasks) != 12 {
		t.Errorf("%d tasks were announced", len(d.tasks))
	}
	for id, x := range d.tasks {
		if !x.gone {
			t.Errorf("task %v is not gone", id)
		}
	}
}

func yields(t *testing.T, d *driver) {
	d.finish()
	for id, x := range d.tasks {
		if x.yielded < 2 {
			t.Errorf("task %v yielded %d times", id, x.yielded)
		}
	}
}

func slices(t *testing.T, d *driver) {
	d.slice = kernel.Millisecond
	d.finish()
	for id, x := range d.tasks {
		if x.sliced < 1 {
			t.Errorf("task %v used up %d slices", id, x.sliced)
		}
	}
}

// first polls until a task is runnable.
func (d *driver) first() (kernel.Channel, kernel.TaskID) {
	for range limit {
		ch, _, more := d.poll()
		if more && len(d.queue) > 0 {
			return ch, d.queue[0]
		}
	}
	d.t.Fatal("no task came")
	return 0, 0
}

func (d *driver) cpuOf(ch kernel.Channel) int32 {
	topo := d.k.Topology()
	for n := range topo.CPUs {
		if topo.Channels[ch].Has(int32(n)) && !topo.CPUs[n].Agent {
			return int32(n)
		}
	}
	d.t.Fatalf("channel %d has no CPU", ch)
	return -1
}

func (d *driver) outcome(ch kernel.Channel, x kernel.Txn) kernel.TxnState {
	txns := []kernel.Txn{x}
	if err := d.k.Commit(ch, txns); err != nil {
		d.t.Fatalf("commit: %v", err)
	}
	return txns[0].State
}

func stale(t *testing.T, d *driver) {
	ch, id := d.first()
	x := kernel.Txn{Task: id, CPU: d.cpuOf(ch), Barrier: d.tasks[id].last.Seq + 1, Slice: kernel.Forever}
	if got := d.outcome(ch, x); got != kernel.StateStale {
		t.Errorf("a barrier from the future: %v", got)
	}
	x.Barrier -= 2
	if got := d.outcome(ch, x); got != kernel.StateStale {
		t.Errorf("a barrier from the past: %v", got)
	}
	d.act(ch)
	d.finish()
}

func refusals(t *testing.T, d *driver) {
	ch, id := d.first()
	x := kernel.Txn{Task: id, CPU: int32(len(d.k.Topology().CPUs)), Barrier: d.tasks[id].last.Seq, Slice: kernel.Forever}
	if got := d.outcome(ch, x); got != kernel.StateInvalidCPU {
		t.Errorf("a CPU that is not there: %v", got)
	}
	x.CPU, x.Task = d.cpuOf(ch), kernel.MakeTaskID(id.Slot(), id.Generation()+1)
	if got := d.outcome(ch, x); got != kernel.StateNotFound {
		t.Errorf("another incarnation: %v", got)
	}
	d.act(ch)
	d.finish()
}

func replaced(t *testing.T, d *driver) {
	ch, _ := d.first()
	for len(d.queue) < 2 {
		if ch, _, _ = d.poll(); ch < 0 {
			t.Fatal("the second task did not come")
		}
	}
	a, b := d.queue[0], d.queue[1]
	if d.tasks[a].last.Task.Slot() > d.tasks[b].last.Task.Slot() {
		a, b = b, a
	}
	d.queue = nil
	n := d.cpuOf(ch)
	d.commit(ch, []kernel.Txn{{Task: a, CPU: n, Barrier: d.tasks[a].last.Seq, Slice: kernel.Forever}})
	if got := d.outcome(ch, kernel.Txn{Task: b, CPU: n, Barrier: d.tasks[b].last.Seq, Flags: kernel.TxnIdleOnly}); got != kernel.StateBusy {
		t.Errorf("idle only, on a busy CPU: %v", got)
	}
	d.expect = map[kernel.TaskID]bool{a: true}
	d.commit(ch, []kernel.Txn{{Task: b, CPU: n, Barrier: d.tasks[b].last.Seq, Slice: kernel.Forever}})
	d.finish()
	if d.tasks[a].replaced != 1 {
		t.Errorf("the victim was told %d times", d.tasks[a].replaced)
	}
}

// takenOff: a transaction with task zero takes a CPU's task off it, and nobody takes its place.
func takenOff(t *testing.T, d *driver) {
	ch, id := d.first()
	n := d.cpuOf(ch)
	if set := d.k.Affinity(id); !set.Has(n) {
		t.Errorf("task %v, which is pinned to no CPU, may not use CPU %d", id, n)
	}
	d.act(ch)
	d.expect = map[kernel.TaskID]bool{id: true}
	if got := d.outcome(ch, kernel.Txn{CPU: n}); got != kernel.StateDone {
		t.Errorf("taking the task off: %v", got)
	}
	if got := d.outcome(ch, kernel.Txn{CPU: n}); got != kernel.StateDone {
		t.Errorf("taking nothing off: %v", got)
	}
	d.finish()
	if x := d.tasks[id]; x.replaced != 1 || !x.gone {
		t.Errorf("the task was told %d times that it had lost its CPU, gone: %v", x.replaced, x.gone)
	}
}

// deadline: Poll comes back when it was told to, with nothing, and not before.
func deadline(t *testing.T, d *driver) {
	ch, _ := d.first()
	d.act(ch)
	until := d.k.Now() + 200*kernel.Microsecond
	ch, msgs, err := d.k.Poll(nil, until)
	if ch != -1 || len(msgs) != 0 || err != nil || d.k.Now() < until {
		t.Errorf("nothing happened until %d: channel %d, %d messages, %v at %d", until, ch, len(msgs), err, d.k.Now())
	}
	if ch, msgs, err := d.k.Poll(nil, until); ch != -1 || len(msgs) != 0 || err != nil {
		t.Errorf("a deadline that is over: channel %d, %d messages, %v", ch, len(msgs), err)
	}
	d.finish()
}

func closes(t *testing.T, d *driver) {
	d.first()
	if err := d.k.Close(); err != nil {
		t.Errorf("first close: %v", err)
	}
}
