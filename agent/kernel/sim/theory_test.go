package sim_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// poisson is a stream of one-shot requests: exponential interarrivals, and service times from a law with the mean given.
type poisson struct {
	mean, service float64 // of interarrivals and services, in ns
	fixed         bool    // services are all equal
	pcg           rand.PCG
	rng           *rand.Rand
	at            float64
	count         int
	total         float64
}

type request kernel.Time

func (r *request) Next(*sim.Sim, kernel.TaskID) sim.Op {
	d := kernel.Time(*r)
	if d == 0 {
		return sim.Op{Kind: sim.OpExit}
	}
	*r = 0
	return sim.Op{Kind: sim.OpRun, Time: d}
}

func (p *poisson) Start(m *sim.Sim) {
	s1, s2 := m.Stream(1, 0)
	p.pcg.Seed(s1, s2)
	p.rng = rand.New(&p.pcg)
	p.at, p.count, p.total = 0, 0, 0
	p.next(m)
}

func (p *poisson) next(m *sim.Sim) {
	p.at += p.rng.ExpFloat64() * p.mean
	m.ArriveAt(kernel.Time(p.at))
}

func (p *poisson) Arrive(m *sim.Sim) {
	d := p.service
	if !p.fixed {
		d *= p.rng.ExpFloat64()
	}
	r := request(max(d, 1))
	p.count++
	p.total += float64(r)
	m.Spawn(sim.TaskSpec{Program: &r})
	p.next(m)
}

// run plays fifo on the workload and returns the collector's figures and the machine.
func run(t testing.TB, w sim.Workload, profile string, cpus int, horizon kernel.Time, seed uint64) (metrics.Figures, *sim.Sim, *agent.Agent) {
	t.Helper()
	return play(t, w, profile, cpus, horizon, seed, "fifo", kernel.Forever)
}

