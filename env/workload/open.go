package workload

import (
	"math"
	"math/rand/v2"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// Kinds of random streams; the index within streamTask is the task's number in order of creation.
const (
	streamTask uint64 = iota + 1
	streamArrivals
)

// open is an open loop: requests arrive as a Poisson process, each a task of one burst that is short or long.
type open struct {
	interarrival float64 // ns, mean
	short, long  kernel.Time
	share        float64 // of the long ones

	rng      *rand.Rand // arrivals
	pcg      rand.PCG
	burst    *rand.Rand // reseeded for each request
	burstPCG rand.PCG
	due      float64 // ns, the next arrival, unrounded so that rounding does not add up
	count    uint64
	all      []*request
	free     []*request
}

// request is reused as soon as its task has exited.
type request struct {
	loop  *open
	burst kernel.Time
	ran   bool
}

// openKind is a kind with two sorts of requests, in microseconds; the given share of them is long.
func openKind(name, doc string, short, long, share float64) kind {
	return kind{
		name: name, doc: "Open loop, Poisson: " + doc,
		cpus: 8, load: .8, sampled: 1, maxScale: maxScale,
		build: func(p Params, in *Instance) error {
			w := &open{short: nanos(short * p.Scale), long: nanos(long * p.Scale), share: share}
			w.rng, w.burst = rand.New(&w.pcg), rand.New(&w.burstPCG)
			mean := float64(w.short)*(1-share) + float64(w.long)*share
			w.interarrival = mean / (p.Load * float64(p.CPUs))
			in.Workload, in.Open = w, true
			in.Profile = "uthread"
			in.Slice = nanos(30 * p.Scale)
			in.Interarrival = max(1, kernel.Time(math.Round(w.interarrival)))
			in.MeanBurst = kernel.Time(math.Round(mean))
			return nil
		},
	}
}

// nanos converts microseconds of CPU time.
func nanos(us float64) kernel.Time { return max(MinBurst, kernel.Time(math.Round(us*1e3))) }

// Start implements sim.Workload.
func (w *open) Start(m *sim.Sim) {
	w.pcg.Seed(m.Stream(streamArrivals, 0))
	w.due, w.count = 0, 0
	w.free = append(w.free[:0], w.all...)
	w.ask(m)
}

func (w *open) ask(m *sim.Sim) {
	w.due += w.interarrival * w.rng.ExpFloat64()
	m.ArriveAt(kernel.Time(w.due))
}

// Arrive implements sim.Workload.
func (w *open) Arrive(m *sim.Sim) {
	var r *request
	if n := len(w.free); n > 0 {
		r, w.free = w.free[n-1], w.free[:n-1]
	} else {
		r = &request{loop: w}
		w.all = append(w.all, r)
	}
	w.burstPCG.Seed(m.Stream(streamTask, w.count))
	w.count++
	r.burst, r.ran = w.short, false
	if w.burst.Float64() < w.share {
		r.burst = w.long
	}
	m.Spawn(sim.TaskSpec{Program: r, Name: "request"})
	w.ask(m)
}

// Next implements sim.Program.
func (r *request) Next(*sim.Sim, kernel.TaskID) sim.Op {
	if !r.ran {
		r.ran = true
		return sim.Op{Kind: sim.OpRun, Time: r.burst}
	}
	r.loop.free = append(r.loop.free, r)
	return sim.Op{Kind: sim.OpExit}
}
