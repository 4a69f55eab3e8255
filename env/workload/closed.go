package workload

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// law is a distribution of spans, given by its mean.
type law uint8

const (
	constant law = iota
	exponential
	pareto // bounded, shape 1.5, longest 1000 times the shortest
	lognormal
)

// draw gives a span in nanoseconds with the given mean.
func (l law) draw(r *rand.Rand, mean float64) float64 {
	switch l {
	case exponential:
		return mean * r.ExpFloat64()
	case pareto:
		const shape, ratio = 1.5, 1000
		tail := math.Pow(ratio, -shape)
		unit := shape / (shape - 1) * (1 - math.Pow(ratio, 1-shape)) / (1 - tail) // mean of the law whose shortest is 1
		return mean / unit * math.Pow(1-r.Float64()*(1-tail), -1/shape)
	case lognormal: // sigma .3, shifted so that the mean is the mean
		const sigma = .3
		return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
	}
	return mean
}

// group is a number of like tasks that alternate bursts and sleeps.
type group struct {
	name         string
	tasks        int
	burst, sleep law
	meanBurst    float64 // ns
	otherBurst   float64 // ns; if set, a task's mean changes between the two after 1 + exp(15) bursts
	spread       float64 // if set, means of the tasks are spread evenly in logarithm from meanBurst to spread times that
	meanSleep    float64 // ns, or
	utilisation  float64 // the share of time that a task wants to run, from which its mean sleep follows
	cycles       int     // bursts before it exits; -1: without end
	hog          bool    // runs burst after burst; a burst ends by blocking for no time
}

// sleepFor is the mean sleep that goes with a mean burst.
func (g *group) sleepFor(burst float64) float64 {
	if g.utilisation > 0 {
		return burst * (1/g.utilisation - 1)
	}
	return g.meanSleep
}

// meanOf is the mean burst of the task at u in [0, 1) of the group's spread.
func (g *group) meanOf(u float64) float64 {
	if g.spread > 0 {
		return g.meanBurst * math.Pow(g.spread, u)
	}
	return g.meanBurst
}

// closed is a workload of groups whose tasks never end or end after their cycles.
type closed struct {
	groups  []group
	workers []worker
}

func newClosed(groups ...group) *closed {
	c := &closed{groups: groups}
	for i := range groups {
		for j := range groups[i].tasks {
			c.workers = append(c.workers, worker{group: &groups[i], name: fmt.Sprintf("%s %d", groups[i].name, j), rank: j})
		}
	}
	for i := range c.workers {
		c.workers[i].rng = rand.New(&c.workers[i].pcg)
	}
	return c
}

// declare sets the nominal interarrival and burst of the tasks that are no hogs.
func (c *closed) declare(in *Instance) {
	var rate, work float64
	for i := range c.groups {
		g := &c.groups[i]
		if g.hog {
			continue
		}
		for j := range g.tasks {
			mean := g.meanOf((float64(j) + .5) / float64(g.tasks))
			if g.otherBurst > 0 {
				mean = (mean + g.otherBurst) / 2
			}
			r := 1 / (mean + g.sleepFor(mean))
			rate += r
			work += r * mean
		}
	}
	in.Workload = c
	in.Interarrival = kernel.Time(math.Round(1 / rate))
	in.MeanBurst = kernel.Time(math.Round(work / rate))
}

// Start implements sim.Workload.
func (c *closed) Start(m *sim.Sim) {
	for i := range c.workers {
		w := &c.workers[i]
		w.reset(m, uint64(i))
		m.Spawn(sim.TaskSpec{Program: w, Name: w.name})
	}
}

// Arrive implements sim.Workload: nobody arrives later.
func (*closed) Arrive(*sim.Sim) {}

// worker is one task of a group.
type worker struct {
	group       *group
	name        string
	rng         *rand.Rand
	pcg         rand.PCG
	mean, other float64 // of its bursts, now and after the change of phase
	sleep       float64 // mean
	rank        int     // in its group
	cycles      int     // bursts left, negative: without end
	left        int     // bursts until the means change places
	state       workerState
}

type workerState uint8

const (
	starting workerState = iota
	waiting
	running
)

func (w *worker) reset(m *sim.Sim, index uint64) {
	g := w.group
	w.pcg.Seed(m.Stream(streamTask, index))
	w.state = starting
	w.cycles = g.cycles
	w.mean = g.meanBurst
	if g.spread > 0 {
		w.mean = g.meanOf((float64(w.rank) + w.rng.Float64()) / float64(g.tasks))
	}
	w.other = g.otherBurst
	w.sleep = g.sleepFor(w.mean)
	if w.other > 0 {
		w.sleep = g.sleepFor((w.mean + w.other) / 2)
		if w.rng.Float64() < .5 {
			w.mean, w.other = w.other, w.mean
		}
		w.left = w.phaseLength()
	}
}

func (w *worker) phaseLength() int { return 1 + int(15*w.rng.ExpFloat64()) }

// Next implements sim.Program. Tasks start at a random point of their first cycle.
func (w *worker) Next(*sim.Sim, kernel.TaskID) sim.Op {
	g := w.group
	switch w.state {
	case starting:
		w.state = waiting
		span := w.mean + w.sleep
		if g.hog {
			span = hogStart
		}
		return sim.Op{Kind: sim.OpSleep, Time: kernel.Time(span * w.rng.Float64())}
	case waiting:
		if w.cycles == 0 {
			return sim.Op{Kind: sim.OpExit}
		}
		w.cycles--
		if w.other > 0 {
			if w.left == 0 {
				w.mean, w.other = w.other, w.mean
				w.left = w.phaseLength()
			}
			w.left--
		}
		w.state = running
		return sim.Op{Kind: sim.OpRun, Time: max(MinBurst, kernel.Time(g.burst.draw(w.rng, w.mean)))}
	}
	w.state = waiting
	if g.hog {
		return sim.Op{Kind: sim.OpSleep}
	}
	return sim.Op{Kind: sim.OpSleep, Time: kernel.Time(g.sleep.draw(w.rng, w.sleep))}
}

const (
	hogChunk = 20e6  // ns of work between two blocks
	hogStart = 100e3 // ns within which all hogs have started
)

// hogs want every CPU all the time, in chunks.
func hogs(n int, scale float64) group {
	return group{name: "hog", tasks: n, meanBurst: hogChunk * scale, cycles: -1, hog: true}
}

// sharedKind is a kind of tasks, five per CPU, that all want the same share of time; g has their bursts at scale 1.
func sharedKind(name, doc string, g group) kind {
	return kind{
		name: name, doc: doc,
		cpus: 8, load: .8, threads: true, sampled: 1, maxScale: maxScale,
		build: func(p Params, in *Instance) error {
			if p.Threads == 0 {
				p.Threads = 5 * p.CPUs
			}
			g := g
			g.name, g.tasks, g.cycles, g.sleep = "task", p.Threads, -1, exponential
			g.meanBurst *= p.Scale
			g.otherBurst *= p.Scale
			g.utilisation = p.Load * float64(p.CPUs) / float64(p.Threads)
			if g.utilisation >= 1 {
				return fmt.Errorf("threads %d: at load %.3g on %d CPUs at least %d are needed", p.Threads, p.Load, p.CPUs,
					int(p.Load*float64(p.CPUs))+1)
			}
			in.Params = p
			newClosed(g).declare(in)
			return nil
		},
	}
}
