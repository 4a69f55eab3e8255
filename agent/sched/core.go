package sched

import (
	"errors"
	"fmt"
	"math"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Config says how a core schedules. It does not change during a run.
type Config struct {
	Topology    *kernel.Topology
	Order       Order
	Preempt     bool        // wakeup preemption by key
	Events      Events      // what is asked
	Slice       kernel.Time // the common slice; kernel.Forever: until the task blocks
	AgeBound    kernel.Time // 0: one second
	Nominal     kernel.Time // expected burst before anything is known; 0: 100 µs
	SwitchCost  kernel.Time // of the machine: bounds slowdowns, see MinSlowdownBurst
	MaxInFlight int         // open decisions beyond which new ones are dropped; 0: 1024
	TTL         kernel.Time // time to live of an open decision; 0: one second
	Observer    Observer    // may be nil
}

// DefaultAgeBound is how long a task may wait before it goes first.
const DefaultAgeBound = kernel.Second

// MinSlowdownBurst is the shortest burst that a slowdown is measured against: five context switches, and a microsecond at
// least. The mean of 1/burst has no bound otherwise.
func MinSlowdownBurst(switchCost kernel.Time) kernel.Time {
	return max(5*switchCost, kernel.Microsecond)
}

func (c *Config) setDefaults() error {
	if c.Topology == nil || len(c.Topology.CPUs) == 0 || len(c.Topology.Channels) == 0 {
		return errors.New("sched: a topology with CPUs and channels is needed")
	}
	if c.Preempt && c.Order != ByKey {
		return errors.New("sched: wakeup preemption (+wp) needs a policy that gives keys; this one names slots")
	}
	if c.AgeBound == 0 {
		c.AgeBound = DefaultAgeBound
	}
	if c.Nominal == 0 {
		c.Nominal = 100 * kernel.Microsecond
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 1024
	}
	if c.TTL == 0 {
		c.TTL = kernel.Second
	}
	if c.Slice <= 0 || c.AgeBound < 0 || c.Nominal < 0 || c.MaxInFlight < 0 || c.TTL < 0 {
		return fmt.Errorf("sched: slice %d, age bound %d, nominal burst %d, in flight %d, time to live %d must be positive",
			c.Slice, c.AgeBound, c.Nominal, c.MaxInFlight, c.TTL)
	}
	return nil
}

// cpu is what the core knows of a CPU.
type cpu struct {
	task      int32 // that runs there, −1 if none
	queue     int32 // that feeds it, −1 if it is the agent's own
	available bool
}

// Core is the scheduler's state. It is used by one goroutine.
type Core struct {
	cfg     Config
	view    View
	tasks   []Task
	queues  []queue
	cpus    []cpu
	stats   Stats
	fates   Fates
	refused [kernel.NumStates]uint64

	now     Time
	channel kernel.Channel
	turn    uint64
	serial  uint64
	nextID  uint64
	nextCPU int // of new tasks, in turn

	pending  []int32 // tasks that this turn must place, in message order
	batch    []Decision
	assign   []int32 // tasks that were given to another channel's queue
	trivials []int32
	inTurn   bool    // between its first event and Settle
	granted  []grant // what Act wrote, for Settle
	flight   flight

	minBurst float64 // ns
	lnSlice  float64
	nBusy    int
	nCPUs    int

	// integrals over time of sums over waiting tasks
	integralAt Time
	waiting    int
	urgency    float64
	waitSum    float64 // ns × tasks
	slowSum    float64 // ns × tasks / ns of expected burst
}

// New makes a core.
func New(cfg Config) (*Core, error) {
	c := &Core{}
	return c, c.Reset(cfg)
}

// Reset makes the core new, keeping its memory.
func (c *Core) Reset(cfg Config) error {
	if err := cfg.setDefaults(); err != nil {
		return err
	}
	topo := cfg.Topology
	*c = Core{
		cfg: cfg, tasks: c.tasks[:0], queues: c.queues[:0], cpus: c.cpus[:0], pending: c.pending[:0], batch: c.batch[:0],
		assign: c.assign[:0], trivials: c.trivials[:0], granted: c.granted[:0], flight: c.flight,
	}
	c.view.c = c
	c.flight.reset(cfg.MaxInFlight)
	c.stats.reset(cfg.Nominal)
	c.lnSlice = math.Log(float64(cfg.Slice))
	c.minBurst = float64(MinSlowdownBurst(cfg.SwitchCost))
	for range topo.CPUs {
		c.cpus = append(c.cpus, cpu{task: -1, queue: -1, available: true})
	}
	old := c.queues[:cap(c.queues)]
	for i := range topo.Channels {
		var q queue
		if i < len(old) {
			q = old[i]
		}
		q.reset(cfg.Order)
		q.cpus = q.cpus[:0]
		for n := range topo.CPUs {
			if topo.Channels[i].Has(int32(n)) && !topo.CPUs[n].Agent {
				q.cpus = append(q.cpus, int32(n))
				c.cpus[n].queue = int32(i)
			}
		}
		q.idle = len(q.cpus)
		c.nCPUs += len(q.cpus)
		c.queues = append(c.queues, q)
	}
	if c.nCPUs == 0 {
		return errors.New("sched: no CPU is left for tasks: the agent's own is the only one")
	}
	return nil
}

// Fates counts what became of decisions so far.
func (c *Core) Fates() *Fates { return &c.fates }

// Open is how many decisions have no fate yet.
func (c *Core) Open() int { return len(c.batch) - c.runningRows() + c.flight.open }

func (c *Core) runningRows() (n int) {
	for i := len(c.batch) - 1; i >= 0 && c.batch[i].Running; i-- {
		n++
	}
	return n
}

// Refused counts transactions by outcome.
func (c *Core) Refused() *[kernel.NumStates]uint64 { return &c.refused }

// Stats is what the machine has shown.
func (c *Core) Stats() *Stats { return &c.stats }

// View is what policies see. It follows the core.
func (c *Core) View() *View { return &c.view }

// Batch is the decisions of this turn, in message order; running tasks' rows come last, in CPU order.
func (c *Core) Batch() []Decision { return c.batch }

// NumTasks is the size of the table of tasks: indices below it may be asked of View.Task.
func (c *Core) NumTasks() int { return len(c.tasks) }

// Integrals are, up to now, the integral over time of the number of waiting tasks (ns), and of the sum over waiting tasks of
// 1/max(expected burst, MinSlowdownBurst) (a pure number). Waiting is Queued or Held or Pending, not OnCPU.
func (c *Core) Integrals(now Time) (wait, slowdown float64) {
	c.advance(now)
	return c.waitSum, c.slowSum
}

func (c *Core) advance(now Time) {
	if d := float64(now - c.integralAt); d > 0 {
		c.waitSum += d * float64(c.waiting)
		c.slowSum += d * c.urgency
		c.integralAt = now
	}
}

func (c *Core) startWaiting(t *Task) {
	c.waiting++
	c.urgency += t.urgency
	if late := float64(c.now - t.Since); late > 0 { // the message was under way
		c.waitSum += late
		c.slowSum += late * t.urgency
	}
}

func (c *Core) stopWaiting(t *Task, at Time) {
	c.waiting--
	c.urgency -= t.urgency
	if c.waiting == 0 {
		c.urgency = 0 // rounding must not pile up
	}
	if ahead := float64(at - c.now); ahead > 0 { // the switch still takes a while
		c.waitSum += ahead
		c.slowSum += ahead * t.urgency
	}
}

// Observe begins a turn of a channel's agent: it takes in the messages.
func (c *Core) Observe(ch kernel.Channel, now Time, msgs []kernel.Message) {
	c.advance(now)
	c.now, c.view.Now, c.channel = now, now, ch
	c.turn++
	c.inTurn = true
	c.pending, c.batch, c.assign = c.pending[:0], c.batch[:0], c.assign[:0]
	for i := range msgs {
		c.message(&msgs[i])
	}
}

// OpenBatch opens the decisions of the tasks that Observe left without a place. Affinities of new tasks are set before.
func (c *Core) OpenBatch() {
	if len(c.pending) > 0 {
		c.openBatch()
	}
}

func (c *Core) lookup(m *kernel.Message) *Task {
	slot := m.Task.Slot()
	if int(slot) >= len(c.tasks) || c.tasks[slot].ID != m.Task || c.tasks[slot].State == Gone {
		return nil
	}
	return &c.tasks[slot]
}

func (c *Core) message(m *kernel.Message) {
	switch m.Type {
	case kernel.CPUAvailable, kernel.CPUBusy:
		c.setAvailable(m.CPU, m.Type == kernel.CPUAvailable)
		return
	case kernel.TaskNew:
		c.enter(m)
		return
	}
	t := c.lookup(m)
	if t == nil {
		return // of a task that we never met or that has left
	}
	if d := m.Runtime - t.Runtime; d > 0 {
		t.VRuntime += float64(d) * 1024 / t.Weight
		t.Runtime = m.Runtime
		if t.State == OnCPU { // a message that does not end its stay: what it has run since is counted from here
			t.Start = max(t.Start, m.Time)
		}
	}
	t.Seq = m.Seq
	switch m.Type {
	case kernel.TaskWakeup:
		if t.State == Blocked {
			c.wake(t, m.Time, ReasonWakeup)
		}
	case kernel.TaskBlocked:
		c.off(t, m.Time)
		c.endBurst(t, m.Time)
		t.State = Blocked
	case kernel.TaskYield, kernel.TaskPreempt:
		if t.State == OnCPU || t.State == Displaced {
			c.off(t, m.Time)
			t.Since = m.Time
			if m.Type == kernel.TaskPreempt {
				t.Preempted = true
				c.await(t, ReasonPreempt)
			} else {
				c.await(t, ReasonYield)
			}
		}
	case kernel.TaskDeparted, kernel.TaskDead:
		c.off(t, m.Time)
		c.endBurst(t, m.Time)
		c.supersede(t)
		t.State = Gone
	case kernel.TaskPriority:
		t.Nice, t.Weight = m.Nice, WeightOf(m.Nice)
	}
}

func (c *Core) enter(m *kernel.Message) {
	slot := int(m.Task.Slot())
	for len(c.tasks) <= slot {
		c.tasks = append(c.tasks, Task{State: Gone, older: -1, younger: -1, CPU: kernel.NoCPU, Queue: -1})
	}
	t := &c.tasks[slot]
	if t.ID == m.Task && t.State != Gone {
		return // known already, as when it is discovered anew
	}
	if t.State != Gone { // the slot is used again, and the news of its last owner's end comes through another channel
		c.off(t, m.Time)
		c.supersede(t)
	}
	*t = Task{
		ID: m.Task, Seq: m.Seq, State: Blocked, Nice: m.Nice, CPU: kernel.NoCPU, Queue: -1, channel: int32(c.channel),
		Runtime: m.Runtime, Weight: WeightOf(m.Nice), Asleep: m.Time, slot: uint32(slot), older: -1, younger: -1,
	}
	if m.Flags&kernel.FlagRunnable != 0 {
		c.wake(t, m.Time, ReasonNew)
	}
}

// SetAffinity tells which CPUs a task may use. The driver calls it between
// Observe and OpenBatch for messages with FlagPinned.
func (c *Core) SetAffinity(task kernel.TaskID, set kernel.CPUSet) {
	slot := task.Slot()
	if int(slot) >= len(c.tasks) || c.tasks[slot].ID != task {
		return
	}
	t := &c.tasks[slot]
	was := t.pinned
	t.allowed, t.pinned = set, false
	for _, q := range c.queues {
		for _, n := range q.cpus {
			if !set.Has(n) {
				t.pinned = true
			}
		}
	}
	if t.State == Queued && was != t.pinned {
		if t.pinned {
			c.queues[t.Queue].pinned++
		} else {
			c.queues[t.Queue].pinned--
		}
	}
}

func (c *Core) wake(t *Task, at Time, why Reason) {
	if t.Bursts > 0 {
		t.LnSleep += (lnSpan(at-t.Asleep) - t.LnSleep) / 5
		if t.Bursts == 1 {
			t.LnSleep = lnSpan(at - t.Asleep)
		}
	}
	t.Woken, t.Since, t.base, t.Waited, t.Preempted, t.ran = at, at, t.Runtime, 0, false, false
	switch {
	case t.Bursts > 0:
		t.Expect = t.MeanBurst
	case c.stats.Bursts > 0:
		t.Expect = c.stats.Ref
	default:
		t.Expect = float64(c.cfg.Nominal)
	}
	t.urgency = 1 / max(t.Expect, c.minBurst)
	c.await(t, why)
}

// await puts a runnable task off CPU among those that this turn must place.
func (c *Core) await(t *Task, why Reason) {
	c.serial++
	t.State, t.Reason, t.serial = Pending, why, c.serial
	c.startWaiting(t)
	c.pending = append(c.pending, int32(t.slot))
}

// off takes a task from its CPU at the instant given, or out of its queue, or out of the batch.
func (c *Core) off(t *Task, at Time) {
	switch t.State {
	case OnCPU:
		c.leaveCPU(t)
		c.retract(t, at)
	case Displaced:
		c.retract(t, at)
	case Queued:
		q := &c.queues[t.Queue]
		if i := q.find(int32(t.slot)); i >= 0 {
			q.remove(i)
		}
		c.unlink(q, t)
		c.stopWaiting(t, c.now)
	case Pending:
		for i, x := range c.pending {
			if x == int32(t.slot) {
				c.pending = append(c.pending[:i], c.pending[i+1:]...)
				break
			}
		}
		c.stopWaiting(t, c.now)
	case Held:
		c.flight.release(t)
		c.stopWaiting(t, c.now)
	}
	t.Safe = false
}

// retract takes back the wait that was counted up to the end of a switch if the task lost its CPU before.
func (c *Core) retract(t *Task, at Time) {
	if d := t.Start - at; d > 0 {
		t.Waited -= d
		c.waitSum -= float64(d)
		c.slowSum -= float64(d) * t.urgency
	}
}

func (c *Core) leaveCPU(t *Task) {
	p := &c.cpus[t.CPU]
	if p.task == int32(t.slot) {
		c.vacate(t.CPU)
	}
}

func (c *Core) vacate(n int32) {
	p := &c.cpus[n]
	p.task = -1
	q := &c.queues[p.queue]
	q.running--
	c.nBusy--
	if p.available {
		q.idle++
	}
}

func (c *Core) occupy(n int32, task int32) {
	p := &c.cpus[n]
	q := &c.queues[p.queue]
	if p.task < 0 {
		q.running++
		c.nBusy++
		if p.available {
			q.idle--
		}
	}
	p.task = task
}

func (c *Core) setAvailable(n int32, yes bool) {
	if n < 0 || int(n) >= len(c.cpus) || c.cpus[n].queue < 0 || c.cpus[n].available == yes {
		return
	}
	p := &c.cpus[n]
	p.available = yes
	if p.task < 0 {
		if yes {
			c.queues[p.queue].idle++
		} else {
			c.queues[p.queue].idle--
		}
	}
}

func (c *Core) endBurst(t *Task, at Time) {
	if t.State == Blocked || t.State == Gone {
		return
	}
	burst := t.Runtime - t.base
	t.Asleep = at
	if !t.ran && burst == 0 {
		return // it left without ever having had a CPU
	}
	ln := t.finishBurst(burst)
	c.stats.finishBurst(ln, burst, float64(c.nBusy)/float64(c.nCPUs))
	if c.cfg.Observer != nil {
		c.cfg.Observer.BurstEnded(t, at, burst)
	}
}

// OpenBurst is a burst that had not ended when a run did.
type OpenBurst struct {
	Task     *Task
	Response Time // since its wakeup
	Waited   Time // for a CPU, up to now
	Age      Time // waiting since it became runnable or last ran; 0 on CPU
}

// EachOpen calls f for every burst that has begun and not ended.
func (c *Core) EachOpen(now Time, f func(b OpenBurst)) {
	for i := range c.tasks {
		t := &c.tasks[i]
		switch t.State {
		case Gone, Blocked:
			continue
		case OnCPU, Displaced:
			f(OpenBurst{Task: t, Response: now - t.Woken, Waited: t.Waited - max(t.Start-now, 0)}) // the switch may end later
		default:
			f(OpenBurst{Task: t, Response: now - t.Woken, Waited: t.Waited + now - t.Since, Age: now - t.Since})
		}
	}
}
