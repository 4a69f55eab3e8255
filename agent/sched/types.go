package sched

import (
	"fmt"
	"math"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/spell"
)

// Time is the kernel's.
type Time = kernel.Time

// Slots is how many places from the front a policy may name; one more, Back, is behind all.
const (
	Slots       = 8
	Back  int32 = Slots
)

// Order is how a queue is kept.
type Order uint8

// A policy names a place, or gives each task a number.
const (
	BySlot Order = iota
	ByKey
)

func (o Order) String() string { return [...]string{"slot", "key"}[o&1] }

// Behind is the key that puts a task behind all others: the default.
var Behind = math.Inf(1)

// Events is which enqueues ask the policy.
type Events uint8

// What is asked.
const (
	EventsDefault Events = iota // every enqueue whose answer can matter
	EventsFork                  // a new task, the first wakeup of a task without a CPU, a yield, a preemption
	EventsAll                   // trivial ones too
)

var eventNames = [...]string{"default", "fork", "all"}

func (e Events) String() string { return eventNames[e] }

// ParseEvents reads the name of a choice of events.
func ParseEvents(s string) (Events, error) {
	for i, n := range eventNames {
		if s == n {
			return Events(i), nil
		}
	}
	return 0, fmt.Errorf("events: %q is none of %s%s", s, strings.Join(eventNames[:], ", "), spell.Hint(s, eventNames[:]))
}

// Reason is why a task needs a place.
type Reason uint8

// Reasons.
const (
	ReasonNew Reason = iota
	ReasonWakeup
	ReasonYield
	ReasonPreempt
)

func (r Reason) String() string { return [...]string{"new", "wakeup", "yield", "preempt"}[r&3] }

// Decision asks where a task goes.
type Decision struct {
	ID      uint64 // 0 for a running task
	Task    int32  // index for View.Task
	Queue   int32
	Seq     uint32 // the task's sequence number when it was asked
	Reason  Reason
	Running bool // wakeup preemption asks for this running task's key; its answer re-keys it and has no fate
}

// Source is who answered, and why.
type Source uint8

// Sources.
const (
	FromPolicy        Source = iota
	FallbackFailed           // the fallback, since the model failed
	FallbackNonFinite        // the fallback, since the model's scores were not finite
	numSources
)

// NumSources is the number of sources.
const NumSources = int(numSources)

// Fallback reports whether the fallback answered.
func (s Source) Fallback() bool { return s != FromPolicy }

// Placement answers a Decision. A queue uses the field of its order and ignores the other.
type Placement struct {
	Key     float64     // smaller goes first; NaN counts as Behind
	Slice   kernel.Time // 0: the common slice
	Slot    int32       // 0 is the front, Back behind all; out of range counts as Back
	Source  Source
	Clipped bool // the policy gave what the action space does not hold; the other fields are what was made of it
}

// ToBack is the default place under either order.
func ToBack() Placement { return Placement{Key: Behind, Slot: Back} }

// Fates counts what became of decisions. Requested is the sum of the first seven.
type Fates struct {
	Applied     uint64 `json:"applied" msgpack:"applied"`         // took effect, Fallback included
	Late        uint64 `json:"late" msgpack:"late"`               // the task had left the queue when the answer came
	Superseded  uint64 `json:"superseded" msgpack:"superseded"`   // the task died, left, or was asked for anew
	Expired     uint64 `json:"expired" msgpack:"expired"`         // no answer within its time to live
	Dropped     uint64 `json:"dropped" msgpack:"dropped"`         // too many outstanding: never sent
	Undelivered uint64 `json:"undelivered" msgpack:"undelivered"` // answered, but the agent stopped before it could apply
	Abandoned   uint64 `json:"abandoned" msgpack:"abandoned"`     // outstanding when the agent stopped

	Requested uint64 `json:"requested" msgpack:"requested"`
	Fallback  uint64 `json:"fallback" msgpack:"fallback"` // of the applied: answered by the fallback
	Trivial   uint64 `json:"trivial" msgpack:"trivial"`   // enqueues that were not asked
	Aged      uint64 `json:"aged" msgpack:"aged"`         // dispatches forced by the age bound
	Stale     uint64 `json:"stale" msgpack:"stale"`       // answers to an id never issued, answered before, or for another task
	Unused    uint64 `json:"unused" msgpack:"unused"`     // first answers to decisions already closed
	Clipped   uint64 `json:"clipped" msgpack:"clipped"`   // answers out of range or not a number
}

// Check reports an error if the fates do not add up to what was requested, open decisions included.
func (f *Fates) Check(open int) error {
	sum := f.Applied + f.Late + f.Superseded + f.Expired + f.Dropped + f.Undelivered + f.Abandoned
	if sum+uint64(open) != f.Requested {
		return fmt.Errorf("sched: fates do not add up: %d requested, %d ended, %d open", f.Requested, sum, open)
	}
	return nil
}

// Add adds the counts of another run.
func (f *Fates) Add(o *Fates) {
	f.Applied += o.Applied
	f.Late += o.Late
	f.Superseded += o.Superseded
	f.Expired += o.Expired
	f.Dropped += o.Dropped
	f.Undelivered += o.Undelivered
	f.Abandoned += o.Abandoned
	f.Requested += o.Requested
	f.Fallback += o.Fallback
	f.Trivial += o.Trivial
	f.Aged += o.Aged
	f.Stale += o.Stale
	f.Unused += o.Unused
	f.Clipped += o.Clipped
}

// AppliedShare is the share of requested decisions that took effect, answered by the policy itself; NaN of none.
func (f *Fates) AppliedShare() float64 {
	return float64(f.Applied-f.Fallback) / float64(f.Requested)
}

// Observer is told what a collector of figures needs. Its methods must not keep the Task.
type Observer interface {
	// Dispatched: t has a CPU from at on, after waiting in the queue for wait; first: since its wakeup.
	Dispatched(t *Task, at, wait Time, first bool)
	// BurstEnded: t blocked or left at the instant given, having used burst of CPU since its wakeup.
	BurstEnded(t *Task, at, burst Time)
}
