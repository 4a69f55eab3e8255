package compare

import (
	"math"
	"slices"

	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/env"
)

// metric is a figure of the report.
type metric struct {
	Name string
	get  func(r *env.Result) float64
	log  bool // differences are also given as ratios
}

// Metrics are the figures of the report, in its order.
var reported = []metric{
	{"wait_mean_us", func(r *env.Result) float64 { return float64(r.Figures.WaitMean) }, true},
	{"wakeup_p50_us", func(r *env.Result) float64 { return float64(r.Figures.WakeupP50) }, false},
	{"wakeup_p99_us", func(r *env.Result) float64 { return float64(r.Figures.WakeupP99) }, false},
	{"wakeup_max_us", func(r *env.Result) float64 { return float64(r.Figures.WakeupMax) }, false},
	{"slowdown_mean", func(r *env.Result) float64 { return float64(r.Figures.SlowdownMean) }, true},
	{"turnaround_ms", func(r *env.Result) float64 { return float64(r.Figures.Turnaround) }, false},
	{"throughput_per_s", func(r *env.Result) float64 { return float64(r.Figures.Throughput) }, false},
	{"switches", func(r *env.Result) float64 { return float64(r.Figures.Switches) }, false},
	{"age_max_us", func(r *env.Result) float64 { return float64(r.Figures.AgeMax) }, false},
	{"censored", func(r *env.Result) float64 { return float64(r.Figures.Censored) }, false},
}

// Report is what a comparison found. Its JSON form is summary.json.
type Report struct {
	Workloads map[string]*WorkloadReport `json:"workloads" msgpack:"workloads"`
	Manifest  Manifest                   `json:"manifest" msgpack:"manifest"`
	Runs      []Run                      `json:"-" msgpack:"runs"`
	CDF       map[string]map[string]CDF  `json:"-" msgpack:"cdf,omitempty"` // of wakeup latencies, by workload and scheduler

	order []string // of workloads
}

// CDF is a distribution: the share of values up to each.
type CDF struct {
	Micros []float64 `msgpack:"us"`
	Share  []float64 `msgpack:"share"`
}

// WorkloadReport is what was found on one workload.
type WorkloadReport struct {
	HeldOut    string                    `json:"held_out" msgpack:"held_out"`
	Closed     bool                      `json:"closed_loop" msgpack:"closed_loop"` // only service times and sleeps match between schedulers
	Notes      []string                  `json:"notes,omitempty" msgpack:"notes,omitempty"`
	Schedulers map[string]map[string]any `json:"schedulers" msgpack:"schedulers"` // metric → Summary, and "fates" → counts
	Paired     []Pair                    `json:"paired" msgpack:"paired"`

	order []string // of schedulers
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
	N         int            `json:"n" msgpack:"n"`
}

func newReport(p *Plan, schedulers []*env.Scheduler, runs []Run, cdf map[string]*metrics.Histogram) *Report {
	r := &Report{Workloads: map[string]*WorkloadReport{}, Manifest: newManifest(p)}
	var learned []string
	for _, s := range schedulers {
		if s.Learned() {
			learned = append(learned, s.String())
		}
	}
	if len(learned) == 0 {
		learned = p.Schedulers[:1]
	}
	for i := range runs {
		if runs[i].done {
			r.Runs = append(r.Runs, runs[i])
		}
	}
	for _, w := range p.Workloads {
		r.order = append(r.order, w.Name)
		r.Workloads[w.Name] = summariseWorkload(p, &w, learned, r.Runs)
		for _, s := range p.Schedulers {
			h := cdf[w.Name+"\x00"+s]
			if h == nil {
				continue
			}
			if r.CDF == nil {
				r.CDF = map[string]map[string]CDF{}
			}
			if r.CDF[w.Name] == nil {
				r.CDF[w.Name] = map[string]CDF{}
			}
			var c CDF
			for _, pt := range h.CDF() {
				c.Micros, c.Share = append(c.Micros, pt.Value), append(c.Share, pt.Share)
			}
			r.CDF[w.Name][s] = c
		}
	}
	return r
}

func summariseWorkload(p *Plan, w *Workload, learned []string, runs []Run) *WorkloadReport {
	out := &WorkloadReport{HeldOut: w.HeldOut, Schedulers: map[string]map[string]any{}, Paired: []Pair{}, order: p.Schedulers}
	for _, spec := range w.Specs {
		in, err := env.BuildInstance(spec)
		if err != nil {
			continue // it was built before
		}
		out.Closed = out.Closed || !in.Open
		for _, n := range in.Notes {
			if !slices.Contains(out.Notes, n) {
				out.Notes = append(out.Notes, n)
			}
		}
	}
	by := map[string]map[int]*env.Result{} // scheduler → repetition
	for i := range runs {
		if run := &runs[i]; run.Workload == w.Name {
			if by[run.Scheduler] == nil {
				by[run.Scheduler] = map[int]*env.Result{}
			}
			by[run.Scheduler][run.Rep] = &run.Result
		}
	}
	for _, s := range p.Schedulers {
		figures := map[string]any{}
		for _, m := range reported {
			var values []float64
			for rep := range p.Reps {
				if res := by[s][rep]; res != nil {
					if v := m.get(res); !math.IsNaN(v) {
						values = append(values, v)
					}
				}
			}
			figures[m.Name] = summarise(values)
		}
		var fates sched.Fates
		for rep := range p.Reps {
			if res := by[s][rep]; res != nil {
				add(&fates, &res.Figures.Fates)
			}
		}
		figures["fates"] = fates
		out.Schedulers[s] = figures
	}
	for _, a := range learned {
		for _, b := range p.Schedulers {
			if a == b {
				continue
			}
			for _, m := range reported {
				out.Paired = append(out.Paired, pair(a, b, &m, by, p.Reps))
			}
		}
	}
	return out
}

func pair(a, b string, m *metric, by map[string]map[int]*env.Result, reps int) Pair {
	var diffs, logs []float64
	for rep := range reps {
		x, y := by[a][rep], by[b][rep]
		if x == nil || y == nil {
			continue
		}
		u, v := m.get(x), m.get(y)
		if d := u - v; !math.IsNaN(d) {
			diffs = append(diffs, d)
			if m.log && u > 0 && v > 0 {
				logs = append(logs, math.Log(u/v))
			}
		}
	}
	mean, lo, hi := interval(diffs)
	p := Pair{A: a, B: b, Metric: m.Name, Diff: metrics.Number(mean), Lo: metrics.Number(lo), Hi: metrics.Number(hi), N: len(diffs)}
	mean, lo, hi = interval(logs)
	percent := func(x float64) metrics.Number { return metrics.Number(100 * (math.Exp(x) - 1)) }
	p.Percent, p.PercentLo, p.PercentHi = percent(mean), percent(lo), percent(hi)
	return p
}

func add(sum, f *sched.Fates) {
	sum.Applied += f.Applied
	sum.Late += f.Late
	sum.Superseded += f.Superseded
	sum.Expired += f.Expired
	sum.Dropped += f.Dropped
	sum.Undelivered += f.Undelivered
	sum.Abandoned += f.Abandoned
	sum.Requested += f.Requested
	sum.Fallback += f.Fallback
	sum.Trivial += f.Trivial
	sum.Aged += f.Aged
	sum.Stale += f.Stale
	sum.Unused += f.Unused
	sum.Clipped += f.Clipped
}
