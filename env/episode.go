package env

import (
	"errors"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Episode is a machine stepped decision by decision: an explicit state machine suspended between the agent's two half-turns.
//
// Each step answers one decision. Time stands still until the batch is answered; then the placements apply in order, the agent acts,
// and the machine goes on to its next decision.
type Episode struct {
	Machine
	schema *feature.Schema

	at      int // in the batch
	answers []sched.Placement
	illegal int64
	steps   int64
	over    bool
	opening bool        // the first decision has not come yet
	waiting bool        // what was begun met ErrUnderWay
	before  kernel.Time // when it was begun
	last    step
	carried step // what passed before the first decision: it comes with the step that closes the first batch
}

// step is what a step, or a reset, leaves behind.
type step struct {
	reward     float64
	dt         int64
	terminated bool
	truncated  bool
}

// ErrOver is returned by a step before the first reset, or after the end of an episode.
var ErrOver = errors.New("no episode is running: reset first")

// ErrUnderWay says that time has passed for long without a decision, so that whoever waits may look round: Resume goes on.
var ErrUnderWay = errors.New("time is still passing")

// Reset starts an episode and goes on to its first decision. An episode that asks nothing has one step, which ends it.
func (e *Episode) Reset(s Setup, schema *feature.Schema) error {
	e.over, e.waiting = true, false
	s.Order, s.Policy = schema.Order(), nil
	if err := e.Machine.Reset(s); err != nil {
		return err
	}
	e.schema = schema
	e.at, e.illegal, e.steps, e.over, e.last, e.carried = 0, 0, 0, false, step{}, step{}
	e.opening, e.before = true, e.Agent.Now()
	return e.Resume()
}

// Resume goes on to the next batch, from where a reset or an answer left off or met ErrUnderWay.
func (e *Episode) Resume() error {
	more, r, err := e.Observe()
	if err != nil {
		e.waiting = errors.Is(err, ErrUnderWay)
		e.over = !e.waiting
		return err
	}
	e.waiting, e.at = false, 0
	e.last.reward += r + e.carried.reward
	e.last.dt = int64(e.Agent.Now()-e.before) + e.carried.dt
	e.carried = step{}
	if !more {
		e.over = true
		e.last.terminated = e.Agent.Now() < e.horizon
		e.last.truncated = !e.last.terminated
	}
	for len(e.answers) < len(e.Agent.Batch()) {
		e.answers = append(e.answers, sched.Placement{})
	}
	if e.opening {
		e.opening, e.carried = false, e.last
	} else {
		e.limit()
	}
	return nil
}

// limit ends an episode that has had its steps. The decision that is open then is the last observation.
func (e *Episode) limit() {
	if limit := e.setup.MaxSteps; limit > 0 && e.steps >= limit && !e.over {
		e.over, e.cut, e.last.truncated = true, true, true
		e.last.reward += e.carried.reward // of a first batch that no step will close
		e.last.dt += e.carried.dt
		e.carried = step{}
	}
}

// observation writes the open decision's row and, for slot schemas, its mask. At the end of the work or the horizon there is no
// decision: every value is zero, presence bits included, and only the back is legal.
func (e *Episode) observation(row []float32, mask []uint8) {
	if e.over && !e.cut {
		clear(row)
		if len(mask) > 0 {
			clear(mask)
			mask[len(mask)-1] = 1
		}
		return
	}
	d := &e.Agent.Batch()[e.at]
	e.schema.Encode(e.Agent.View(), d, row)
	if len(mask) > 0 {
		e.schema.Mask(e.Agent.View(), d, mask)
	}
}

// decodeSlot reads an action of Discrete(9); mask is the one that came with the observation. An illegal one means the back.
func (e *Episode) decodeSlot(action int64, mask []uint8) (p sched.Placement, legal bool) {
	if action != int64(int32(action)) {
		action = -1
	}
	slot, legal := feature.DecodeSlot(int(action), mask)
	return sched.Placement{Key: sched.Behind, Slot: slot, Clipped: !legal}, legal
}

// decodeKey reads a key. One out of bounds is clipped, and what is not a number goes behind all: neither is legal.
func (e *Episode) decodeKey(action float32) (p sched.Placement, legal bool) {
	key, clipped := e.schema.DecodeKey(action)
	return sched.Placement{Key: key, Slot: sched.Back, Clipped: clipped}, !clipped
}

// answer takes a step: it gives the open decision its placement.
func (e *Episode) answer(p sched.Placement, legal bool) error {
	if e.over && e.steps == 0 { // it ended without asking anything: its one step says so
		e.steps = 1
		return nil
	}
	if e.over {
		return ErrOver
	}
	if !legal {
		e.illegal++
	}
	e.last = step{}
	e.answers[e.at] = p
	e.at++
	e.steps++
	n := len(e.Agent.Batch())
	if e.at < n {
		e.limit()
		return nil
	}
	if err := e.Agent.Place(e.answers[:n]); err != nil {
		e.over = true
		return err
	}
	e.before = e.Agent.Now()
	return e.Resume()
}
