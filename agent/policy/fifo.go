package policy

import (
	"math"

	"github.com/ghostgym/ghostgym/agent/sched"
)

// fifo is the back of the queue for who arrives and the front for who lost its CPU while it could still run, as in ghOSt's
// per-CPU and centralized FIFO agents. A running task is never worse than a waiting one.
type fifo struct{}

func (fifo) Place(_ *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		out[i] = sched.ToBack()
		if batch[i].Reason == sched.ReasonPreempt || batch[i].Running {
			out[i].Key, out[i].Slot = math.Inf(-1), 0
		}
	}
}
