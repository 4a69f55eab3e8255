package sim

import (
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Poll implements kernel.Kernel. It lets time pass until a channel's agent has read its messages, or until the instant given, or the
// horizon. Everything that happens at one instant happens before any agent begins to read at that instant.
func (m *Sim) Poll(dst []kernel.Message, until kernel.Time) (kernel.Channel, []kernel.Message, error) {
	m.endTurn()
	limit := min(until, m.cfg.Horizon)
	for m.failure == nil && !m.ended {
		at, cpu := kernel.Forever, int32(-1)
		for n, t := range m.until {
			if t < at {
				at, cpu = t, int32(n)
			}
		}
		if len(m.events) > 0 && m.events[0].at < at {
			at, cpu = m.events[0].at, -1
		}
		reads, who := kernel.Forever, int32(-1)
		for i, t := range m.turns {
			if t < reads {
				reads, who = t, int32(i)
			}
		}
		next := min(at, reads)
		if next >= limit {
			if next == kernel.Forever && m.ready == 0 && m.idle() {
				return -1, dst, kernel.ErrDone
			}
			m.now = max(m.now, limit)
			return -1, dst, nil
		}
		m.now = max(m.now, next)
		m.stats.Events++
		switch {
		case at <= reads && cpu >= 0:
			m.cpuEvent(cpu)
		case at <= reads:
			if e := m.events.pop(); e.slot == arrival {
				if m.birth() {
					m.cfg.Workload.Arrive(m)
				}
			} else {
				m.wake(e.slot)
			}
		case m.chans[who].ready != reads:
			m.beginReading(who)
			if m.chans[who].ready == m.now { // reading costs nothing, and all else of this instant has happened
				return m.deliver(who, dst)
			}
		default:
			return m.deliver(who, dst)
		}
	}
	if m.failure != nil {
		return -1, dst, m.failure
	}
	return -1, dst, kernel.ErrDone
}

// beginReading pauses the agent's CPU, where the agent shares one, and settles when it will have read what is there now. What
// comes later waits for its next turn and makes its transactions stale.
func (m *Sim) beginReading(who int32) {
	ch, p := &m.chans[who], m.cfg.Profile
	ch.begin, ch.read = kernel.Forever, len(ch.msgs)
	cost := kernel.Time(ch.read) * p.Message
	if p.Model == kernel.PerCPU {
		if ch.busy < m.now { // it sleeps
			cost += p.Wake
		}
		if cost > 0 {
			m.pause(who)
		}
	}
	ch.ready = m.now + cost
	m.turns[who] = ch.ready
	m.stats.Agent += cost
}

func (m *Sim) deliver(who int32, dst []kernel.Message) (kernel.Channel, []kernel.Message, error) {
	ch := &m.chans[who]
	for i := range ch.msgs[:ch.read] {
		if x := &ch.msgs[i]; x.Type == kernel.TaskDead { // the slot is free when the agent knows, as with ghOSt's status words
			m.free = append(m.free, int32(x.Task.Slot()))
		}
	}
	dst = append(dst, ch.msgs[:ch.read]...)
	ch.msgs = ch.msgs[:copy(ch.msgs, ch.msgs[ch.read:])]
	ch.ready, ch.assigned, ch.inTurn, ch.busy = kernel.Forever, false, true, m.now
	m.turn, m.turns[who] = who, ch.begin
	return kernel.Channel(who), dst, nil
}

// enter begins a turn that no message began, if that agent's turn is not under way: it acts on a deadline of its own.
func (m *Sim) enter(who int32) {
	if m.turn == who {
		return
	}
	m.endTurn()
	ch, p := &m.chans[who], m.cfg.Profile
	asleep := ch.ready == kernel.Forever && ch.busy < m.now
	ch.inTurn, m.turn = true, who
	ch.busy = max(ch.busy, m.now)
	ch.called = ch.busy
	if p.Model == kernel.PerCPU {
		if asleep {
			ch.busy += p.Wake
			m.stats.Agent += p.Wake
		}
		m.pause(who)
	}
}

// endTurn lets the paused task of an agent's CPU go on and the agent read what has come meanwhile.
func (m *Sim) endTurn() {
	if m.turn < 0 {
		return
	}
	ch := &m.chans[m.turn]
	ch.inTurn, ch.charge = false, 0
	if m.cfg.Profile.Model != kernel.Inline { // an agent that was called away from its reading goes on with it
		if ch.begin != kernel.Forever {
			ch.begin = max(ch.begin, ch.busy)
		}
		if ch.ready != kernel.Forever {
			ch.ready += ch.busy - ch.called
		}
		m.turns[m.turn] = min(ch.ready, ch.begin)
	}
	if c := &m.cpus[m.turn]; c.paused && ch.ready == kernel.Forever {
		m.resume(m.turn, ch.busy)
	}
	if len(ch.msgs) > 0 || ch.assigned {
		m.rouse(m.turn, m.now)
	}
	m.turn = -1
}

// account charges a running task with the time since its start.
func (m *Sim) account(n int32) {
	d := m.running(n)
	if d == 0 {
		return
	}
	c := &m.cpus[n]
	t := &m.tasks[c.task]
	t.runtime += d
	c.busy += d
	m.stats.Busy += d
	if t.begun && t.op.Kind == OpRun {
		t.left -= d
	}
	if c.slice != kernel.Forever {
		c.slice -= d
	}
	c.start = m.now
}

func (m *Sim) pause(n int32) {
	if c := &m.cpus[n]; c.task >= 0 && !c.paused {
		m.account(n)
		c.paused = true
		m.until[n] = kernel.Forever
	}
}

// resume lets a paused task go on when its agent leaves the CPU: it has to be switched to.
func (m *Sim) resume(n int32, at kernel.Time) {
	c := &m.cpus[n]
	c.paused = false
	m.schedule(n, max(later(at, m.cfg.Profile.Switch), c.start))
}

// schedule makes a CPU's task run from an instant on.
func (m *Sim) schedule(n int32, at kernel.Time) {
	c := &m.cpus[n]
	t := &m.tasks[c.task]
	c.start = at
	run := kernel.Time(0)
	if t.begun && t.op.Kind == OpRun {
		run = t.left
	}
	m.until[n] = later(at, min(run, c.slice))
}

// leave takes the task off a CPU.
func (m *Sim) leave(n int32) {
	m.account(n)
	c := &m.cpus[n]
	c.task, c.paused = -1, false
	m.until[n] = kernel.Forever
}

// cpuEvent is the end of a run or of a slice.
func (m *Sim) cpuEvent(n int32) {
	m.account(n)
	c := &m.cpus[n]
	slot := c.task
	t := &m.tasks[slot]
	if t.op.Kind == OpRun && t.begun && t.left > 0 {
		m.sliceEnd(n)
		return
	}
	if !m.execute(slot) {
		return
	}
	if c := &m.cpus[n]; c.slice <= 0 {
		m.sliceEnd(n)
	} else {
		m.schedule(n, m.now)
	}
}

func (m *Sim) sliceEnd(n int32) {
	slot := m.cpus[n].task
	m.leave(n)
	m.tasks[slot].state = ready
	m.ready++
	m.stats.Preemptions++
	m.tell(slot, kernel.TaskPreempt, kernel.FlagSlice)
}

// wake makes a blocked task runnable and asks what it does next, so that the length of its burst is known.
func (m *Sim) wake(slot int32) {
	t := &m.tasks[slot]
	id := t.id
	t.state, t.begun = ready, false
	m.ready++
	op := t.spec.Program.Next(m, id)
	t = &m.tasks[slot] // Next may have spawned
	t.op = op
	m.load(t)
	m.tell(slot, kernel.TaskWakeup, 0)
}

// Commit implements kernel.Kernel.
func (m *Sim) Commit(who kernel.Channel, txns []kernel.Txn) error {
	if who < 0 || int(who) >= len(m.chans) {
		return fmt.Errorf("sim: commit by channel %d; there are %d", who, len(m.chans))
	}
	if len(txns) > 0 {
		m.enter(int32(who))
	}
	ch := &m.chans[who]
	for i := range txns {
		x := &txns[i]
		x.State, x.At = m.verdict(x), 0
		m.stats.Outcomes[x.State]++
		if x.State == kernel.StateDone {
			m.carryOut(who, ch, x)
		}
	}
	if p := m.cfg.Profile; p.Model == kernel.PerCPU {
		for i := range txns { // its own CPU is free when all is committed
			if x := &txns[i]; x.State == kernel.StateDone && x.Task != 0 && x.CPU == int32(who) && x.Flags&kernel.TxnAssign == 0 {
				x.At = max(x.At, ch.busy+p.Switch)
			}
		}
	}
	return m.failure
}

// verdict checks a transaction, in the order in which ghOSt does.
func (m *Sim) verdict(x *kernel.Txn) kernel.TxnState {
	if x.CPU < 0 || int(x.CPU) >= len(m.cpus) || m.topo.CPUs[x.CPU].Agent {
		return kernel.StateInvalidCPU
	}
	if x.Task == 0 && x.Flags&kernel.TxnAssign == 0 {
		return kernel.StateDone
	}
	t := m.lookup(x.Task)
	switch {
	case t == nil:
		return kernel.StateNotFound
	case t.seq != x.Barrier:
		return kernel.StateStale
	case t.state == blocked:
		return kernel.StateNotRunnable
	case x.Flags&kernel.TxnAssign != 0:
		if t.state == onCPU {
			return kernel.StateOnCPU
		}
	case t.state == onCPU && t.cpu != x.CPU:
		return kernel.StateOnCPU
	}
	if t.pinned && !t.allowed.Has(x.CPU) && x.Flags&kernel.TxnAssign == 0 {
		return kernel.StateInvalidCPU
	}
	if x.Flags&kernel.TxnIdleOnly != 0 && m.cpus[x.CPU].task >= 0 && m.cpus[x.CPU].task != int32(x.Task.Slot()) {
		return kernel.StateBusy
	}
	return kernel.StateDone
}

// carryOut does what a valid transaction asks, and charges for it.
func (m *Sim) carryOut(who kernel.Channel, ch *channel, x *kernel.Txn) {
	p, n := m.cfg.Profile, x.CPU
	target := m.cpus[n].channel
	local := target == int32(who) && p.Model != kernel.Global
	cost := p.CommitRemote
	if local {
		cost = p.CommitLocal
	}
	m.stats.Agent = later(m.stats.Agent, cost)
	at := later(later(m.now, ch.charge), cost)
	if p.Model != kernel.Inline { // one agent does one thing after the other; inline, each CPU thinks for itself
		ch.busy = later(ch.busy, cost)
		at = ch.busy
		if p.Model == kernel.PerCPU && cost > 0 { // also where reading was free
			m.pause(int32(who))
		}
	}
	if !local {
		at = later(at, p.IPI)
	}
	x.At = at
	if x.Flags&kernel.TxnAssign != 0 {
		t := m.lookup(x.Task)
		t.channel = target
		if target != int32(who) {
			t.from = at
			m.chans[target].assigned = true
			m.rouse(target, at)
		}
		return
	}
	c := &m.cpus[n]
	slice := x.Slice
	if slice <= 0 {
		slice = kernel.Forever
	}
	if p.Model == kernel.PerCPU && n != int32(who) { // the other agent leaves its CPU first
		at = max(at, m.chans[n].busy)
		if r := m.chans[n].ready; r != kernel.Forever {
			at = max(at, r)
		}
	}
	if c.task >= 0 && x.Task != 0 && c.task == int32(x.Task.Slot()) { // goes on, with a new slice from then on
		m.account(n)
		if c.paused {
			x.At, c.slice = max(later(at, p.Switch), c.start), slice
			return
		}
		x.At = max(at, c.start)
		c.slice = later(slice, x.At-c.start)
		m.schedule(n, c.start)
		return
	}
	if old := c.task; old >= 0 {
		m.leave(n)
		m.tasks[old].state = ready
		m.ready++
		m.stats.Replaced++
		m.tell(old, kernel.TaskPreempt, 0)
	}
	if x.Task == 0 {
		return
	}
	slot := int32(x.Task.Slot())
	t := &m.tasks[slot]
	at = max(at, t.from)
	if c.last != x.Task || p.Model == kernel.PerCPU { // after its agent even the same task has to be switched to
		at = later(at, p.Switch)
	}
	if c.last != x.Task {
		if c.last != 0 {
			m.stats.Switches++
		}
		c.last = x.Task
	}
	if t.cpu != n && t.cpu != kernel.NoCPU {
		at = later(at, p.Migrate)
		m.stats.Migrations++
	}
	t.state, t.cpu, t.channel = onCPU, n, target
	m.ready--
	c.task, c.slice = slot, slice
	m.schedule(n, at)
	if p.Model == kernel.PerCPU && (n == int32(who) || m.chans[n].ready != kernel.Forever) {
		m.pause(n) // the CPU's agent has it until its turn ends
	}
	x.At = at
}

// Charge makes a channel's agent think for a while: its next commits take effect that much later, and it is busy meanwhile.
func (m *Sim) Charge(who kernel.Channel, d kernel.Time) {
	if who < 0 || int(who) >= len(m.chans) || d <= 0 {
		return
	}
	m.enter(int32(who))
	m.stats.Agent = later(m.stats.Agent, d)
	switch ch := &m.chans[who]; m.cfg.Profile.Model {
	case kernel.Inline:
		ch.charge = later(ch.charge, d)
	case kernel.PerCPU:
		m.pause(int32(who))
		ch.busy = later(ch.busy, d)
	default:
		ch.busy = later(ch.busy, d)
	}
}

// Deadlocked reports whether tasks are left that wait for each other, and nothing will ever wake them.
func (m *Sim) Deadlocked() bool {
	if m.alive == 0 || m.ready > 0 || len(m.events) > 0 {
		return false
	}
	return m.idle()
}

// idle reports whether no CPU has a task.
func (m *Sim) idle() bool {
	for n := range m.cpus {
		if m.cpus[n].task >= 0 {
			return false
		}
	}
	return true
}
