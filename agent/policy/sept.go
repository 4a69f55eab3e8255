package policy

import "github.com/ghostgym/ghostgym/agent/sched"

// sept is shortest expected burst first. A burst that has overrun what was expected is expected to be twice what it has used.
type sept struct{}

func (sept) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		t := v.Task(batch[i].Task)
		key := t.Expect
		if a := float64(t.Attained(v.Now)); a > key {
			key = 2 * a
		}
		out[i] = sched.Placement{Key: key, Slot: sched.Back}
	}
}
