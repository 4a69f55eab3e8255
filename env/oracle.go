package env

import (
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Oracle gives each task its true remaining burst as key: shortest remaining processing time, which only a simulator can tell. It
// is the yardstick of what any policy could reach.
type Oracle struct{ Sim *sim.Sim }

// Place answers from the future.
func (o *Oracle) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		out[i] = sched.Placement{Key: float64(o.Sim.BurstLeft(v.Task(batch[i].Task).ID)), Slot: sched.Back}
	}
}
