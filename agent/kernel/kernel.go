package kernel

import (
	"errors"
	"fmt"
	"math"
)

// Time is an instant or a span in integer nanoseconds of the kernel's clock.
type Time int64

// Units of Time, and Forever: a slice that lasts until the task blocks, an instant that never comes.
const (
	Microsecond Time = 1e3
	Millisecond Time = 1e6
	Second      Time = 1e9
	Forever     Time = math.MaxInt64
)

// NoCPU stands where a CPU is not known.
const NoCPU int32 = -1

// TaskID names one incarnation of a task: a small dense slot, which the kernel reuses after TaskDead or TaskDeparted, and a
// generation that grows with each reuse. Zero is no task; a kernel's first generation is 1.
type TaskID uint64

// MakeTaskID joins slot and generation.
func MakeTaskID(slot, generation uint32) TaskID { return TaskID(generation)<<32 | TaskID(slot) }

// Slot is the index by which tables of tasks are addressed.
func (id TaskID) Slot() uint32 { return uint32(id) }

// Generation tells incarnations of one slot apart.
func (id TaskID) Generation() uint32 { return uint32(id >> 32) }

func (id TaskID) String() string { return fmt.Sprintf("%d#%d", id.Slot(), id.Generation()) }

// MsgType says what happened.
type MsgType uint8

// What a kernel reports. Task messages carry the task's sequence number after the event.
const (
	TaskNew      MsgType = iota + 1 // a task entered; FlagRunnable if it wants a CPU at once
	TaskWakeup                      // blocked → runnable
	TaskBlocked                     // left its CPU to wait
	TaskYield                       // left its CPU, still runnable, by its own wish
	TaskPreempt                     // left its CPU, still runnable: slice used up (FlagSlice), replaced, or taken by a higher class
	TaskDeparted                    // left the scheduler alive
	TaskDead                        // exited
	TaskAffinity                    // its set of CPUs changed: ask Affinity
	TaskPriority                    // its nice value changed
	CPUAvailable                    // the CPU may be used again
	CPUBusy                         // a higher class took the CPU
)

var msgNames = [...]string{"", "new", "wakeup", "blocked", "yield", "preempt", "departed", "dead", "affinity", "priority", "cpu-available", "cpu-busy"}

func (t MsgType) String() string {
	if int(t) < len(msgNames) && t > 0 {
		return msgNames[t]
	}
	return fmt.Sprintf("message(%d)", uint8(t))
}

// MsgFlags refine a message.
type MsgFlags uint8

// Refinements of a message.
const (
	FlagRunnable MsgFlags = 1 << iota // TaskNew: it wants a CPU now
	FlagSlice                         // TaskPreempt: it had used up its slice
	FlagPinned                        // TaskNew, TaskAffinity: it may not use every CPU, ask Affinity
)

// Message is one event. It is flat, so that a batch of them is one block of memory.
type Message struct {
	Time    Time   // when it happened
	Runtime Time   // CPU time the task has used in all, up to Time
	Task    TaskID // zero for CPU messages
	Seq     uint32 // the task's sequence number after the event; grows with every event, seen or not
	CPU     int32  // where it happened; for TaskWakeup where the task ran last; NoCPU if unknown
	Type    MsgType
	Flags   MsgFlags
	Nice    int8 // TaskNew, TaskPriority
}

// TxnFlags refine a transaction.
type TxnFlags uint8

// Refinements of a transaction.
const (
	// TxnAssign moves the task to the channel of CPU and wakes that channel's agent, without running the task.
	TxnAssign TxnFlags = 1 << iota
	// TxnIdleOnly refuses (StateBusy) instead of replacing a task that runs on CPU.
	TxnIdleOnly
)

// TxnState is a transaction's outcome.
type TxnState uint8

// Outcomes. Only StateDone changed anything.
const (
	StatePending     TxnState = iota // not answered yet
	StateDone                        // the task has the CPU, or gets it at Txn.At
	StateStale                       // Barrier is not the task's sequence number: decided on old news
	StateNotFound                    // no such task, or another incarnation
	StateNotRunnable                 // it is blocked
	StateOnCPU                       // it is running already, elsewhere
	StateBusy                        // TxnIdleOnly, and the CPU runs a task
	StateUnavailable                 // a higher class has the CPU, or it is offline
	StateInvalidCPU                  // no such CPU, not one of this enclave's, or not one the task may use
	numStates
)

// NumStates is the number of outcomes, for tables indexed by TxnState.
const NumStates = int(numStates)

var stateNames = [...]string{"pending", "done", "stale", "not-found", "not-runnable", "on-cpu", "busy", "unavailable", "invalid-cpu"}

