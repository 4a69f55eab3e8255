// Package agent runs one enclave: it drains a kernel, asks a policy for placements and dispatches.
//
// An Agent is a scheduling core and a kernel with two half-turns between them. Observe runs turns until decisions wait for an
// answer; Place answers them and acts. Deployed, Run calls a policy between the halves; in training the caller does, so that what a
// learner trains against is the deployed agent.
//
//	for {
//		more, err := a.Observe()        // a.Batch() holds the open decisions
//		if err != nil || !more { break }
//		policy.Place(a.View(), a.Batch(), out)
//		if err := a.Place(out); err != nil { break }
//	}
//	err := a.Stop()
//
// # Timing
//
// Sync: the turn waits for the answer, and its cost is charged to the CPU that thinks. Async: tasks take their default place at
// once and the answer is applied Delay later, if it still can. Hold: as async, but the task is kept back until its answer or for at
// most Bound. Every decision ends in one fate; Stop checks that they add up.
package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/trace"
)

// Config says what an agent schedules and how. The core's topology and order are filled in.
type Config struct {
	Kernel    kernel.Kernel
	Core      sched.Config
	Timing    Timing
	Inference kernel.Time   // charged to the kernel per decision asked, where the kernel can be charged
	Until     kernel.Time   // the run covers [0, Until); 0: until the kernel is done
	Sinks     []trace.Sink  // are given every turn that did anything
	Policy    policy.Policy // for Run; what a policy wants to hear of bursts it is told whoever answers
	Interrupt func() error  // nil, or called now and then between turns, also where nothing is asked; its error ends Observe
}

// Charger is a kernel that can be charged for thinking: a simulated one.
type Charger interface {
	Charge(ch kernel.Channel, d kernel.Time)
}

// Scored is a policy that shows what it saw: the rows and scores of the last batch, in its order. Running tasks included.
type Scored interface {
	Rows() []float32
	Scores() []float32
}

// Agent schedules one enclave. It is used by one goroutine.
type Agent struct {
	cfg     Config
	core    sched.Core
	kernel  kernel.Kernel
	charger Charger
	bursts  policy.BurstObserver
	scored  Scored
	next    sched.Observer

	hash    trace.Hash
	turn    trace.Turn
	msgs    []kernel.Message
	txns    []kernel.Txn
	out     []sched.Placement
	late    lateAnswers
	lost    uint64
	stopped bool
	done    bool
	turns   uint64
}

// New makes an agent.
func New(cfg Config) (*Agent, error) {
	a := &Agent{}
	return a, a.Reset(cfg)
}

// Reset makes the agent new, keeping its memory.
func (a *Agent) Reset(cfg Config) error {
	if cfg.Kernel == nil {
		return errors.New("agent: a kernel is needed")
	}
	if err := cfg.Timing.check(); err != nil {
		return err
	}
	if cfg.Until == 0 {
		cfg.Until = kernel.Forever
	}
	cfg.Core.Topology = cfg.Kernel.Topology()
	a.cfg, a.kernel, a.next = cfg, cfg.Kernel, cfg.Core.Observer
	a.charger, _ = cfg.Kernel.(Charger)
	a.bursts, _ = cfg.Policy.(policy.BurstObserver)
	a.scored, _ = cfg.Policy.(Scored)
	if a.bursts != nil {
		cfg.Core.Observer = a
	}
	a.hash, a.lost, a.turns, a.stopped, a.done = 0, 0, 0, false, false
	a.msgs, a.txns, a.turn = a.msgs[:0], a.txns[:0], trace.Turn{}
	a.late.reset()
	return a.core.Reset(cfg.Core)
}

// View is what policies see.
func (a *Agent) View() *sched.View { return a.core.View() }

// Batch is the decisions that wait for an answer.
func (a *Agent) Batch() []sched.Decision { return a.core.Batch() }

// Core is the scheduling core, to be read.
func (a *Agent) Core() *sched.Core { return &a.core }

// Hash is the hash of everything that has crossed the seams so far.
func (a *Agent) Hash() trace.Hash { return a.hash }

// Turns is how many turns there have been.
func (a *Agent) Turns() uint64 { return a.turns }

// Lost is how many messages the kernel has lost.
func (a *Agent) Lost() uint64 { return a.lost }

// Now is the instant of the last turn, or the end of the run.
func (a *Agent) Now() kernel.Time { return a.core.View().Now }

// Dispatched passes the event on; Agent is the core's observer when a policy wants to hear of bursts.
func (a *Agent) Dispatched(t *sched.Task, at, wait kernel.Time, first bool) {
	if a.next != nil {
		a.next.Dispatched(t, at, wait, first)
	}
}

// BurstEnded tells the policy and passes the event on.
func (a *Agent) BurstEnded(t *sched.Task, at, burst kernel.Time) {
	a.bursts.BurstEnded(a.core.View(), int32(t.ID.Slot()), burst)
	if a.next != nil {
		a.next.BurstEnded(t, at, burst)
	}
}

