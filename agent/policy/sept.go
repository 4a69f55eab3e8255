package policy

import "github.com/ghostgym/ghostgym/agent/sched"

// sept is shortest expected burst first: the moving average of a task's bursts, or the geometric mean of all for a task that has
// had none. A burst that has overrun what was expected is expected to be twice what it has used.
type sept struct{}

func (sept) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	unknown := v.Stats().Ref
	for i := range batch {
		t := v.Task(batch[i].Task)
		key := unknown
		if t.Bursts > 0 {
			key = t.MeanBurst
		}
		if a := float64(t.Attained(v.Now)); a > key {
			key = 2 * a
		}
		out[i] = sched.Placement{Key: key, Slot: sched.Back}
	}
}
