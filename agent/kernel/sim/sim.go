package sim

import (
	"errors"
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Config describes a run. Equal configurations give equal runs.
type Config struct {
	Profile  *Profile
	CPUs     int         // Global: the agent takes the last of these
	Horizon  kernel.Time // the run covers [0, Horizon)
	Slack    kernel.Time // every sleep ends up to this much late, uniformly
	Seed     uint64
	Episode  uint64
	Workload Workload
}

func (c *Config) check() error {
	switch {
	case c.Profile == nil:
		return errors.New("sim: a profile is needed")
	case c.Workload == nil:
		return errors.New("sim: a workload is needed")
	case c.CPUs < 1 || c.CPUs > kernel.MaxCPUs:
		return fmt.Errorf("sim: %d CPUs are not between 1 and %d", c.CPUs, kernel.MaxCPUs)
	case c.CPUs < 2 && c.Profile.Model == kernel.Global:
		return fmt.Errorf("sim: profile %s keeps a CPU for its agent, so it needs 2 CPUs at least", c.Profile.Name)
	case c.Horizon <= 0:
		return fmt.Errorf("sim: horizon %d ns is not positive", c.Horizon)
	case c.Slack < 0:
		return fmt.Errorf("sim: timer slack %d ns is negative", c.Slack)
	}
	return c.Profile.check()
}

type taskState uint8

const (
	gone taskState = iota
	blocked
	ready // runnable, off CPU
	onCPU
)

type task struct {
	id      kernel.TaskID
	spec    TaskSpec
	op      Op // under way, or, while the task is off CPU, to be begun
	left    kernel.Time
	runtime kernel.Time
	instant kernel.Time // of its last op
	ops     int32       // how many it has begun at that instant
	slack   uint64      // random state of its timer slack
	seq     uint32
	cpu     int32 // on, or last on
	channel int32
	from    kernel.Time // when the agent that it was assigned to hears of it
	state   taskState
	begun   bool // op is under way: left counts
	allowed kernel.CPUSet
	pinned  bool
	index   uint64 // how many tasks had been spawned before it
}

type cpu struct {
	task    int32 // −1: none
	last    kernel.TaskID
	start   kernel.Time // the task makes progress from here on
	slice   kernel.Time // left at start
	busy    kernel.Time // CPU time that tasks have used here, up to start
	paused  bool        // its agent has the CPU
	channel int32
}

// channel is the stream of messages to one agent, and the agent's own time.
type channel struct {
	msgs   []kernel.Message
	read   int         // of msgs, that the turn under way has read
	ready  kernel.Time // when Poll may return it; Forever: never
	begin  kernel.Time // when the agent starts to read; Forever: it does not
	busy   kernel.Time // the agent is occupied until then
	charge kernel.Time // Inline: thinking in the turn under way
	called kernel.Time // when it left off reading to act on a deadline

	assigned bool // somebody assigned a task
	inTurn   bool
}

// Stats counts what a machine did.
type Stats struct {
	Events      uint64      // ends of bursts and slices, wakeups, arrivals, turns
	Switches    uint64      // to another task than the CPU ran last; a task that goes on is none
	Migrations  uint64      // a task goes on on another CPU; its first CPU is none
	Preemptions uint64      // by slices
	Replaced    uint64      // by transactions
	Busy        kernel.Time // CPU time of tasks, of all CPUs
	Agent       kernel.Time // time of agents
	Outcomes    [kernel.NumStates]uint64
	Spawned     uint64
	Finished    uint64
}

// Sim is the machine. It is used by one goroutine.
type Sim struct {
	cfg     Config
	topo    kernel.Topology
	workers kernel.CPUSet // the CPUs for tasks
	now     kernel.Time
	tasks   []task
	free    []int32
	cpus    []cpu
	until   []kernel.Time // when each CPU's task next does something
	chans   []channel
	turns   []kernel.Time // when each channel's agent next begins to read or has read
	events  events
	asked   uint64
	objects []object
	nObj    int
	stats   Stats
	ready   int // runnable tasks off CPU
	alive   int
	turn    int32 // channel whose turn is under way, −1
	births  int32 // arrivals and new tasks at the instant born
	born    kernel.Time
	failure error
	ended   bool
}

// New makes a machine at time 0, with the workload's first tasks in it.
func New(c Config) (*Sim, error) {
	m := &Sim{}
	return m, m.Reset(c)
}

// Reset makes the machine new, keeping its memory.
func (m *Sim) Reset(c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	for i := range m.objects {
		m.objects[i].waiters = m.objects[i].waiters[:0]
	}
	*m = Sim{
		tasks: m.tasks[:0], free: m.free[:0], cpus: m.cpus[:0], until: m.until[:0], chans: m.chans[:0], turns: m.turns[:0], events: m.events[:0],
		objects: m.objects, cfg: c, turn: -1,
		topo: kernel.Topology{Model: c.Profile.Model, CPUs: m.topo.CPUs[:0], Channels: m.topo.Channels[:0]},
	}
	old := m.chans[:cap(m.chans)]
	channels := 1
	if !c.Profile.Shared {
		channels = c.CPUs
	}
	for i := range channels {
		ch := channel{ready: kernel.Forever, begin: kernel.Forever}
		if i < len(old) {
			ch.msgs = old[i].msgs[:0]
		}
		m.chans = append(m.chans, ch)
		m.turns = append(m.turns, kernel.Forever)
		m.topo.Channels = append(m.topo.Channels, kernel.CPUSet{})
	}
	for n := range c.CPUs {
		agent := c.Profile.Model == kernel.Global && n == c.CPUs-1
		m.topo.CPUs = append(m.topo.CPUs, kernel.CPU{Core: int32(n), Agent: agent})
		ch := n % channels
		if !agent {
			m.topo.Channels[ch].Add(int32(n))
			m.workers.Add(int32(n))
		}
		m.cpus = append(m.cpus, cpu{task: -1, channel: int32(ch)})
		m.until = append(m.until, kernel.Forever)
	}
	c.Workload.Start(m)
	return m.failure
}

// Topology implements kernel.Kernel.
func (m *Sim) Topology() *kernel.Topology { return &m.topo }

// Now implements kernel.Kernel.
func (m *Sim) Now() kernel.Time { return m.now }

// Seed, Episode, CPUs and Horizon are the configuration's.
func (m *Sim) Seed() uint64         { return m.cfg.Seed }
func (m *Sim) Episode() uint64      { return m.cfg.Episode }
func (m *Sim) CPUs() int            { return m.cfg.CPUs }
func (m *Sim) Horizon() kernel.Time { return m.cfg.Horizon }

// Stats counts what the machine did so far, up to now.
func (m *Sim) Stats() Stats {
	s := m.stats
	for n := range m.cpus {
		s.Busy += m.running(int32(n))
	}
	return s
}

// CPUBusy is the CPU time that tasks have used on a CPU, up to now.
func (m *Sim) CPUBusy(n int32) kernel.Time {
	if n < 0 || int(n) >= len(m.cpus) {
		return 0
	}
	return m.cpus[n].busy + m.running(n)
}

// running is the CPU time that the task on a CPU has used since it was last accounted for.
func (m *Sim) running(n int32) kernel.Time {
	c := &m.cpus[n]
	if c.task < 0 || c.paused || m.now <= c.start {
		return 0
	}
	return m.now - c.start
}

// Close implements kernel.Kernel.
func (m *Sim) Close() error {
	m.ended = true
	return nil
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Stream gives the two seeds of a math/rand/v2 PCG that is a function of the run's seed and episode, a kind of stream and an index,
// and of nothing else: each is folded into the state by a multiply-xorshift finaliser before the next.
func (m *Sim) Stream(kind, index uint64) (s1, s2 uint64) {
	const golden = 0x9e3779b97f4a7c15
	x := mix(m.cfg.Seed + golden)
	x = mix(x ^ (m.cfg.Episode+1)*golden)
	x = mix(x ^ (kind+2)*golden)
	return mix(x ^ (index+3)*golden), mix(x + (index+5)*golden)
}

// slackStream is the machine's own kind of stream; workloads use others.
const slackStream = 1 << 63

// birthLimit bounds what may arrive at one instant.
const birthLimit = 1 << 20

// birth counts what arrives, and ends the run if that never stops at one instant.
func (m *Sim) birth() bool {
	if m.born != m.now {
		m.born, m.births = m.now, 0
	}
	if m.births++; m.births > birthLimit && m.failure == nil {
		m.failure = fmt.Errorf("sim: the workload has brought %d arrivals and tasks at one instant, %d ns", birthLimit, m.now)
	}
	return m.failure == nil
}

// Spawn puts a task into the machine. It is runnable at once, unless the first thing that it does is to wait for a timer or a
// resume. It is task zero, and there is none, once the machine has failed.
func (m *Sim) Spawn(s TaskSpec) kernel.TaskID {
	if !m.birth() {
		return 0
	}
	var slot int32
	if n := len(m.free); n > 0 {
		slot, m.free = m.free[n-1], m.free[:n-1]
	} else {
		slot = int32(len(m.tasks))
		m.tasks = append(m.tasks, task{})
	}
	t := &m.tasks[slot]
	generation := t.id.Generation() + 1
	*t = task{id: kernel.MakeTaskID(uint32(slot), generation), spec: s, cpu: kernel.NoCPU, state: blocked, index: m.stats.Spawned}
	t.slack, _ = m.Stream(slackStream, t.index)
	m.stats.Spawned++
	m.alive++
	if s.CPUs != nil {
		t.allowed, t.pinned = *s.CPUs, true
		m.checkAffinity(t)
	}
	id := t.id
	op := s.Program.Next(m, id) // may spawn in its turn: t is not to be used after this
	t = &m.tasks[slot]
	t.op, t.begun = op, false
	flags := kernel.MsgFlags(0)
	if t.pinned {
		flags |= kernel.FlagPinned
	}
	if !m.sleeps(slot) {
		t.state = ready
		m.ready++
		m.load(t)
		flags |= kernel.FlagRunnable
	}
	m.tell(slot, kernel.TaskNew, flags)
	return id
}

// sleeps begins a first op that only waits for a timer or somebody else, which needs no CPU.
func (m *Sim) sleeps(slot int32) bool {
	t := &m.tasks[slot]
	switch t.op.Kind {
	case OpSleep:
		m.sleepUntil(slot, later(m.now, t.op.Time))
	case OpSleepUntil:
		if t.op.Time <= m.now {
			return false
		}
		m.sleepUntil(slot, t.op.Time)
	case OpSuspend:
	default:
		return false
	}
	t.begun = true
	return true
}

// load makes the length of a burst that comes next known.
func (m *Sim) load(t *task) {
	t.left = 0
	if t.op.Kind == OpRun && t.op.Time > 0 {
		t.left, t.begun = t.op.Time, true
	}
}

// ArriveAt asks for a call of the workload's Arrive.
func (m *Sim) ArriveAt(at kernel.Time) {
	m.asked++
	m.events.push(event{at: max(at, m.now), rank: rankArrival | m.asked, slot: arrival})
}

func (m *Sim) sleepUntil(slot int32, at kernel.Time) {
	if m.cfg.Slack > 0 {
		t := &m.tasks[slot]
		t.slack += 0x9e3779b97f4a7c15
		at = later(at, kernel.Time(mix(t.slack)%uint64(m.cfg.Slack+1)))
	}
	m.asked++
	m.events.push(event{at: at, rank: rankTimer | m.asked, slot: slot})
}

// later is an instant some time after another: Forever at the latest, never before.
func later(at, d kernel.Time) kernel.Time {
	if d > kernel.Forever-at {
		return kernel.Forever
	}
	return at + max(d, 0)
}

// tell sends a task's message to the agent that it belongs to.
func (m *Sim) tell(slot int32, typ kernel.MsgType, flags kernel.MsgFlags) {
	t := &m.tasks[slot]
	if t.seq == 0 && typ != kernel.TaskNew {
		return // its program changes it before it is announced
	}
	t.seq++
	ch := &m.chans[t.channel]
	ch.msgs = append(ch.msgs, kernel.Message{
		Time: m.now, Runtime: t.runtime, Task: t.id, Seq: t.seq, CPU: t.cpu, Type: typ, Flags: flags, Nice: t.spec.Nice,
	})
	m.rouse(t.channel, m.now)
}

// rouse makes an agent begin to read at the instant given, or as soon as it is free.
func (m *Sim) rouse(who int32, at kernel.Time) {
	ch := &m.chans[who]
	if !ch.inTurn && ch.ready == kernel.Forever {
		ch.begin = min(ch.begin, max(at, ch.busy))
		m.turns[who] = ch.begin
	}
}

func (m *Sim) lookup(id kernel.TaskID) *task {
	if s := id.Slot(); int(s) < len(m.tasks) && m.tasks[s].id == id && m.tasks[s].state != gone {
		return &m.tasks[s]
	}
	return nil
}

// Affinity implements kernel.Kernel.
func (m *Sim) Affinity(id kernel.TaskID) kernel.CPUSet {
	if t := m.lookup(id); t != nil && t.pinned {
		return t.allowed
	}
	return kernel.CPUSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
}

// SetAffinity restricts a task to a set of CPUs. A running task is taken off a CPU that it may no longer use.
func (m *Sim) SetAffinity(id kernel.TaskID, set kernel.CPUSet) {
	t := m.lookup(id)
	if t == nil {
		return
	}
	t.allowed, t.pinned = set, true
	m.checkAffinity(t)
	slot := int32(id.Slot())
	if t.state == onCPU {
		m.account(t.cpu)
	}
	m.tell(slot, kernel.TaskAffinity, kernel.FlagPinned)
	if t.state == onCPU && !set.Has(t.cpu) {
		m.leave(t.cpu)
		t.state = ready
		m.ready++
		m.tell(slot, kernel.TaskPreempt, 0)
	}
}

// checkAffinity fails the machine if a task could never run.
func (m *Sim) checkAffinity(t *task) {
	for i, w := range m.workers {
		if t.allowed[i]&w != 0 {
			return
		}
	}
	if m.failure == nil {
		m.failure = fmt.Errorf("sim: task %q may use none of the CPUs that this machine has for tasks", t.spec.Name)
	}
}

// SetNice changes a task's nice value.
func (m *Sim) SetNice(id kernel.TaskID, nice int8) {
	if t := m.lookup(id); t != nil {
		t.spec.Nice = nice
		if t.state == onCPU {
			m.account(t.cpu)
		}
		m.tell(int32(id.Slot()), kernel.TaskPriority, 0)
	}
}

// BurstLeft is the CPU time that a task's current run still takes: what only an oracle knows.
func (m *Sim) BurstLeft(id kernel.TaskID) kernel.Time {
	t := m.lookup(id)
	if t == nil || !t.begun || t.op.Kind != OpRun {
		return 0
	}
	left := t.left
	if t.state == onCPU {
		left -= m.running(t.cpu)
	}
	return max(left, 0)
}

// TaskCPU is the CPU time that a task has used.
func (m *Sim) TaskCPU(id kernel.TaskID) kernel.Time {
	t := m.lookup(id)
	if t == nil {
		return 0
	}
	used := t.runtime
	if t.state == onCPU {
		used += m.running(t.cpu)
	}
	return used
}

// TaskName is what the task was spawned with.
func (m *Sim) TaskName(id kernel.TaskID) string {
	if s := id.Slot(); int(s) < len(m.tasks) {
		return m.tasks[s].spec.Name
	}
	return ""
}
