package policy

import "github.com/ghostgym/ghostgym/agent/sched"

// front is the front of the queue.
type front struct{}

func (front) Place(_ *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		out[i] = sched.Placement{Key: sched.Behind, Slot: 0}
	}
}
