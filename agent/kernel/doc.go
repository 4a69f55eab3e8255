// Package kernel is the seam between an agent and a kernel that lets user space schedule: what a delegated kernel can tell
// us and what it can be told. It has no implementation and imports nothing of ours.
//
// # The rules every backend keeps
//
//   - Messages of one task are in order and their sequence numbers grow. Between tasks there is order only within a channel.
//   - A task's sequence number also grows with events that are never delivered. A transaction whose Barrier is not the
//     task's sequence number is refused (StateStale): nobody can act on old news.
//   - A task is runnable and off CPU after TaskNew with FlagRunnable, TaskWakeup, TaskYield and TaskPreempt, and stays where it
//     is until a transaction moves it. A CPU whose task left it is idle until a transaction fills it.
//   - TaskPreempt means that the task really lost its CPU to somebody else or to its slice. An agent that only pauses the task
//     of its own CPU while it thinks (PerCPU) does not show: the backend lets that task go on.
//   - Slice is the kernel's business. A backend without timers checks it in Poll, no coarser than it can say when opened.
//   - Latched is not running: StateDone promises that the task gets the CPU, At says when, and if something comes between, the
//     task comes back as TaskPreempt.
//
// # How the backends meet each method
//
//	            simulator (sim)           threads parked on futexes      sched_ext                        ghOSt
//	Topology    from the configuration    sysfs, the enclave's CPUs      sysfs; one channel (Global)      cpulist; a channel per queue
//	Now         the event clock           CLOCK_MONOTONIC                CLOCK_MONOTONIC = the kernel's   CLOCK_MONOTONIC
//	                                                                     ktime of the records
//	Poll        advances the clock to     spins on the ring's head for   epoll on a BPF ring buffer;      reads the agent barrier, drains
//	            the next message or       a bounded time, then futex;    enqueue → Wakeup, Yield or       the queue; per CPU RUN(NULL)
//	            until                     checks slices, sets preempt    Preempt by the preceding         sleeps; slices from timer
//	                                      flags                          stopping; quiescent → Blocked    messages or ticks; overflow →
//	                                      head−tail > size → LostError   drop counter → LostError         LostError
//	Commit      checks, then schedules    compares the status word's     fills a shared array, runs a     opens a txn page per CPU, one
//	            the switch                sequence number, writes the    syscall program: move from the   COMMIT_TXN with
//	                                      grant, wakes the thread's      holding queue to the CPU's local COMMIT_AT_TXN_COMMIT;
//	                                      futex                          queue; status per entry          state word per entry
//	Task 0      takes the task off        sets the preempt flag,         kick with PREEMPT                transaction with gtid 0
//	                                      then the signal
//	Assign      wakes the other channel   wakes the other agent          no effect: one channel           ASSOC_QUEUE, then ping
//	Slice       a timer of the machine    flag polled by bursts, signal  slice of the inserted task       CPU_TIMER or CPU_TICK, then a
//	                                      for those that do not poll                                      transaction with gtid 0
//	Affinity    from the workload         the status word                cpus_ptr mirrored by set_cpumask sched_getaffinity of the task
//	Close       ends the run              releases every parked thread   detaches: tasks fall to the      agent_online closed, agents
//	                                                                     fair class                       leave, or enclave destroyed
//
// How their refusals translate:
//
//	StateStale        sim, gate: sequence number; sched_ext −ESTALE; ghOSt TARGET_STALE, AGENT_STALE
//	StateNotFound     sched_ext −ESRCH; ghOSt TARGET_NOT_FOUND
//	StateNotRunnable  sched_ext −EAGAIN (its message may overtake the insertion: the backend tries once more); ghOSt TARGET_NOT_RUNNABLE
//	StateOnCPU        ghOSt TARGET_ONCPU: messages of leaving a CPU precede the switch; the backend waits for the bit to clear
//	StateBusy         ghOSt DO_NOT_PREEMPT; others test the CPU first
//	StateUnavailable  gate: CPU given up; ghOSt CPU_UNAVAIL, CPU_OFFLINE, NO_AGENT
//	StateInvalidCPU   sched_ext −EINVAL (tested before the kernel would eject the scheduler); ghOSt INVALID_CPU; ghOSt itself
//	                  does not check affinity, so the backend does
//
// Slots of TaskID: the gate and ghOSt use the index of the status word, sched_ext an index handed out by its BPF program;
// the generation counts reuses of that index. A backend that restarts (a second agent attaches) sends TaskNew for what it
// finds, in the order of their slots.
package kernel
