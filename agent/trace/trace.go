package trace

import (
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Turn is one turn of one agent: what it was told, what it decided and what became of that.
type Turn struct {
	Now     kernel.Time
	Channel kernel.Channel // -1: no channel spoke, a deadline or a late answer was due

	Messages  []kernel.Message
	Decisions []sched.Decision
	Rows      []float32 // what the policy saw, one row per decision; empty where it reads no rows
	Scores    []float32 // what it made of them, as many per decision as it gives; empty where it gives none

	Placements []sched.Placement // one per decision
	Answers    []Answer          // to decisions of earlier turns
	Txns       []kernel.Txn      // with outcomes
}

// Answer is an answer that came after its turn.
type Answer struct {
	ID        uint64 // of the decision; 0: a new key for a running task
	Task      kernel.TaskID
	Seq       uint32 // of a new key: the task's sequence number when it was asked
	Placement sched.Placement
}

// Sink takes turns, in order.
type Sink interface {
	// Turn is told what happened. The turn and its slices are only valid during the call.
	Turn(t *Turn) error
}
