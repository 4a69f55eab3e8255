package policy

import "github.com/ghostgym/ghostgym/agent/sched"

// las is least attained service first: optimal for bursts whose hazard rate falls.
type las struct{}

func (las) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		out[i] = sched.Placement{Key: float64(v.Task(batch[i].Task).Attained(v.Now)), Slot: sched.Back}
	}
}
