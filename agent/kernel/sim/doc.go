// Package sim is a deterministic discrete-event machine that behaves as a kernel with delegated scheduling, in ghOSt's terms:
// messages with sequence numbers, transactions with barriers that can be refused, task states, and costs by profile.
//
// # Time
//
// Poll alone lets time pass. Everything that happens at one instant happens before any agent begins to read at that instant: ends of
// runs and slices first, in CPU order, then timers, then arrivals, each in the order in which they were asked for. Nothing happens at or
// after the horizon. Equal configurations give equal runs.
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
// stale. Its transactions take effect one after the other, each after the cost of a commit, after what Charge added for thinking.
//
//   - Inline: the scheduler runs inside the switch. Each CPU thinks for itself: thinking delays the commits of that turn alone.
//   - PerCPU: the agent's thread takes its own CPU while it reads, thinks and commits. The task there is paused, without a message,
//     and goes on afterwards, for the price of a switch, unless it was replaced. Waking the agent costs, too.
//   - Global: the agent spins on the machine's last CPU, which runs no tasks, and commits to the others: a commit costs, and the target
//     notices after the delay of an interrupt. The agent is a bottleneck: what it spends on one turn delays the next.
//
// A task that gets a CPU starts after the switch, if the CPU last ran another task (under PerCPU always, since the agent ran in
// between), and after the cost of a migration, if it last ran elsewhere. Its slice counts from there. Time of agents, switches and
// migrations is no CPU time of tasks. A replaced task leaves its CPU at once, although the newcomer may still be under way.
//
// # What is not modelled
//
// Caches beyond the migration cost, SMT, frequency, higher scheduling classes, ticks, priorities of agents over each other.
package sim
