// Package metrics turns what the scheduling core reports into figures: one Collector for the environment's info, a program's
// summary, and comparisons. Definitions says what each figure is.
//
// # What is counted
//
// A burst is what a task does between a wakeup and its next wait or exit. Response is the time from its beginning to its end; wait
// is the part of it that the task spent runnable without a CPU, whatever the reason (queued, held back, being asked about, or
// its switch under way). Time blocked is not wait. All of it is integer nanoseconds until it is reported.
//
// A wakeup in which a task uses no CPU time, as when it wakes only to exit, is no burst: nothing was served that a slowdown could be
// measured against. It has waited for a CPU all the same. So its latency counts among wakeups and its wait may be the longest, and
// Figures.WaitMean has it in the sum, but not in the number of bursts that it is divided by: mean wait × bursts is all that tasks
// have waited, and Little's law holds.
//
// A run covers [0, T); a window [0, Config.Warmup) is left out of means, percentiles, maxima and counts, but not of fates. A burst
// counts when it ends outside that window, wherever it began. Bursts that are still open at T count too, with what they have
// suffered until then: a policy must not be able to improve its figures by never finishing what goes badly. Whether an open one will
// use CPU time is not known, so each counts as a burst. An open burst has a slowdown if its response already exceeds its length, as
// far as that is known: else it may still turn out well. Nothing is measured beyond T: a task that was granted a CPU which it gets
// later waits until T.
//
// A task that loses its CPU before the switch to it is over has waited until then, and waits again from then on.
//
// The bound of the slowdown, max(burst, 5 switch costs, 1 µs), keeps bursts shorter than what it costs to switch from owning the mean,
// as in the bounded slowdown of Feitelson and others (Theory and Practice in Parallel Job Scheduling, 1997). Theirs is raised to 1 where
// it is less; this one is not.
//
// None of this depends on how messages are gathered into turns.
//
// # Percentiles
//
// A percentile is the nearest rank: of n values in order, the one at ⌈p n⌉. It is read from a histogram with bins at most 1/128 wide
// relative to their values, as their lower edge: so it is at most 0.8 % low, and equal values give equal percentiles. It is null (NaN in Go) of nothing. It is named in
// Figures.Few when fewer than ten values are expected beyond it.
package metrics
