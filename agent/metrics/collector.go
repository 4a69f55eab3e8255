package metrics

import (
	"math"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Config says what a collector counts.
type Config struct {
	Warmup     kernel.Time // excluded from all figures but fates
	SwitchCost kernel.Time // of the machine: bounds slowdowns, see sched.MinSlowdownBurst
}

// slowdownUnit is the resolution of slowdowns in their histogram.
const slowdownUnit = 1 << 20

// seen is what a collector remembers of the task in a slot.
type seen struct {
	id      kernel.TaskID
	entered kernel.Time
	ended   kernel.Time // its last stay on a CPU
	start   kernel.Time // of its stay on a CPU
	runtime kernel.Time // at start
	wait    kernel.Time // before start
	on      bool        // a CPU since start, as far as is known
	first   bool        // stay since its wakeup
	ran     bool        // in this burst
}

// Collector gathers the figures of a run as the scheduling core's Observer. It does not allocate but when it meets more tasks than
// ever before. It is used by one goroutine.
type Collector struct {
	cfg      Config
	minBurst kernel.Time

	wait     *Histogram
	wakeup   *Histogram
	slowdown *Histogram
	life     *Histogram
	tasks    []seen
	last     [kernel.MaxCPUs]kernel.TaskID // on each CPU

	bursts    uint64
	censored  uint64
	unstarted uint64
	switches  uint64
	vainWait  kernel.Time // of wakeups that used no CPU time
	ageMax    kernel.Time
	busy      kernel.Time

	closed bool
	span   kernel.Time
	cpus   int
	fates  sched.Fates
}

var _ sched.Observer = (*Collector)(nil)

// New makes a collector.
func New(cfg Config) *Collector {
	const perMicrosecond, perMillisecond = float64(kernel.Microsecond), float64(kernel.Millisecond)
	c := &Collector{
		wait: NewHistogram(perMicrosecond), wakeup: NewHistogram(perMicrosecond), slowdown: NewHistogram(slowdownUnit),
		life: NewHistogram(perMillisecond),
	}
	c.Reset(cfg)
	return c
}

// Reset forgets everything, keeping memory.
func (c *Collector) Reset(cfg Config) {
	for _, h := range []*Histogram{c.wait, c.wakeup, c.slowdown, c.life} {
		h.Reset()
	}
	*c = Collector{
		cfg: cfg, minBurst: sched.MinSlowdownBurst(cfg.SwitchCost), wait: c.wait, wakeup: c.wakeup, slowdown: c.slowdown,
		life: c.life, tasks: c.tasks[:0], ageMax: -1,
	}
}

// of is what is remembered of a task's slot; a new incarnation says that the one before has left.
func (c *Collector) of(t *sched.Task) *seen {
	slot := int(t.ID.Slot())
	for len(c.tasks) <= slot {
		c.tasks = append(c.tasks, seen{})
	}
	s := &c.tasks[slot]
	if s.id != t.ID {
		c.left(s)
		*s = seen{id: t.ID, entered: t.Asleep} // which is when it entered, until its first burst has ended
	}
	return s
}

func (c *Collector) left(s *seen) {
	if s.id != 0 && s.ended >= c.cfg.Warmup {
		c.life.Add(int64(s.ended - s.entered))
	}
}

// stay ends a stay on a CPU at the instant given, which may lie before its start: the wait ended then, and the task never ran. What
// is after the warm-up counts.
func (c *Collector) stay(s *seen, end, used kernel.Time) {
	if !s.on {
		return
	}
	s.on = false
	if s.start >= c.cfg.Warmup {
		wait := s.wait - max(s.start-end, 0)
		c.ageMax = max(c.ageMax, wait)
		if s.first {
			c.wakeup.Add(int64(wait))
		}
	}
	used -= min(used, max(c.cfg.Warmup-s.start, 0))
	c.busy += used
}

// Dispatched implements sched.Observer.
func (c *Collector) Dispatched(t *sched.Task, at, wait kernel.Time, first bool) {
	if c.closed {
		return
	}
	s := c.of(t)
	c.stay(s, t.Since, t.Runtime-s.runtime)
	s.start, s.runtime, s.wait, s.first, s.on, s.ran = at, t.Runtime, wait, first, true, true
	before := kernel.TaskID(0)
	if uint32(t.CPU) < kernel.MaxCPUs {
		before, c.last[t.CPU] = c.last[t.CPU], t.ID
	}
	if at >= c.cfg.Warmup && before != 0 && before != t.ID {
		c.switches++
	}
}

// BurstEnded implements sched.Observer.
func (c *Collector) BurstEnded(t *sched.Task, at, burst kernel.Time) {
	if c.closed {
		return
	}
	s := c.of(t)
	c.stay(s, at, t.Runtime-s.runtime)
	s.ended, s.ran = at, false
	if at < c.cfg.Warmup {
		return
	}
	wait := t.Waited
	if t.State != sched.OnCPU && t.State != sched.Displaced { // it left while it waited
		wait += at - t.Since
		c.ageMax = max(c.ageMax, at-t.Since)
	}
	if burst == 0 {
		c.vainWait += wait
		return
	}
	c.bursts++
	c.wait.Add(int64(wait))
	c.slow(at-t.Woken, burst)
}

func (c *Collector) slow(response, burst kernel.Time) {
	c.slowdown.Add(int64(math.Round(float64(response) / float64(max(burst, c.minBurst)) * slowdownUnit)))
}

// Close ends the run at now: bursts that have not ended count with what they have suffered. The callback tells the true length of a
// task's burst where the kernel knows it; it may be nil. Close comes after the agent has stopped, so that all fates are in; a second
// call, and events after the first, are ignored.
func (c *Collector) Close(core *sched.Core, now kernel.Time, burst func(*sched.Task) (total kernel.Time, ok bool)) {
	if c.closed {
		return
	}
	c.closed = true
	c.fates, c.span = *core.Fates(), now-c.cfg.Warmup
	view := core.View()
	for q := range view.Queues() {
		c.cpus += view.CPUs(int32(q))
	}
	core.EachOpen(now, func(b sched.OpenBurst) {
		t, s := b.Task, c.of(b.Task)
		used := t.Runtime - s.runtime
		if t.State == sched.OnCPU {
			used += max(now-t.Start, 0)
		}
		underWay := s.on && s.start >= now
		c.stay(s, now, used)
		c.censored++
		c.wait.Add(int64(b.Waited))
		if b.Age > 0 {
			c.ageMax = max(c.ageMax, b.Age)
		}
		if !s.ran {
			c.unstarted++
			c.wakeup.Add(int64(b.Response))
		} else if underWay && s.first {
			c.unstarted++ // and stay has counted its latency
		}
		total, ok := kernel.Time(0), false
		if burst != nil {
			total, ok = burst(t)
		}
		if !ok {
			total = t.Attained(now)
		}
		if b.Response > total {
			c.slow(b.Response, total)
		}
	})
	for i := range min(len(c.tasks), core.NumTasks()) {
		s := &c.tasks[i]
		if t := view.Task(int32(i)); t.ID == s.id && t.State == sched.Gone {
			c.left(s)
		}
	}
}

// Wakeup is the distribution of wakeup latencies, in µs.
func (c *Collector) Wakeup() *Histogram { return c.wakeup }

// waitMean is all that tasks have waited, per burst.
func (c *Collector) waitMean() float64 {
	return c.wait.Mean() + float64(c.vainWait)/float64(kernel.Microsecond)/float64(c.wait.n)
}

// Figures are the figures of the run that Close has ended.
func (c *Collector) Figures() Figures {
	f := Figures{
		WaitMean: Number(c.waitMean()), WakeupMax: Number(c.wakeup.Max()), SlowdownMean: Number(c.slowdown.Mean()),
		Turnaround: Number(c.life.Mean()), Switches: c.switches, AgeMax: Number(math.NaN()), Bursts: c.bursts, Censored: c.censored,
		Wakeups: c.wakeup.n, Unstarted: c.unstarted, Slowdowns: c.slowdown.n, Finished: c.life.n, Fates: c.fates, Few: []string{},
		Throughput: Number(math.NaN()), Utilisation: Number(math.NaN()),
	}
	if c.ageMax >= 0 {
		f.AgeMax = Number(float64(c.ageMax) / float64(kernel.Microsecond))
	}
	if c.span > 0 {
		f.Throughput = Number(float64(c.bursts) / (float64(c.span) / float64(kernel.Second)))
		f.Utilisation = Number(float64(c.busy) / (float64(c.span) * float64(c.cpus)))
	}
	for _, p := range []struct {
		name  string
		h     *Histogram
		share float64
		into  *Number
	}{
		{"wait_p99_us", c.wait, 0.99, &f.WaitP99},
		{"wakeup_p50_us", c.wakeup, 0.5, &f.WakeupP50},
		{"wakeup_p99_us", c.wakeup, 0.99, &f.WakeupP99},
		{"slowdown_p99", c.slowdown, 0.99, &f.SlowdownP99},
	} {
		*p.into = Number(p.h.Percentile(p.share))
		if p.h.Few(p.share) {
			f.Few = append(f.Few, p.name)
		}
	}
	return f
}
