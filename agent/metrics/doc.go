// Package metrics turns what the scheduling core reports into figures: one Collector for the environment's info, a program's
// summary, and comparisons.
//
// # What is counted
//
// A burst is what a task does between a wakeup and its next wait or exit. Response is the time from its beginning to its end; wait
// is the part of it that the task spent runnable without a CPU, whatever the reason (queued, held back, being asked about, or
// its switch under way). Time blocked is not wait. All of it is integer nanoseconds until it is reported.
//
// A run covers [0, T); a window [0, Config.Warmup) is left out of means, percentiles, maxima and counts, but not of fates. A burst
// counts when it ends outside that window, wherever it began. Bursts that are still open at T count too, with what they have
// suffered until then: a policy must not be able to improve its figures by never finishing what goes badly. Figures.Censored
// is how many they were.
//
//   - Wait of an open burst is its wait so far.
//   - Wakeup latency is the wait before the first dispatch of a burst. One that never ran counts its wait so far, a lower bound.
//   - Slowdown is response / max(burst, 5 switch costs, 1 µs): Feitelson's bounded slowdown (Feitelson and others, Theory and Practice
//     in Parallel Job Scheduling, 1997), where the bound keeps bursts shorter than what it costs to switch from owning the mean. An
//     open burst counts if its response already exceeds its length, as far as that is known: else it may still turn out well.
//   - Age is one uninterrupted wait.
//   - A switch is a dispatch that gives a CPU to another task than it had before. The first task of a CPU is none, nor is a task
//     that goes on where it was, after a slice or after the CPU was idle.
//   - Turnaround is the time from a task's entry to the end of its last burst, over tasks that have left.
//   - Utilisation is CPU time used by tasks / (CPUs × time), agents' own CPUs excluded.
//
// None of this depends on how messages are gathered into turns.
//
// # Percentiles
//
// A percentile is the nearest rank: of n values in order, the one at ⌈p n⌉. It is read from a histogram with bins at most 1/128 wide
// relative to their values, as their upper edge, and never exceeds the greatest value seen. It is null (NaN in Go) of nothing. It is named in
// Figures.Few when fewer than ten values are expected beyond it.
package metrics
