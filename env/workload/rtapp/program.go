package rtapp

import (
	"math"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// Workload runs a file on a simulated machine: any number of episodes, on one machine at a time.
type Workload struct {
	Notes []string // what a reader of results must know

	code                                         []taskCode
	mutexes, conds, barriers, semaphores, timers table
	users                                        []int // of each barrier: how often events name it, times the instances

	// State of the episode.
	mutexIDs, condIDs, barrierIDs, semaphoreIDs []int32
	shared                                      []timer
	threads                                     []*thread // all that were ever made; the first used ones run or have run
	used                                        int
	forks                                       []int // by task
}

// timer is when a timer fires next.
type timer struct {
	next kernel.Time
	set  bool // it has been used
}

// Start implements sim.Workload.
func (w *Workload) Start(m *sim.Sim) {
	w.mutexIDs, w.condIDs, w.barrierIDs, w.semaphoreIDs = w.mutexIDs[:0], w.condIDs[:0], w.barrierIDs[:0], w.semaphoreIDs[:0]
	for _, name := range w.mutexes.names {
		w.mutexIDs = append(w.mutexIDs, m.NewMutex(name))
	}
	for _, name := range w.conds.names {
		w.condIDs = append(w.condIDs, m.NewCond(name))
	}
	for i, name := range w.barriers.names {
		users := w.users[i]
		if users == 0 { // it never opens
			users = math.MaxInt
		}
		w.barrierIDs = append(w.barrierIDs, m.NewBarrier(name, users))
	}
	for _, name := range w.semaphores.names {
		w.semaphoreIDs = append(w.semaphoreIDs, m.NewSemaphore(name, 0))
	}
	w.shared = append(w.shared[:0], make([]timer, len(w.timers.names))...)
	w.forks = append(w.forks[:0], make([]int, len(w.code))...)
	w.used = 0
	for i := range w.code {
		for _, name := range w.code[i].names {
			w.spawn(m, &w.code[i], name)
		}
	}
}

// Arrive implements sim.Workload: rt-app's threads start together, or are forked.
func (*Workload) Arrive(*sim.Sim) {}

func (w *Workload) spawn(m *sim.Sim, code *taskCode, name string) {
	if w.used == len(w.threads) {
		w.threads = append(w.threads, new(thread))
	}
	t := w.threads[w.used]
	w.used++
	*t = thread{w: w, code: code, own: append(t.own[:0], make([]timer, code.timers)...), fresh: true, entering: true, delay: code.Delay, nice: code.Nice}
	t.cpus = code.phases[0].cpus
	m.Spawn(sim.TaskSpec{Program: t, Name: name, CPUs: t.cpus, Nice: code.Nice})
}

// fork starts one more thread of a task, within the limits.
func (w *Workload) fork(m *sim.Sim, task int32) {
	if w.forks[task] < MaxForks && w.used < maxStarted {
		w.forks[task]++
		w.spawn(m, &w.code[task], w.code[task].Name)
	}
}

// thread is a running thread of a task.
type thread struct {
	w         *Workload
	code      *taskCode
	own       []timer
	cpus      *kernel.CPUSet // where it may run; nil: everywhere
	delay     kernel.Time    // still to be waited for
	asked     kernel.Time    // when it last asked for something that may block
	round     int64          // of the thread's loop
	turn      int64          // of the phase's loop
	phase     int
	pc        int
	row       int // steps since it last ran
	nice      int8
	entering  bool // the phase's turn is about to begin
	blocking  bool // the last step may have blocked
	displaced bool // it has yielded or moved since it last ran, so it may be without a CPU
	fresh     bool // it has not run since it last blocked
	used      bool // it has run in this turn of the phase
}

// all is the affinity of a thread that may run everywhere.
var all = kernel.CPUSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// Next implements sim.Program.
func (t *thread) Next(m *sim.Sim, self kernel.TaskID) sim.Op {
	if t.blocking {
		t.blocking = false
		t.fresh = t.fresh || m.Now() > t.asked
	}
	if t.delay > 0 {
		start := t.delay
		t.delay = 0
		return t.block(m, sim.Op{Kind: sim.OpSleepUntil, Time: start})
	}
	for {
		if t.entering {
			if t.round == t.code.Loop {
				return sim.Op{Kind: sim.OpExit}
			}
			t.enter(m, self)
		}
		ph := &t.code.phases[t.phase]
		if t.pc == len(ph.ops) {
			if !t.used {
				return t.run(upkeep)
			}
			t.leave(ph)
			continue
		}
		o := &ph.ops[t.pc]
		if o.code != opRun || o.time == 0 {
			if t.fresh || t.row == maxRow {
				return t.run(upkeep)
			}
			if t.displaced { // the next step waits for a CPU: it is to be asked then, lest waiting for one pass for a block
				t.displaced = false
				return sim.Op{Kind: sim.OpNop}
			}
			t.row++
		}
		t.pc++
		if next, ok := t.step(m, o); ok {
			return next
		}
	}
}

// run uses the CPU, as an event says or, for the upkeep, although none does.
func (t *thread) run(time kernel.Time) sim.Op {
	t.fresh, t.used, t.displaced, t.row = false, true, false, 0
	return sim.Op{Kind: sim.OpRun, Time: time}
}

// enter begins a turn of a phase.
func (t *thread) enter(m *sim.Sim, self kernel.TaskID) {
	ph := &t.code.phases[t.phase]
	t.entering, t.used, t.pc = false, false, 0
	if t.turn > 0 {
		return
	}
	if ph.cpus != t.cpus {
		t.cpus, t.displaced = ph.cpus, true
		if t.cpus == nil {
			m.SetAffinity(self, all)
		} else {
			m.SetAffinity(self, *t.cpus)
		}
	}
	if ph.setNice && ph.nice != t.nice {
		t.nice = ph.nice
		m.SetNice(self, ph.nice)
	}
}

// leave ends a turn of a phase.
func (t *thread) leave(ph *phaseCode) {
	t.entering = true
	if t.turn++; t.turn != ph.loop {
		return
	}
	t.turn = 0
	if t.phase++; t.phase == len(t.code.phases) {
		t.phase = 0
		t.round++
	}
}

// block remembers that an operation may block.
func (t *thread) block(m *sim.Sim, o sim.Op) sim.Op {
	t.blocking, t.asked = true, m.Now()
	return o
}

// step gives the machine's operation for one of the thread's, or none if that is done already.
func (t *thread) step(m *sim.Sim, o *op) (next sim.Op, ok bool) {
	w := t.w
	switch o.code {
	case opRun:
		if o.time == 0 {
			return next, false
		}
		return t.run(o.time), true
	case opSleep:
		if o.time == 0 {
			return next, false
		}
		return t.block(m, sim.Op{Kind: sim.OpSleep, Time: o.time}), true
	case opTimer:
		return t.timer(m, o)
	case opLock:
		return t.block(m, sim.Op{Kind: sim.OpLock, Ref: w.mutexIDs[o.ref]}), true
	case opUnlock:
		return sim.Op{Kind: sim.OpUnlock, Ref: w.mutexIDs[o.ref]}, true
	case opWait:
		mutex := sim.None
		if o.mutex != none {
			mutex = w.mutexIDs[o.mutex]
		}
		return t.block(m, sim.Op{Kind: sim.OpWait, Ref: w.condIDs[o.ref], Mutex: mutex}), true
	case opSignal:
		return sim.Op{Kind: sim.OpSignal, Ref: w.condIDs[o.ref]}, true
	case opBroadcast:
		return sim.Op{Kind: sim.OpBroadcast, Ref: w.condIDs[o.ref]}, true
	case opBarrier:
		return t.block(m, sim.Op{Kind: sim.OpBarrier, Ref: w.barrierIDs[o.ref]}), true
	case opFork:
		w.fork(m, o.ref)
		return next, false
	case opYield:
		t.displaced = true
		return sim.Op{Kind: sim.OpYield}, true
	case opPost:
		return sim.Op{Kind: sim.OpPost, Ref: w.semaphoreIDs[o.ref]}, true
	default:
		return t.block(m, sim.Op{Kind: sim.OpAcquire, Ref: w.semaphoreIDs[o.ref]}), true
	}
}

// timer waits for the end of the period that began when the timer fired last. A timer that is late fires at once; its next
// period begins now, or, if it is absolute, where it should have begun.
func (t *thread) timer(m *sim.Sim, o *op) (next sim.Op, ok bool) {
	var tm *timer
	if o.ref < 0 {
		tm = &t.own[-1-o.ref]
	} else {
		tm = &t.w.shared[o.ref]
	}
	if !tm.set {
		*tm = timer{next: t.code.Delay, set: true}
	}
	tm.next += o.time
	if now := m.Now(); now >= tm.next {
		if !o.absolute {
			tm.next = now
		}
		return next, false
	}
	return t.block(m, sim.Op{Kind: sim.OpSleepUntil, Time: tm.next}), true
}
