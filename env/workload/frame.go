package workload

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// frame is games that draw a frame every 16.7 ms by threads that wake each other, against batch work.
var frame = kind{
	name: "frame",
	doc: "Games of four threads: every 16.7 ms one of 2 ms wakes one of 3 ms and one of 1 ms, the former wakes one of 1.5 ms (lognormal); " +
		"and four hogs per CPU. The load is that of the games and sets their number.",
	cpus: 4, load: .45, sampled: .5, maxScale: 1.2,
	build: func(p Params, in *Instance) error {
		games := max(1, int(math.Round(p.Load*float64(p.CPUs)*framePeriod/(7.5e6*p.Scale))))
		if games > 1 && gamesLoad(games, &p) > maxLoad {
			games--
		}
		if p.Load = gamesLoad(games, &p); p.Load > maxLoad {
			return fmt.Errorf("one game alone needs a load of %.3g, at most %d is allowed: smaller scale or more cpus", p.Load, maxLoad)
		}
		in.Params = p
		in.Workload = newFrames(games, p.Scale, hogs(4*p.CPUs, p.Scale))
		in.Interarrival = kernel.Time(math.Round(framePeriod / float64(4*games)))
		in.MeanBurst = kernel.Time(math.Round(7.5e6 * p.Scale / 4))
		return nil
	},
}

const framePeriod = 16.7e6 // ns

func gamesLoad(games int, p *Params) float64 {
	return float64(games) * 7.5e6 * p.Scale / framePeriod / float64(p.CPUs)
}

// stages of a frame: mean burst in ns, and the threads of the game that each wakes at its end.
var stages = [4]struct {
	name  string
	mean  float64
	wakes []int
}{
	{"input", 2e6, []int{1, 2}},
	{"logic", 3e6, []int{3}},
	{"audio", 1e6, nil},
	{"render", 1.5e6, nil},
}

// frames is a workload of games and hogs.
type frames struct {
	hogs  *closed
	games []stage // four in a row are one game
	scale float64
}

func newFrames(games int, scale float64, h group) *frames {
	f := &frames{hogs: newClosed(h), games: make([]stage, 4*games), scale: scale}
	for i := range f.games {
		s := &f.games[i]
		s.game, s.index = f.games[i&^3:i&^3+4], i&3
		s.name = fmt.Sprintf("%s %d", stages[s.index].name, i/4)
		s.mean = stages[s.index].mean * scale
		s.rng = rand.New(&s.pcg)
	}
	return f
}

// Start implements sim.Workload.
func (f *frames) Start(m *sim.Sim) {
	for i := range f.games {
		s := &f.games[i]
		s.pcg.Seed(m.Stream(streamTask, uint64(i)))
		s.step, s.waker = stageWait, 0
		s.waits, s.again = s.index > 0, false
		s.due = kernel.Time(framePeriod * s.rng.Float64())
		s.wake = m.NewSemaphore(stages[s.index].name, 0)
	}
	for i := range f.games {
		m.Spawn(sim.TaskSpec{Program: &f.games[i], Name: f.games[i].name})
	}
	// The hogs' streams follow those of the games.
	for i := range f.hogs.workers {
		w := &f.hogs.workers[i]
		w.reset(m, uint64(len(f.games)+i))
		m.Spawn(sim.TaskSpec{Program: w, Name: w.name})
	}
}

// Arrive implements sim.Workload: nobody arrives later.
func (*frames) Arrive(*sim.Sim) {}

// stage is one thread of a game.
type stage struct {
	game  []stage
	name  string
	rng   *rand.Rand
	pcg   rand.PCG
	mean  float64
	due   kernel.Time // the first stage: when its next frame begins
	index int
	waker int   // how many of stages[index].wakes it has woken
	wake  int32 // the semaphore on which it waits
	step  stageStep
	waits bool // at its semaphore, or about to be
	again bool // woken while it was busy, once or more: one more frame follows
}

type stageStep uint8

const (
	stageWait stageStep = iota // about to wait for its frame
	stageRun                   // about to run
	stageWake                  // about to wake the others
)

// Next implements sim.Program. A frame that begins late moves the following ones: no frame is drawn twice as fast. Each frame is
// a burst of its own: one that is due already when the last ends begins after a block for no time.
func (s *stage) Next(m *sim.Sim, _ kernel.TaskID) sim.Op {
	switch s.step {
	case stageWait:
		s.step = stageRun
		if s.index == 0 {
			return sim.Op{Kind: sim.OpSleepUntil, Time: s.due}
		}
		return sim.Op{Kind: sim.OpAcquire, Ref: s.wake}
	case stageRun:
		s.step, s.waker = stageWake, 0
		return sim.Op{Kind: sim.OpRun, Time: max(MinBurst, kernel.Time(lognormal.draw(s.rng, s.mean)))}
	}
	for s.waker < len(stages[s.index].wakes) {
		other := &s.game[stages[s.index].wakes[s.waker]]
		s.waker++
		if other.waits {
			other.waits = false
			return sim.Op{Kind: sim.OpPost, Ref: other.wake}
		}
		other.again = true
	}
	s.step = stageRun
	if s.index == 0 {
		s.due = max(s.due+kernel.Time(framePeriod), m.Now())
		return sim.Op{Kind: sim.OpSleep, Time: s.due - m.Now()}
	}
	if s.again {
		s.again = false
		return sim.Op{Kind: sim.OpSleep}
	}
	s.waits = true
	return sim.Op{Kind: sim.OpAcquire, Ref: s.wake}
}
