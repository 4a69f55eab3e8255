package sched

import (
	"math"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// State is where a task stands.
type State uint8

// States.
const (
	Gone      State = iota // the slot is unused
	Blocked                // waits for something else than a CPU
	Pending                // runnable, its decision is in this turn's batch
	Queued                 // waits in its queue
	Held                   // kept back until its decision is answered
	OnCPU                  // has a CPU, or was granted one
	Displaced              // lost its CPU to a transaction of ours; its preemption message is on the way
)

func (s State) String() string {
	return [...]string{"gone", "blocked", "pending", "queued", "held", "on-cpu", "displaced"}[s]
}

// Task is what the core knows of a task. Policies read it; only the core writes.
type Task struct {
	ID        kernel.TaskID
	Seq       uint32 // the last sequence number seen: the barrier of transactions
	State     State
	Reason    Reason // why it was enqueued last
	Nice      int8
	Preempted bool // since its wakeup it has lost a CPU while still runnable
	Safe      bool // dispatched by the age bound: not preempted at wakeups until it leaves the CPU
	pinned    bool
	ran       bool // it has had a CPU since its wakeup
	CPU       int32
	Queue     int32
	channel   int32

	Since   Time // runnable since, or last ran: its age counts from here
	Woken   Time // when its burst began
	Start   Time // on CPU since
	Runtime Time // CPU time in all, at the last message
	base    Time // Runtime when the burst began
	Waited  Time // of the burst so far
	Asleep  Time // when it blocked last
	Slice   Time // granted

	Key      float64
	VRuntime float64 // CPU time in ns weighted by 1024/Weight; comparable within a queue
	Weight   float64 // of its nice value: 1024 at 0, as in Linux
	Expect   float64 // expected burst in ns, frozen at its wakeup: the denominator of the slowdown reward
	urgency  float64 // 1/max(Expect, bound)

	Bursts    uint32  // finished bursts
	MeanBurst float64 // ns, moving average (1/5); meaningless without bursts
	LnBurst   float64 // moving average (1/5) of ln(burst in ns)
	LnDev     float64 // moving average (1/5) of |ln(burst) − LnBurst|
	LnLast    float64 // ln of the last burst
	LnSleep   float64 // moving average (1/5) of ln(sleep in ns)

	decision uint64 // the open decision, 0 if none
	serial   uint64 // order of becoming runnable: breaks ties, and tells one stay in the queue from the next
	batch    uint64 // the turn whose answer placed it, 0 if it was not asked
	older    int32  // list of waiting tasks by age
	younger  int32
	slot     uint32
	allowed  kernel.CPUSet
}

// Attained is the CPU time used in the current burst.
func (t *Task) Attained(now Time) Time {
	a := t.Runtime - t.base
	if t.State == OnCPU && now > t.Start {
		a += now - t.Start
	}
	return a
}

// weights of nice −20…19, as in Linux (kernel/sched/core.c, sched_prio_to_weight).
var weights = [40]float64{
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
	1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
	110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
}

// WeightOf is the share of CPU time that a nice value stands for, 1024 at 0.
func WeightOf(nice int8) float64 { return weights[min(max(int(nice)+20, 0), 39)] }

// minBurst is what bursts count as at least where their logarithm is taken: below it only the costs of switching show.
const minBurst = 500

func lnSpan(t Time) float64 { return math.Log(float64(max(t, minBurst))) }

// finishBurst folds a finished burst into the task's history.
func (t *Task) finishBurst(burst Time) (ln float64) {
	ln = lnSpan(burst)
	if t.Bursts == 0 {
		t.LnBurst, t.LnDev, t.MeanBurst = ln, 1, float64(burst)
	} else {
		t.LnDev += (math.Abs(ln-t.LnBurst) - t.LnDev) / 5
		t.LnBurst += (ln - t.LnBurst) / 5
		t.MeanBurst += (float64(burst) - t.MeanBurst) / 5
	}
	t.LnLast = ln
	t.Bursts++
	return ln
}
