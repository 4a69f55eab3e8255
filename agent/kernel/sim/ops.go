package sim

import (
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// object is something that tasks wait for.
type object struct {
	name    string
	kind    objectKind
	count   int           // semaphore: its value; barrier: how many have to come
	owner   kernel.TaskID // mutex: 0 if free
	waiters []waiter
	head    int // of waiters: those before it have been served
}

func (o *object) waiting() int { return len(o.waiters) - o.head }

// pop takes the first waiter.
func (o *object) pop() waiter {
	w := o.waiters[o.head]
	if o.head++; o.head == len(o.waiters) {
		o.waiters, o.head = o.waiters[:0], 0
	} else if o.head >= 64 && o.head > len(o.waiters)/2 {
		o.waiters, o.head = o.waiters[:copy(o.waiters, o.waiters[o.head:])], 0
	}
	return w
}

type waiter struct {
	slot  int32
	mutex int32 // condition: to be taken again
}

type objectKind uint8

const (
	noObject objectKind = iota
	mutex
	condition
	barrier
	semaphore
)

var kindNames = [...]string{"", "mutex", "condition", "barrier", "semaphore"}

func (m *Sim) newObject(o object) int32 {
	if m.nObj < len(m.objects) {
		o.waiters = m.objects[m.nObj].waiters[:0]
		m.objects[m.nObj] = o
	} else {
		m.objects = append(m.objects, o)
	}
	m.nObj++
	return int32(m.nObj - 1)
}

// NewMutex, NewCond, NewBarrier and NewSemaphore make what ops refer to. Waiters are served first come, first served; a mutex is
// handed from its owner to the first waiter. Whoever unlocks a mutex frees it; who exits with it keeps it for ever.
func (m *Sim) NewMutex(name string) int32 {
	return m.newObject(object{name: name, kind: mutex})
}

// NewCond makes a condition. A signal that nobody waits for is lost.
func (m *Sim) NewCond(name string) int32 { return m.newObject(object{name: name, kind: condition}) }

// NewBarrier makes a barrier for n tasks.
func (m *Sim) NewBarrier(name string, n int) int32 {
	return m.newObject(object{name: name, kind: barrier, count: n})
}

// NewSemaphore makes a semaphore with a value.
func (m *Sim) NewSemaphore(name string, value int) int32 {
	return m.newObject(object{name: name, kind: semaphore, count: value})
}

// opLimit bounds what a task may do at one instant.
const opLimit = 100000

// LivelockError is a program that goes on for ever while no time passes.
type LivelockError struct {
	Task string
	Op   OpKind // its last
	At   kernel.Time
}

func (e *LivelockError) Error() string {
	return fmt.Sprintf("sim: task %q did %d things at one instant, %d ns, the last a %v, and would go on for ever",
		e.Task, opLimit, e.At, e.Op)
}

// RefError is a program that names an object that is not there or not of the kind that the op wants.
type RefError struct {
	Task string
	Op   OpKind
	Ref  int32
}

func (e *RefError) Error() string {
	return fmt.Sprintf("sim: task %q: a %v refers to object %d, which is not of its kind", e.Task, e.Op, e.Ref)
}

// execute lets a task on its CPU do the things that take no time, up to its next run. It reports whether the task still has the CPU.
func (m *Sim) execute(slot int32) bool {
	for m.step(slot) {
		t := &m.tasks[slot]
		if t.begun { // what was under way is over
			op := t.spec.Program.Next(m, t.id)
			t = &m.tasks[slot] // Next may have spawned
			t.op = op
			if t.state != onCPU { // Next took the CPU away, by a change of affinity
				t.begun = false
				m.load(t)
				return false
			}
		}
		t.begun = true
		switch t.op.Kind {
		case OpRun:
			if t.op.Time > 0 {
				t.left = t.op.Time
				return true
			}
		case OpSleep:
			m.sleepUntil(slot, later(m.now, t.op.Time))
			m.block(slot)
			return false
		case OpSleepUntil:
			if t.op.Time > m.now {
				m.sleepUntil(slot, t.op.Time)
				m.block(slot)
				return false
			}
		case OpYield:
			m.leave(t.cpu)
			t.state, t.begun = ready, false
			m.ready++
			op := t.spec.Program.Next(m, t.id)
			t = &m.tasks[slot]
			t.op = op
			m.load(t)
			m.tell(slot, kernel.TaskYield, 0)
			return false
		case OpExit:
			m.exit(slot)
			return false
		case OpSuspend:
			m.block(slot)
			return false
		case OpResume:
			if r := t.op.Ref; r >= 0 && int(r) < len(m.tasks) && m.tasks[r].state == blocked && m.tasks[r].op.Kind == OpSuspend {
				m.wake(r)
			}
		case OpNop:
		default:
			if m.synchronise(slot) {
				m.block(slot)
				return false
			}
			if m.failure != nil {
				m.exit(slot)
				return false
			}
		}
	}
	m.exit(slot)
	return false
}

// step counts what a task does at one instant, and ends the run if that never stops.
func (m *Sim) step(slot int32) bool {
	t := &m.tasks[slot]
	if t.instant != m.now {
		t.instant, t.ops = m.now, 0
	}
	if t.ops++; t.ops > opLimit && m.failure == nil {
		m.failure = &LivelockError{t.spec.Name, t.op.Kind, m.now}
	}
	return m.failure == nil
}

func (m *Sim) block(slot int32) {
	t := &m.tasks[slot]
	m.leave(t.cpu)
	t.state = blocked
	m.tell(slot, kernel.TaskBlocked, 0)
}

func (m *Sim) exit(slot int32) {
	t := &m.tasks[slot]
	m.leave(t.cpu)
	m.tell(slot, kernel.TaskDead, 0)
	t.state = gone
	m.alive--
	m.stats.Finished++
}

// wants is the kind of object that an op refers to.
var wants = [OpNop + 1]objectKind{
	OpLock: mutex, OpUnlock: mutex, OpWait: condition, OpSignal: condition, OpBroadcast: condition, OpBarrier: barrier,
	OpPost: semaphore, OpAcquire: semaphore,
}

// synchronise does an op on an object and reports whether the task must wait.
func (m *Sim) synchronise(slot int32) bool {
	op := m.tasks[slot].op
	bad := op.Kind > OpNop || op.Ref < 0 || int(op.Ref) >= m.nObj || m.objects[op.Ref].kind != wants[op.Kind]
	if op.Kind == OpWait && op.Mutex != None {
		bad = bad || op.Mutex < 0 || int(op.Mutex) >= m.nObj || m.objects[op.Mutex].kind != mutex
	}
	if bad {
		m.failure = &RefError{m.tasks[slot].spec.Name, op.Kind, op.Ref}
		return false
	}
	o := &m.objects[op.Ref]
	switch op.Kind {
	case OpLock:
		if o.owner == 0 {
			o.owner = m.tasks[slot].id
			return false
		}
		o.waiters = append(o.waiters, waiter{slot, None})
		return true
	case OpUnlock:
		m.unlock(op.Ref)
	case OpWait:
		o.waiters = append(o.waiters, waiter{slot, op.Mutex})
		if op.Mutex != None {
			m.unlock(op.Mutex)
		}
		return true
	case OpSignal:
		if o.waiting() > 0 {
			m.signal(op.Ref)
		}
	case OpBroadcast:
		for range o.waiting() {
			m.signal(op.Ref)
		}
	case OpBarrier:
		if o.waiting()+1 < o.count {
			o.waiters = append(o.waiters, waiter{slot, None})
			return true
		}
		for range o.waiting() {
			m.signal(op.Ref)
		}
	case OpPost:
		if o.waiting() > 0 {
			m.signal(op.Ref)
		} else {
			o.count++
		}
	case OpAcquire:
		if o.count > 0 {
			o.count--
			return false
		}
		o.waiters = append(o.waiters, waiter{slot, None})
		return true
	}
	return false
}

func (m *Sim) unlock(ref int32) {
	o := &m.objects[ref]
	o.owner = 0
	if o.waiting() > 0 {
		o.owner = m.tasks[o.waiters[o.head].slot].id
		m.signal(ref)
	}
}

// signal serves the first waiter of an object: it wakes, or goes on to wait for the mutex that it gave up.
func (m *Sim) signal(ref int32) {
	o := &m.objects[ref]
	w := o.pop()
	if w.mutex != None {
		if l := &m.objects[w.mutex]; l.owner != 0 {
			l.waiters = append(l.waiters, waiter{w.slot, None})
			return
		}
		m.objects[w.mutex].owner = m.tasks[w.slot].id
	}
	m.wake(w.slot)
}

// Wait is a task that waits for somebody else.
type Wait struct {
	Task   string
	For    string // what it waits for
	Holder string // who has it, "" if that is nobody
}

func (w Wait) String() string {
	s := w.Task + " waits for " + w.For
	if w.Holder != "" {
		s += ", held by " + w.Holder
	}
	return s
}

// Waits tells which tasks wait for what, in the order of their slots: the report of a workload that blocks for ever.
func (m *Sim) Waits() []Wait {
	var all []Wait
	for slot := range m.tasks {
		t := &m.tasks[slot]
		if t.state != blocked {
			continue
		}
		w := Wait{Task: t.spec.Name}
		switch t.op.Kind {
		case OpSleep, OpSleepUntil:
			w.For = "a timer"
		case OpSuspend:
			w.For = "a resume"
		default:
			for i := range m.objects[:m.nObj] {
				o := &m.objects[i]
				for _, x := range o.waiters[o.head:] {
					if x.slot == int32(slot) {
						w.For = kindNames[o.kind] + " " + o.name
						if o.kind == mutex && o.owner != 0 {
							w.Holder = m.holder(o.owner)
						}
					}
				}
			}
		}
		all = append(all, w)
	}
	return all
}

// holder names the owner of a mutex.
func (m *Sim) holder(id kernel.TaskID) string {
	if t := m.lookup(id); t != nil {
		return t.spec.Name
	}
	return "a task that has exited"
}
