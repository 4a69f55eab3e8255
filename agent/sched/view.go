package sched

// View is what a policy sees while it decides: the machine before any task of the batch is placed. It is valid until the batch
// is placed, and nothing in it may be changed.
type View struct {
	c *Core
	// Now is the instant of the turn.
	Now Time
}

// Order is how queues are kept.
func (v *View) Order() Order { return v.c.cfg.Order }

// Task is the task of a decision or of another index that the core handed out.
func (v *View) Task(index int32) *Task { return &v.c.tasks[index] }

// Len is how many tasks wait in a queue, those of the batch excluded.
func (v *View) Len(queue int32) int { return v.c.queues[queue].len() }

// Waiting is the task at place i of a queue, 0 is the front.
func (v *View) Waiting(queue int32, i int) *Task {
	return &v.c.tasks[v.c.queues[queue].at(i).task]
}

// Queues is how many queues there are.
func (v *View) Queues() int { return len(v.c.queues) }

// CPUs is how many CPUs a queue serves.
func (v *View) CPUs(queue int32) int { return len(v.c.queues[queue].cpus) }

// MinVRuntime is a queue's clock of virtual runtime in ns: it never goes back, and no task joins far behind it.
func (v *View) MinVRuntime(queue int32) float64 { return v.c.queues[queue].minV }

// Stats is what the machine as a whole has shown.
func (v *View) Stats() *Stats { return &v.c.stats }

// Slice is the common slice.
func (v *View) Slice() Time { return v.c.cfg.Slice }

// LnSlice is the logarithm of the common slice in ns.
func (v *View) LnSlice() float64 { return v.c.lnSlice }
