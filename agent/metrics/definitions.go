package metrics

import "slices"

// Definition says what one figure is. Name is that of its field in JSON.
type Definition struct {
	Name string `json:"name"`
	Unit string `json:"unit"` // "": a pure number or a count
	Doc  string `json:"doc"`
}

// Definitions are those of every field of Figures, in its order, then those of its fates.
func Definitions() []Definition { return slices.Clone(definitions) }

var definitions = []Definition{
	{"wait_mean_us", "µs", "Time that tasks spend runnable without a CPU, per burst: all waits of a burst added up, so that it may exceed " +
		"age_max_us. A switch under way is wait. Open bursts count with their wait so far, and the waits of wakeups that used no CPU time " +
		"are in the sum."},
	{"wait_p99_us", "µs", "99th percentile of bursts' waits, open bursts with their wait so far. Percentiles are read from histograms: they " +
		"are at most 0.8 % low."},
	{"wakeup_p50_us", "µs", "Median wakeup latency: from a wakeup to the first time that the task is given a CPU."},
	{"wakeup_p99_us", "µs", "99th percentile of wakeup latencies."},
	{"wakeup_max_us", "µs", "Longest wakeup latency. One that never ends counts up to the end of the run."},
	{"slowdown_mean", "", "Mean of response / max(burst, 5 switch costs, 1 µs), over bursts that ended and those open ones whose response " +
		"exceeds their length already. It is 1 for a burst served at once, and below 1 for one served faster than the bound: unlike " +
		"Feitelson's bounded slowdown it is not raised to 1."},
	{"slowdown_p99", "", "99th percentile of slowdowns."},
	{"turnaround_ms", "ms", "Mean time from a task's entry to its exit, over tasks that have left."},
	{"throughput_per_s", "1/s", "Bursts that ended, per second."},
	{"switches", "", "How often a CPU was given to another task than it had before. A CPU's first task is none, nor is a task that goes on " +
		"where it was."},
	{"age_max_us", "µs", "Longest wait: one uninterrupted wait, from when a task became runnable or lost its CPU to when it has a CPU, or " +
		"to the end of the run."},
	{"utilisation", "", "CPU time used by tasks / (CPUs × time), agents' own CPUs excluded."},
	{"bursts", "", "Bursts that ended. A burst is what a task does between a wakeup and its next wait or exit; it uses CPU time."},
	{"censored", "", "Bursts that were open when the run ended. They count with what they had suffered until then."},
	{"wakeups", "", "Wakeups with a latency."},
	{"unstarted", "", "Of the wakeups, those whose task never had a CPU: their latency is a lower bound."},
	{"slowdowns", "", "Bursts with a slowdown."},
	{"finished", "", "Tasks that have left."},
	{"few", "", "Names of the percentiles beyond which fewer than ten values are expected."},

	{"applied", "", "Decisions whose answer took effect, those of the fallback included."},
	{"late", "", "Decisions whose task had left the queue when the answer came."},
	{"superseded", "", "Decisions whose task died, left, or was asked for anew."},
	{"expired", "", "Decisions without an answer within their time to live."},
	{"dropped", "", "Decisions never sent, since too many were outstanding."},
	{"undelivered", "", "Decisions whose answer came, but the agent stopped before it could apply."},
	{"abandoned", "", "Decisions outstanding when the agent stopped."},
	{"requested", "", "Decisions that were asked: the sum of the seven before."},
	{"fallback", "", "Of the applied, those that the fallback answered."},
	{"trivial", "", "Enqueues that were not asked, since no answer could have mattered."},
	{"aged", "", "Dispatches forced by the age bound: the task had waited longer than the policy may let it."},
	{"stale", "", "Answers to a decision never asked, answered before, or about another task."},
	{"unused", "", "First answers to decisions that had ended already."},
	{"clipped", "", "Answers outside of the action space, moved to its bounds. A model's scores that are not finite are not among them: there the fallback answers."},
}