// Observe runs turns until decisions wait for an answer (true), or the run is over (false): nothing is left to schedule, or Until
// is reached.
func (a *Agent) Observe() (bool, error) {
	for !a.done {
		if a.turns&1023 == 0 && a.cfg.Interrupt != nil {
			if err := a.cfg.Interrupt(); err != nil {
				return false, err
			}
		}
		until := min(a.cfg.Until, a.core.NextDeadline(), a.late.deadline())
		ch, msgs, err := a.kernel.Poll(a.msgs[:0], until)
		a.msgs = msgs
		if err != nil {
			var lost *kernel.LostError
			switch {
			case errors.As(err, &lost):
				a.lost += lost.Count
			case errors.Is(err, kernel.ErrDone):
				a.done = true
				return false, nil
			default:
				return false, fmt.Errorf("agent: poll: %w", err)
			}
		}
		now := a.kernel.Now()
		if ch < 0 {
			if now >= a.cfg.Until {
				a.core.View().Now = a.cfg.Until
				a.done = true
				return false, nil
			}
			if err := a.settleDeadlines(now); err != nil {
				return false, err
			}
			continue
		}
		a.begin(ch, now)
		a.core.Observe(ch, now, msgs)
		for i := range msgs {
			if msgs[i].Flags&kernel.FlagPinned != 0 {
				a.core.SetAffinity(msgs[i].Task, a.kernel.Affinity(msgs[i].Task))
			}
		}
		a.core.OpenBatch()
		if len(a.core.Batch()) > 0 {
			return true, nil
		}
		if err := a.act(ch, now); err != nil {
			return false, err
		}
	}
	return false, nil
}

// Place answers the batch that Observe left and acts on it. len(out) must be len(Batch()).
func (a *Agent) Place(out []sched.Placement) error {
	batch := a.core.Batch()
	if len(out) != len(batch) {
		return fmt.Errorf("agent: %d placements for %d decisions", len(out), len(batch))
	}
	if len(batch) == 0 {
		return errors.New("agent: no decision is open")
	}
	ch, now := a.turn.Channel, a.turn.Now
	a.turn.Decisions, a.turn.Placements = batch, out
	if a.scored != nil {
		a.turn.Rows, a.turn.Scores = a.scored.Rows(), a.scored.Scores()
	}
	if a.cfg.Timing.Mode == Sync {
		if a.charger != nil && a.cfg.Inference > 0 {
			a.charger.Charge(ch, a.cfg.Inference*kernel.Time(len(batch)))
		}
		a.core.Apply(now, out)
		return a.act(ch, now)
	}
	// the answers are under way when the tasks take their default places
	a.late.send(a.core.View(), batch, out, now+a.cfg.Timing.Delay+a.cfg.Inference*kernel.Time(len(batch)))
	hold := kernel.Time(0)
	if a.cfg.Timing.Mode == Hold {
		hold = a.cfg.Timing.Bound
	}
	a.core.Defer(now, hold)
	return a.act(ch, now)
}

// Run schedules with the configured policy until the run is over or ctx is cancelled, and stops.
func (a *Agent) Run(ctx context.Context) error {
	if a.cfg.Policy == nil {
		return errors.New("agent: Run needs a policy")
	}
	also := a.cfg.Interrupt
	a.cfg.Interrupt = func() error {
		if also != nil {
			if err := also(); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	for {
		more, err := a.Observe()
		if err != nil {
			return errors.Join(err, a.Stop())
		}
		if !more {
			return a.Stop()
		}
		n := len(a.core.Batch())
		for len(a.out) < n {
			a.out = append(a.out, sched.Placement{})
		}
		a.cfg.Policy.Place(a.core.View(), a.core.Batch(), a.out[:n])
		if err := a.Place(a.out[:n]); err != nil {
			return errors.Join(err, a.Stop())
		}
	}
}

// Stop ends the run: what is still open is abandoned, answers not applied are undelivered, and the fates must add up. It may be
// called more than once.
func (a *Agent) Stop() error {
	if a.stopped {
		return nil
	}
	a.stopped, a.done = true, true
	a.late.drop(&a.core)
	a.core.Stop()
	return a.core.Fates().Check(a.core.Open())
}

func (a *Agent) begin(ch kernel.Channel, now kernel.Time) {
	t := &a.turn
	t.Now, t.Channel, t.Messages, t.Answers = now, ch, a.msgs, t.Answers[:0]
	t.Decisions, t.Placements, t.Rows, t.Scores = nil, nil, nil, nil
}

// settleDeadlines applies the answers that have come and ends holds and decisions that are over, then lets each channel concerned
// act.
func (a *Agent) settleDeadlines(now kernel.Time) error {
	a.begin(-1, now)
	all := a.core.Expire(now)
	for {
		x, ok := a.late.due(now)
		if !ok {
			break
		}
		a.turn.Answers = append(a.turn.Answers, trace.Answer{ID: x.id, Task: x.task, Seq: x.seq, Placement: x.p})
		if x.id == 0 {
			a.core.Rekey(now, x.task, x.seq, x.p)
			continue
		}
		if ch := a.core.Answer(now, x.id, x.task, x.p); ch >= 0 {
			if all < 0 || all == ch {
				all = ch
			} else {
				all = sched.AllChannels
			}
		}
	}
	if all == sched.AllChannels {
		for ch := range a.kernel.Topology().Channels {
			if err := a.act(kernel.Channel(ch), now); err != nil {
				return err
			}
			a.turn.Answers = a.turn.Answers[:0]
		}
		return nil
	}
	return a.act(all, now)
}

// act turns queues into transactions, commits them, and closes the turn. Channel -1 acts for nobody.
func (a *Agent) act(ch kernel.Channel, now kernel.Time) error {
	a.txns = a.core.Act(ch, now, a.txns[:0])
	if len(a.txns) > 0 {
		if err := a.kernel.Commit(ch, a.txns); err != nil {
			return fmt.Errorf("agent: commit: %w", err)
		}
	}
	a.core.Settle(now, a.txns)
	a.turn.Channel, a.turn.Txns = ch, a.txns
	a.turns++
	a.hash.Turn(&a.turn)
	for _, s := range a.cfg.Sinks {
		if err := s.Turn(&a.turn); err != nil {
			return fmt.Errorf("agent: trace: %w", err)
		}
	}
	return nil
}
