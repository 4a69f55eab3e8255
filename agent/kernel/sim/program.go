package sim

import (
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// OpKind is what a simulated task does next.
type OpKind uint8

// What a task can do. All but OpRun take no CPU time of their own; those that block end the task's burst.
const (
	OpExit       OpKind = iota // leave for good
	OpRun                      // use the CPU for Time
	OpSleep                    // block for Time, and the machine's timer slack
	OpSleepUntil               // block until the instant Time, and the slack; passes at once if that is not in the future
	OpYield                    // give up the CPU, stay runnable
	OpLock                     // take mutex Ref, blocking while another holds it
	OpUnlock                   // release mutex Ref
	OpWait                     // wait for a signal on condition Ref; Mutex (if not None) is released meanwhile and taken again
	OpSignal                   // wake one waiter of condition Ref
	OpBroadcast                // wake all waiters of condition Ref
	OpBarrier                  // wait until as many tasks as barrier Ref counts have come
	OpPost                     // raise semaphore Ref, waking one waiter
	OpAcquire                  // take from semaphore Ref, blocking while it is zero
	OpSuspend                  // block until somebody resumes this task
	OpResume                   // wake task Ref (a slot) out of its suspend; without effect if it is not suspended
	OpNop                      // nothing: ask again
)

var opWords = [...]string{
	"exit", "run", "sleep", "sleep until", "yield", "lock", "unlock", "wait", "signal", "broadcast", "barrier", "post", "acquire",
	"suspend", "resume", "nop",
}

func (k OpKind) String() string {
	if int(k) < len(opWords) {
		return opWords[k]
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// None is the absent reference.
const None int32 = -1

// Op is one step of a task's program.
type Op struct {
	Time  kernel.Time
	Ref   int32
	Mutex int32
	Kind  OpKind
}

// Program drives one task. Next is called when the previous step is over: at a wakeup before the task is queued, so that the
// length of the burst is known to the machine (and to oracles), else on the CPU. It must draw randomness only from the
// task's own stream, so that every scheduler meets the same bursts. It must not allocate in steady state.
type Program interface {
	Next(m *Sim, self kernel.TaskID) Op
}

// Workload fills a machine with tasks.
type Workload interface {
	// Start creates the first tasks and synchronisation objects and asks for the first arrival, at time 0.
	Start(m *Sim)
	// Arrive is called at each instant that ArriveAt asked for; it spawns and asks for the next.
	Arrive(m *Sim)
}

// TaskSpec is what a new task brings with it.
type TaskSpec struct {
	Program Program
	Name    string         // for reports
	CPUs    *kernel.CPUSet // nil: every CPU
	Nice    int8
}
