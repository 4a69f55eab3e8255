package compare

import (
	"math"
	"slices"

	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Report is what a comparison found. Its JSON form is summary.json.
type Report struct {
	Workloads map[string]*WorkloadReport `json:"workloads" msgpack:"workloads"`
	Manifest  Manifest                   `json:"manifest" msgpack:"manifest"`
	Runs      []Run                      `json:"-" msgpack:"runs"`
	CDF       map[string]map[string]CDF  `json:"-" msgpack:"cdf,omitempty"` // of wakeup latencies, by workload and scheduler
}

// CDF is a distribution: the share of values up to each.
type CDF struct {
	Micros []float64 `msgpack:"us"`
	Share  []float64 `msgpack:"share"`
}

// WorkloadReport is what was found on one workload.
type WorkloadReport struct {
	HeldOut    string                      `json:"held_out" msgpack:"held_out"`
	Closed     bool                        `json:"closed_loop" msgpack:"closed_loop"` // only service times and sleeps match between schedulers
	Notes      []string                    `json:"notes,omitempty" msgpack:"notes,omitempty"`
	Schedulers map[string]*SchedulerReport `json:"schedulers" msgpack:"schedulers"`
	Paired     []Pair                      `json:"paired" msgpack:"paired"`
}

// SchedulerReport is how a scheduler did on a workload: figures over repetitions, fates in all of them together.
type SchedulerReport struct {
	WaitMean     Summary     `json:"wait_mean_us" msgpack:"wait_mean_us"`
	WakeupP50    Summary     `json:"wakeup_p50_us" msgpack:"wakeup_p50_us"`
	WakeupP99    Summary     `json:"wakeup_p99_us" msgpack:"wakeup_p99_us"`
	WakeupMax    Summary     `json:"wakeup_max_us" msgpack:"wakeup_max_us"`
	SlowdownMean Summary     `json:"slowdown_mean" msgpack:"slowdown_mean"`
	Turnaround   Summary     `json:"turnaround_ms" msgpack:"turnaround_ms"`
	Throughput   Summary     `json:"throughput_per_s" msgpack:"throughput_per_s"`
	Switches     Summary     `json:"switches" msgpack:"switches"`
	AgeMax       Summary     `json:"age_max_us" msgpack:"age_max_us"`
	Censored     Summary     `json:"censored" msgpack:"censored"`
	Fates        sched.Fates `json:"fates" msgpack:"fates"`
}

// Pair sets scheduler A against B on the same instances: the mean of the differences A - B, and its 95 % interval. Percent, with its
// interval, is how far the geometric mean of A lies above that of B, for figures where ratios mean something.
type Pair struct {
	A         string         `json:"a" msgpack:"a"`
	B         string         `json:"b" msgpack:"b"`
	Metric    string         `json:"metric" msgpack:"metric"`
	Diff      metrics.Number `json:"diff" msgpack:"diff"`
	Lo        metrics.Number `json:"lo" msgpack:"lo"`
	Hi        metrics.Number `json:"hi" msgpack:"hi"`
	Percent   metrics.Number `json:"percent" msgpack:"percent"`
	PercentLo metrics.Number `json:"percent_lo" msgpack:"percent_lo"`
	PercentHi metrics.Number `json:"percent_hi" msgpack:"percent_hi"`
	N         int            `json:"n" msgpack:"n"` // repetitions that both have; those that are one run count once
}

// figure is a line of a SchedulerReport.
type figure struct {
	name  string
	ratio bool // differences are also given in percent
	of    func(*metrics.Figures) metrics.Number
	at    func(*SchedulerReport) *Summary
}

var figures = []figure{
	{"wait_mean_us", true, func(f *metrics.Figures) metrics.Number { return f.WaitMean },
		func(r *SchedulerReport) *Summary { return &r.WaitMean }},
	{"wakeup_p50_us", false, func(f *metrics.Figures) metrics.Number { return f.WakeupP50 },
		func(r *SchedulerReport) *Summary { return &r.WakeupP50 }},
	{"wakeup_p99_us", false, func(f *metrics.Figures) metrics.Number { return f.WakeupP99 },
		func(r *SchedulerReport) *Summary { return &r.WakeupP99 }},
	{"wakeup_max_us", false, func(f *metrics.Figures) metrics.Number { return f.WakeupMax },
		func(r *SchedulerReport) *Summary { return &r.WakeupMax }},
	{"slowdown_mean", true, func(f *metrics.Figures) metrics.Number { return f.SlowdownMean },
		func(r *SchedulerReport) *Summary { return &r.SlowdownMean }},
	{"turnaround_ms", false, func(f *metrics.Figures) metrics.Number { return f.Turnaround },
		func(r *SchedulerReport) *Summary { return &r.Turnaround }},
	{"throughput_per_s", false, func(f *metrics.Figures) metrics.Number { return f.Throughput },
		func(r *SchedulerReport) *Summary { return &r.Throughput }},
	{"switches", false, func(f *metrics.Figures) metrics.Number { return metrics.Number(f.Switches) },
		func(r *SchedulerReport) *Summary { return &r.Switches }},
	{"age_max_us", false, func(f *metrics.Figures) metrics.Number { return f.AgeMax },
		func(r *SchedulerReport) *Summary { return &r.AgeMax }},
	{"censored", false, func(f *metrics.Figures) metrics.Number { return metrics.Number(f.Censored) },
		func(r *SchedulerReport) *Summary { return &r.Censored }},
}

// figureNames are the figures of a report, in its order.
func figureNames() []string {
	var names []string
	for i := range figures {
		names = append(names, figures[i].name)
	}
	return names
}

// report summarises the runs that are done.
func (c *Comparison) report(cdf map[cell]*metrics.Histogram) *Report {
	r := &Report{Workloads: map[string]*WorkloadReport{}}
	finished := map[string][]*Run{} // by workload
	for i := range c.runs {
		if run := &c.runs[i]; run.done {
			r.Runs = append(r.Runs, *run)
			finished[run.Workload] = append(finished[run.Workload], run)
		}
	}
	for i := range c.plan.Workloads {
		w := &c.plan.Workloads[i]
		r.Workloads[w.Name] = c.reportWorkload(w, &c.lines[i], finished[w.Name])
	}
	for k, h := range cdf {
		if r.CDF == nil {
			r.CDF = map[string]map[string]CDF{}
		}
		if r.CDF[k.workload] == nil {
			r.CDF[k.workload] = map[string]CDF{}
		}
		var points CDF
		for _, p := range h.CDF() {
			points.Micros, points.Share = append(points.Micros, p.Value), append(points.Share, p.Share)
		}
		r.CDF[k.workload][k.scheduler] = points
	}
	r.Manifest = c.manifest(len(r.Runs))
	return r
}

func (c *Comparison) reportWorkload(w *Workload, l *line, runs []*Run) *WorkloadReport {
	by := map[string]results{}
	for _, s := range c.plan.Schedulers {
		by[s] = results{}
	}
	for _, run := range runs {
		by[run.Scheduler][run.Rep] = &run.Result
	}
	out := &WorkloadReport{HeldOut: w.HeldOut, Closed: l.closed, Notes: append(slices.Clone(l.notes), c.notes(w, runs, by)...),
		Schedulers: map[string]*SchedulerReport{}, Paired: []Pair{}}
	for _, s := range c.plan.Schedulers {
		out.Schedulers[s] = reportScheduler(by[s], samples(len(w.Specs), by[s]))
	}
	for _, a := range c.protagonists() {
		for _, b := range c.plan.Schedulers {
			if a == b {
				continue
			}
			reps := samples(len(w.Specs), by[a], by[b])
			for i := range figures {
				out.Paired = append(out.Paired, pair(a, b, &figures[i], by[a], by[b], reps))
			}
		}
	}
	return out
}

func reportScheduler(by results, reps []int) *SchedulerReport {
	sr := &SchedulerReport{}
	for _, res := range by {
		sr.Fates.Add(&res.Figures.Fates)
	}
	for i := range figures {
		var values []float64
		for _, rep := range reps {
			if v := float64(figures[i].of(&by[rep].Figures)); !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		*figures[i].at(sr) = summarise(values)
	}
	return sr
}

// protagonists are set against every other scheduler: those that a model answers for, or else the first.
func (c *Comparison) protagonists() []string {
	var names []string
	for _, s := range c.schedulers {
		if s.Learned() {
			names = append(names, s.String())
		}
	}
	if len(names) == 0 {
		names = c.plan.Schedulers[:1]
	}
	return names
}

func pair(a, b string, f *figure, as, bs results, reps []int) Pair {
	var diffs, logs []float64
	for _, rep := range reps {
		u, v := float64(f.of(&as[rep].Figures)), float64(f.of(&bs[rep].Figures))
		if math.IsNaN(u - v) {
			continue
		}
		diffs = append(diffs, u-v)
		if f.ratio && u > 0 && v > 0 {
			logs = append(logs, math.Log(u/v))
		}
	}
	p := Pair{A: a, B: b, Metric: f.name, N: len(diffs)}
	mean, lo, hi := interval(diffs)
	p.Diff, p.Lo, p.Hi = metrics.Number(mean), metrics.Number(lo), metrics.Number(hi)
	if len(logs) < len(diffs) {
		logs = nil // a geometric mean with zeros left out would flatter somebody
	}
	mean, lo, hi = interval(logs)
	percent := func(x float64) metrics.Number { return metrics.Number(100 * math.Expm1(x)) }
	p.Percent, p.PercentLo, p.PercentHi = percent(mean), percent(lo), percent(hi)
	return p
}
