package policy

import "github.com/ghostgym/ghostgym/agent/sched"

// rr is the back of the queue.
type rr struct{}

func (rr) Place(_ *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		out[i] = sched.ToBack()
	}
}
