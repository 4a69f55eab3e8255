// Package sim is a deterministic discrete-event machine that behaves as a kernel with delegated scheduling, in ghOSt's terms:
// messages with sequence numbers, transactions with barriers that can be refused, task states, and costs by profile.
//
// # Time
//
// Poll alone lets time pass. Everything that happens at one instant happens before any agent begins to read at that instant: ends of
// runs and slices first, in CPU order, then timers, then arrivals, each in the order in which they were asked for; then agents, in the
// order of their channels. A slice that ends at the same instant as a run does not preempt a task that blocks, yields or exits
// there. Nothing happens at or after the horizon, but for the clock, which stops there. Equal configurations give equal runs.
//
// # Randomness
//
// Stream is a function of seed, episode, a kind and an index, and of nothing else. Workloads take one stream per task, so that the
// k-th burst of a task is the same under every scheduler; the machine's own stream, of timer slack, is another kind.
//
// # What agents cost
//
// An agent begins to read when a message comes, or as soon as it is free. It has read what was there after the profile's message cost
// for each, and Poll returns at that instant. What comes meanwhile waits for its next turn, and makes transactions about the same task
// stale. If it acts on a deadline of its own before it has read everything, it goes on reading afterwards. Its transactions take effect
// after the cost of a commit each (commit_local for a CPU of its own channel, commit_remote for others), after what Charge added for
// thinking, and on a CPU of another channel after an interrupt (ipi).
//
//   - Inline: the scheduler runs inside the switch. Each CPU thinks for itself: thinking delays the commits of that turn alone, no
//     commit waits for another, and tasks that run go on meanwhile, but for those that the turn replaces.
//   - PerCPU: the agent's thread takes its own CPU while it reads, thinks and commits, one thing after the other. The task there is
//     paused, without a message, and goes on afterwards, for the price of a switch, unless it was replaced. Waking the agent costs,
//     too (wake), if it sleeps: not when messages have come while it was busy. What another CPU's agent puts there starts after it.
//   - Global: the agent spins on the machine's last CPU, which runs no tasks, and commits to the others, one after the other: each
//     costs commit_remote, and the target notices after ipi. The agent is a bottleneck: what it spends on one turn delays the next.
//
// A task that gets a CPU starts after the switch, if it is not the one that the CPU ran last (under PerCPU always, since the agent ran
// in between), and after the cost of a migration, if it last ran elsewhere. Txn.At is that instant, as far as it is known then, and the
// slice counts from there. Time of agents, switches and migrations is no CPU time of tasks: Stats.Agent holds that of agents, whole
// turns included whose end lies ahead; that of switches and migrations is the rest. A replaced task leaves its CPU at once, although
// the newcomer may still be under way: so with wakeup preemption a CPU idles for as long as the agent thinks about who preempts.
//
// # Tasks
//
// What a task does next is asked when it wakes, yields or has come to the end of a step on its CPU, so the length of a burst is known
// as soon as it is queued. A slot is used again once the agent has read that its task is dead; its generation grows. A message tells
// the CPU time up to its own instant. Only a mutex has an owner, and the machine does not check that it is the owner who unlocks.
//
// # What is not modelled
//
// Caches beyond the migration cost, SMT, frequency, higher scheduling classes, ticks, priorities of agents over each other, lost
// messages, tasks that depart alive.
package sim