func play(t testing.TB, w sim.Workload, profile string, cpus int, horizon kernel.Time, seed uint64, name string, slice kernel.Time) (
	metrics.Figures, *sim.Sim, *agent.Agent) {
	t.Helper()
	p, err := sim.LoadProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sim.New(sim.Config{Profile: p, CPUs: cpus, Horizon: horizon, Seed: seed, Workload: w})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := e.New(policy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	order, err := e.Orders.Choose(false)
	if err != nil {
		t.Fatal(err)
	}
	c := metrics.New(metrics.Config{})
	a, err := agent.New(agent.Config{Kernel: m, Until: horizon, Policy: pol,
		Core: sched.Config{Order: order, Slice: slice, Observer: c}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.Close(a.Core(), a.Now(), nil)
	return c.Figures(), m, a
}

// erlangC is the probability that an arrival has to wait in M/M/c with load a = λ/μ.
func erlangC(c int, a float64) float64 {
	sum, term := 0.0, 1.0
	for k := range c {
		sum += term
		term *= a / float64(k+1)
	}
	last := term / (1 - a/float64(c))
	return last / (sum + last)
}

// TestQueueingTheory compares mean waiting times under fifo, profile ideal, with closed formulas: M/M/1, M/M/c (Erlang C) and M/D/1
// (Pollaczek and Khinchine). The interval is Student's 99.9 % over 24 independent runs, and the formula must lie in it; the interval
// itself must be narrow. Utilisation and Little's law hold besides, within what the edges of a run can explain.
func TestQueueingTheory(t *testing.T) {
	const (
		service = 100e3 // ns
		runs    = 24
		student = 3.768 // 99.9 %, 23 degrees of freedom
	)
	for _, c := range []struct {
		name  string
		cpus  int
		load  float64
		fixed bool
		want  float64 // mean waiting, in services
	}{
		{"M/M/1 at 0.5", 1, 0.5, false, 0.5 / (1 - 0.5)},
		{"M/M/1 at 0.7", 1, 0.7, false, 0.7 / (1 - 0.7)},
		{"M/M/4 at 0.8", 4, 0.8, false, erlangC(4, 3.2) / (4 * 0.2)},
		{"M/M/8 at 0.7", 8, 0.7, false, erlangC(8, 5.6) / (8 * 0.3)},
		{"M/D/1 at 0.6", 1, 0.6, true, 0.6 / (2 * 0.4)},
		{"M/D/1 at 0.8", 1, 0.8, true, 0.8 / (2 * 0.2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sum, squares float64
			for seed := range uint64(runs) {
				w := &poisson{mean: service / c.load / float64(c.cpus), service: service, fixed: c.fixed}
				horizon := kernel.Time(20000 * w.mean)
				f, m, a := run(t, w, "ideal", c.cpus, horizon, seed)
				x := float64(f.WaitMean) * 1e3 / service
				sum += x
				squares += x * x

				st := m.Stats()
				offered := w.total / float64(horizon) / float64(c.cpus)
				if used := float64(st.Busy) / float64(horizon) / float64(c.cpus); math.Abs(used-offered) > 0.01 {
					t.Errorf("seed %d: utilisation %.4f, offered %.4f", seed, used, offered)
				}
				// Little: the mean number waiting is the arrival rate times the mean wait
				waiting, _ := a.Core().Integrals(horizon)
				number := waiting / float64(horizon)
				rate := float64(w.count) / float64(horizon)
				all := float64(f.WaitMean) * 1e3
				if math.Abs(number-rate*all) > 1e-3*number {
					t.Errorf("seed %d: %.4f wait on average, rate times mean wait is %.4f", seed, number, rate*all)
				}
			}
			mean := sum / runs
			half := student * math.Sqrt((squares/runs-mean*mean)/(runs-1))
			t.Logf("mean wait %.4f ± %.4f services, formula %.4f", mean, half, c.want)
			if math.Abs(mean-c.want) > half {
				t.Errorf("mean wait %.4f ± %.4f services, formula %.4f", mean, half, c.want)
			}
			if half > 0.1*c.want {
				t.Errorf("the interval ± %.4f is too wide to say anything about %.4f", half, c.want)
			}
		})
	}
}

// TestNothingIsLost: whatever the profile, CPU time adds up, every request is somewhere, and time stays inside of the run.
func TestNothingIsLost(t *testing.T) {
	for _, profile := range sim.Profiles() {
		t.Run(profile, func(t *testing.T) {
			w := &poisson{mean: 40e3, service: 100e3}
			const horizon = 200 * kernel.Millisecond
			f, m, a := run(t, w, profile, 4, horizon, 3)
			st := m.Stats()
			if st.Spawned != uint64(w.count) || st.Finished > st.Spawned {
				t.Errorf("%d arrived, %d spawned, %d finished", w.count, st.Spawned, st.Finished)
			}
			if st.Busy > 4*horizon || float64(st.Busy) > w.total {
				t.Errorf("busy %d of %d, offered %.0f", st.Busy, 4*horizon, w.total)
			}
			if m.Now() != horizon || a.Now() != horizon {
				t.Errorf("the run ended at %d and %d of %d", m.Now(), a.Now(), horizon)
			}
			if got := f.Bursts + f.Censored; got == 0 || got > uint64(w.count) {
				t.Errorf("%d bursts and %d censored of %d", f.Bursts, f.Censored, w.count)
			}
			if ch, msgs, err := m.Poll(nil, kernel.Forever); ch != -1 || len(msgs) != 0 || err != nil {
				t.Errorf("after the horizon: channel %d, %d messages, %v", ch, len(msgs), err)
			}
		})
	}
}

func TestCostsSlowTheMachineDown(t *testing.T) {
	wait := map[string]float64{}
	for _, profile := range []string{"ideal", "uthread", "kthread", "ghost-percpu", "ghost-global"} {
		w := &poisson{mean: 60e3, service: 100e3}
		f, _, _ := run(t, w, profile, 4, 400*kernel.Millisecond, 5)
		wait[profile] = float64(f.WaitMean)
	}
	for _, c := range [][2]string{{"ideal", "uthread"}, {"uthread", "kthread"}, {"ideal", "ghost-percpu"}, {"ideal", "ghost-global"}} {
		if !(wait[c[0]] < wait[c[1]]) {
			t.Errorf("mean wait: %s %.3f µs, %s %.3f µs", c[0], wait[c[0]], c[1], wait[c[1]])
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	ideal, err := sim.LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	global, err := sim.LoadProfile("ghost-global")
	if err != nil {
		t.Fatal(err)
	}
	w := &poisson{mean: 1e3, service: 1e3}
	good := sim.Config{Profile: ideal, CPUs: 1, Horizon: 1, Workload: w}
	if _, err := sim.New(good); err != nil {
		t.Error(err)
	}
	for i, change := range []func(*sim.Config){
		func(c *sim.Config) { c.Profile = nil },
		func(c *sim.Config) { c.Workload = nil },
		func(c *sim.Config) { c.CPUs = 0 },
		func(c *sim.Config) { c.CPUs = kernel.MaxCPUs + 1 },
		func(c *sim.Config) { c.Horizon = 0 },
		func(c *sim.Config) { c.Slack = -1 },
		func(c *sim.Config) { c.Profile = global },
	} {
		c := good
		change(&c)
		if _, err := sim.New(c); err == nil {
			t.Errorf("change %d was taken", i)
		}
	}
	if _, err := sim.LoadProfile("linus"); err == nil {
		t.Error("an unknown profile was found")
	}
}

// BenchmarkEvents is the machine under an agent with a policy: see BenchmarkMachine for the machine alone.
func BenchmarkEvents(b *testing.B) {
	for _, cpus := range []int{1, 8, 64} {
		for _, name := range []string{"fifo", "rr", "gittins"} {
			b.Run(fmt.Sprint("cpus=", cpus, "/", name), func(b *testing.B) {
				b.ReportAllocs()
				var events uint64
				for i := range b.N {
					w := &poisson{mean: 100e3 / 0.8 / float64(cpus), service: 100e3}
					_, m, _ := play(b, w, "ideal", cpus, kernel.Time(20000*w.mean), uint64(i), name, 50*kernel.Microsecond)
					events += m.Stats().Events
				}
				b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