func (s TxnState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Txn asks that a task run on a CPU. If another task of ours runs there it is replaced and comes back as TaskPreempt.
// Task zero takes the CPU's task off it and leaves the CPU idle.
type Txn struct {
	Task    TaskID
	Slice   Time   // the task comes back as TaskPreempt with FlagSlice after this much CPU time; Forever: never
	At      Time   // out: when the task has the CPU, as far as the kernel knows
	Barrier uint32 // the last sequence number seen for Task
	CPU     int32
	Flags   TxnFlags
	State   TxnState // out
}

// Channel numbers the streams of messages, one per agent: see Topology.Channels.
type Channel int32

// Model is who decides, where.
type Model uint8

// Execution models.
const (
	Inline Model = iota // the scheduler runs inside the switch on each CPU
	PerCPU              // one agent thread per CPU, woken by messages, pauses its CPU's task
	Global              // one agent spins on a CPU of its own and commits to the others
)

var modelNames = [...]string{"inline", "percpu", "global"}

func (m Model) String() string {
	if int(m) < len(modelNames) {
		return modelNames[m]
	}
	return fmt.Sprintf("model(%d)", uint8(m))
}

// Topology is what does not change while a kernel is open.
type Topology struct {
	Model    Model
	CPUs     []CPU    // indexed by CPU number
	Channels []CPUSet // the CPUs whose tasks speak through each channel; disjoint
	Tasks    int      // how many task slots there can be; 0: unknown, tables grow
}

// CPU is one logical processor.
type CPU struct {
	Core, LLC, Node int32 // ids of what it shares with others
	Agent           bool  // reserved for the agent itself: never a target of transactions
}

// CPUSet is a set of CPU numbers below MaxCPUs.
type CPUSet [4]uint64

// MaxCPUs bounds CPU numbers.
const MaxCPUs = 256

// Has reports whether cpu is in the set.
func (s *CPUSet) Has(cpu int32) bool {
	return uint32(cpu) < MaxCPUs && s[cpu>>6]&(1<<(uint(cpu)&63)) != 0
}

// Add puts cpu into the set; numbers outside [0, MaxCPUs) are ignored.
func (s *CPUSet) Add(cpu int32) {
	if uint32(cpu) < MaxCPUs {
		s[cpu>>6] |= 1 << (uint(cpu) & 63)
	}
}

// Kernel is the seam: all that an agent can be told and can do. See the package comment for how real kernels meet it.
//
// It is used by one goroutine. Slices passed in belong to the caller again when the call returns.
type Kernel interface {
	// Topology is fixed; the caller must not change it.
	Topology() *Topology
	// Now is the kernel's clock. It never goes backwards.
	Now() Time
	// Poll waits, at the longest until the instant given, for the earliest channel that has something to say and appends its
	// messages to dst, oldest first. A channel may be ready without a message: somebody assigned a task to it. At until it
	// returns (-1, dst, nil). ErrDone: nothing will ever happen again. Messages that were lost are reported as *LostError, once,
	// together with those that were not.
	Poll(dst []Message, until Time) (Channel, []Message, error)
	// Commit submits transactions of one channel's agent, in order, and fills in State and At. An error means that the kernel
	// itself failed; a refused transaction is no error.
	Commit(ch Channel, txns []Txn) error
	// Affinity is the set of CPUs that a task may use.
	Affinity(task TaskID) CPUSet
	// Close gives all tasks back to the machine's own scheduler and releases what was held. It may be called twice.
	Close() error
}

// ErrDone is Poll's answer when every task has left, or none can ever move again.
var ErrDone = errors.New("kernel: nothing left to schedule")

// LostError says that messages were lost: what is known of tasks may be wrong until they are discovered anew.
type LostError struct{ Count uint64 }

func (e *LostError) Error() string { return fmt.Sprintf("kernel: %d messages lost", e.Count) }

// ErrNotSupported is matched, with errors.Is, by every *NotSupportedError.
var ErrNotSupported = errors.New("not supported by this kernel")

// NotSupportedError says what a backend lacks; it is returned when the backend is opened, never later.
type NotSupportedError struct {
	Feature string
	Since   string // the first version that has it, "" if none has
}

func (e *NotSupportedError) Error() string {
	if e.Since == "" {
		return e.Feature + ": " + ErrNotSupported.Error()
	}
	return fmt.Sprintf("%s: %v (needs %s)", e.Feature, ErrNotSupported, e.Since)
}

// Is makes errors.Is(err, ErrNotSupported) true.
func (e *NotSupportedError) Is(target error) bool { return target == ErrNotSupported }
