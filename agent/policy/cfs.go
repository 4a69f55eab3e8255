package policy

import "github.com/ghostgym/ghostgym/agent/sched"

// cfs is least virtual runtime first. The core begins a new task a slice behind, and lets no waking task come from farther ahead
// than a slice, as Linux did (START_DEBIT and the sleeper credit of place_entity, kernel/sched/fair.c before EEVDF).
type cfs struct{}

func (cfs) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		t := v.Task(batch[i].Task)
		vruntime := t.VRuntime
		if t.State == sched.OnCPU && v.Now > t.Start {
			vruntime += float64(v.Now-t.Start) * 1024 / t.Weight
		}
		out[i] = sched.Placement{Key: vruntime, Slot: sched.Back}
	}
}
