package rtapp

import (
	"fmt"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// op is one step of a compiled phase.
type op struct {
	code     opcode
	absolute bool  // of a timer
	ref      int32 // what it acts on: an index into the table of its kind; a thread's own timers count down from -1
	mutex    int32 // index, or none
	time     kernel.Time
}

type opcode uint8

const (
	opRun opcode = iota
	opSleep
	opTimer
	opLock
	opUnlock
	opWait
	opSignal
	opBroadcast
	opBarrier
	opFork
	opYield
	opPost
	opAcquire
)

const none int32 = -1

// phaseCode is a compiled phase.
type phaseCode struct {
	ops     []op
	loop    int64
	cpus    *kernel.CPUSet // its own, else the task's; nil: all
	nice    int8
	setNice bool
}

// taskCode is a compiled task.
type taskCode struct {
	*Task
	phases []phaseCode
	names  []string // of the threads that start with the workload
	timers int      // of each thread's own
}

// table numbers names in order of appearance.
type table struct {
	names []string
	index map[string]int32
}

func (t *table) of(name string) int32 {
	if i, ok := t.index[name]; ok {
		return i
	}
	if t.index == nil {
		t.index = map[string]int32{}
	}
	i := int32(len(t.names))
	t.names = append(t.names, name)
	t.index[name] = i
	return i
}

// compiler translates names into numbers, task by task.
type compiler struct {
	*Workload
	tasks    map[string]int32
	locked   map[string]bool // mutexes that events name
	absolute map[timerKey]bool
	waited   map[string]bool // conditions
	woken    map[string]bool
	forked   map[string]bool
	forks    map[string]float64 // of a task that the file may ask for
	turns    float64            // of the phase, by all threads of the task
	task     *Task
	own      table // timers of the task's threads
	ops      []op
}

// Compile translates a file into a workload.
func (f *File) Compile() *Workload {
	c := compiler{
		Workload: &Workload{Notes: f.notes()}, tasks: map[string]int32{},
		locked: map[string]bool{}, absolute: map[timerKey]bool{}, waited: map[string]bool{}, woken: map[string]bool{},
		forked: map[string]bool{}, forks: map[string]float64{},
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if _, ok := c.tasks[t.Name]; !ok {
			c.tasks[t.Name] = int32(i)
		}
		for _, ph := range t.Phases {
			for k := range ph.Events {
				c.survey(t, &ph.Events[k])
			}
		}
	}
	for i := range f.Tasks {
		c.code = append(c.code, c.compile(&f.Tasks[i]))
	}
	c.noteForks(f)
	for i, name := range c.barriers.names {
		if c.users[i] == 0 {
			c.Notes = append(c.Notes, quote(name)+": only forked threads come to this barrier; rt-app does not count them, so they wait for ever")
		}
	}
	for _, name := range c.conds.names {
		if c.waited[name] && !c.woken[name] {
			c.Notes = append(c.Notes, quote(name)+": threads wait for it, and no event signals or resumes it")
		}
	}
	return c.Workload
}

// survey notes what has to be known of all events before one is translated.
func (c *compiler) survey(t *Task, e *Event) {
	switch e.Verb {
	case Lock, Unlock:
		c.locked[e.Ref] = true
	case Wait:
		c.locked[e.Mutex] = true
		c.waited[e.Ref] = true
	case Sync:
		c.locked[e.Mutex] = true
		c.waited[e.Ref], c.woken[e.Ref] = true, true
	case Suspend:
		c.waited[suspendName(t, e)] = true
	case Signal, Broad, Resume:
		c.woken[e.Ref] = true
	case Fork:
		c.forked[e.Ref] = true
	case Timer:
		if e.Absolute {
			c.absolute[timerOf(t, e)] = true
		}
	}
}

func suspendName(t *Task, e *Event) string {
	if e.Ref == "" {
		return t.Name
	}
	return e.Ref
}

// timerKey tells a thread's own timers, whose names begin with "unique", from those that all share and that have no task.
type timerKey struct {
	task *Task
	ref  string
}

func timerOf(t *Task, e *Event) timerKey {
	if ownTimer(e) {
		return timerKey{t, e.Ref}
	}
	return timerKey{nil, e.Ref}
}

func ownTimer(e *Event) bool { return strings.HasPrefix(e.Ref, "unique") }

func (c *compiler) compile(t *Task) taskCode {
	code := taskCode{Task: t}
	for j := range t.Instances {
		code.names = append(code.names, fmt.Sprintf("%s-%d", t.Name, j))
	}
	c.task, c.own = t, table{}
	for j := range t.Phases {
		ph := &t.Phases[j]
		c.ops, c.turns = nil, c.threads(t)*times(t.Loop)*times(ph.Loop)
		for k := range ph.Events {
			c.event(&ph.Events[k])
		}
		cpus := ph.CPUs
		if cpus == nil {
			cpus = t.CPUs
		}
		code.phases = append(code.phases, phaseCode{ops: c.ops, loop: ph.Loop, cpus: cpus, nice: ph.Nice, setNice: ph.SetNice})
	}
	code.timers = len(c.own.names)
	return code
}

// threads is how many of a task there may ever be.
func (c *compiler) threads(t *Task) float64 {
	if c.forked[t.Name] {
		return float64(t.Instances + MaxForks)
	}
	return float64(t.Instances)
}

// times is a loop's count, something very large for one without end.
func times(loop int64) float64 {
	if loop < 0 {
		return 1e18
	}
	return float64(loop)
}

// noteForks says which forks may be left out.
func (c *compiler) noteForks(f *File) {
	all := 0.
	for i := range f.Tasks {
		t := &f.Tasks[i]
		all += float64(t.Instances) + min(c.forks[t.Name], MaxForks)
		if c.forks[t.Name] > MaxForks {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: forked at most %d times in a run; rt-app gives up at one more, here it is left out", quote(t.Name), MaxForks))
		}
	}
	if all > maxStarted {
		c.Notes = append(c.Notes, fmt.Sprintf("at most %d threads start in a run; forks beyond that are left out", maxStarted))
	}
}

func (c *compiler) emit(o op) { c.ops = append(c.ops, o) }

func (c *compiler) event(e *Event) {
	switch e.Verb {
	case Run:
		c.emit(op{code: opRun, time: e.Time})
	case Sleep:
		c.emit(op{code: opSleep, time: e.Time})
	case IO:
		c.emit(op{code: opRun, time: e.Time})
		c.emit(op{code: opSleep, time: e.Wait})
	case Timer:
		o := op{code: opTimer, time: e.Time, absolute: c.absolute[timerOf(c.task, e)]}
		if ownTimer(e) {
			o.ref = -1 - c.own.of(e.Ref)
		} else {
			o.ref = c.timers.of(e.Ref)
		}
		c.emit(o)
	case Lock:
		c.emit(op{code: opLock, ref: c.mutexes.of(e.Ref)})
	case Unlock:
		c.emit(op{code: opUnlock, ref: c.mutexes.of(e.Ref)})
	case Wait:
		c.emit(op{code: opWait, ref: c.conds.of(e.Ref), mutex: c.mutexes.of(e.Mutex)})
	case Sync:
		c.emit(op{code: opSignal, ref: c.conds.of(e.Ref)})
		c.emit(op{code: opWait, ref: c.conds.of(e.Ref), mutex: c.mutexes.of(e.Mutex)})
	case Signal:
		c.emit(op{code: opSignal, ref: c.conds.of(e.Ref)})
	case Broad:
		c.emit(op{code: opBroadcast, ref: c.conds.of(e.Ref)})
	case Suspend:
		name := suspendName(c.task, e)
		c.guarded(name, op{code: opWait, ref: c.conds.of(name), mutex: none})
	case Resume:
		c.guarded(e.Ref, op{code: opBroadcast, ref: c.conds.of(e.Ref)})
	case Barrier:
		i := c.barriers.of(e.Ref)
		if int(i) == len(c.users) {
			c.users = append(c.users, 0)
		}
		c.users[i] += c.task.Instances
		c.emit(op{code: opBarrier, ref: i})
	case Fork:
		c.forks[e.Ref] += c.turns
		c.emit(op{code: opFork, ref: c.tasks[e.Ref]})
	case Yield:
		c.emit(op{code: opYield})
	case Post:
		c.emit(op{code: opPost, ref: c.semaphores.of(e.Ref)})
	case Acquire:
		c.emit(op{code: opAcquire, ref: c.semaphores.of(e.Ref)})
	}
}

// guarded suspends or resumes under the mutex that rt-app gives every condition of these two. It is held for no time, so it
// is left out unless the file itself locks a mutex of that name.
func (c *compiler) guarded(name string, o op) {
	if !c.locked[name] {
		c.emit(o)
		return
	}
	mutex := c.mutexes.of(name)
	if o.code == opWait {
		o.mutex = mutex
	}
	c.emit(op{code: opLock, ref: mutex})
	c.emit(o)
	c.emit(op{code: opUnlock, ref: mutex})
}

// notes are what a reader of results must know about the file.
func (f *File) notes() []string {
	var notes []string
	if len(f.NoEffect) > 0 {
		notes = append(notes, "keys without effect here: "+strings.Join(f.NoEffect, ", "))
	}
	notes = append(notes, f.Costs...)
	if f.foreignSuspend() {
		notes = append(notes, "suspend waits under the name it is given, as the tutorial says; rt-app since 2025 takes the thread's own name")
	}
	return notes
}

// foreignSuspend reports whether a thread suspends under a name that is not its own.
func (f *File) foreignSuspend() bool {
	for i := range f.Tasks {
		for _, ph := range f.Tasks[i].Phases {
			for k := range ph.Events {
				if e := &ph.Events[k]; e.Verb == Suspend && suspendName(&f.Tasks[i], e) != f.Tasks[i].Name {
					return true
				}
			}
		}
	}
	return false
}
