// Package sched is the scheduling core: it turns a kernel's messages into task states and run queues, opens a decision
// whenever a task needs a place, and turns queues into transactions. It is pure: no clock, no goroutine, no I/O, and no
// allocation per turn. It knows neither policies nor kernels, only what passes between them.
//
// # A turn
//
//	core.Observe(ch, now, messages)     // states change
//	core.OpenBatch()                    // the decisions of this turn are core.Batch()
//	core.Apply(now, placements)         // sync: place each task of the batch, or
//	core.Defer(now, hold)               // async, hold: default places now, answers later through core.Answer
//	txns = core.Act(ch, now, txns[:0])  // free CPUs take the front of their queue
//	kernel.Commit(ch, txns)
//	core.Settle(now, txns)              // outcomes
//
// Between Observe and Apply (or Defer) the View is frozen: queues do not hold the tasks of the batch. Placements apply in the
// order of the batch. Deadlines (the end of a hold, the time to live of a decision) are served by Expire, at NextDeadline.
//
// # Queues
//
// There is one queue per channel of the kernel: one for the machine, or one per CPU. A queue is ordered by slots or by keys,
// for life. Slot k means "before the task seen at slot k"; if that one has left meanwhile, before the next of the seen ones that
// still waits, and at the front when none does. Keys: smaller first, ties by arrival.
//
// # Decisions and fates
//
// Every decision that was asked ends in exactly one fate (see Fates), and Fates.Check verifies it.
//
// # Age bound
//
// A task that has waited longer than Config.AgeBound goes first whatever its place, and is safe from wakeup preemption until it
// leaves the CPU. No policy can overrule it.
package sched
