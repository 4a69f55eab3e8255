package sched

import "github.com/ghostgym/ghostgym/agent/kernel"

// grant is what a transaction of Act meant, for Settle.
type grant struct {
	task   int32
	victim int32 // the running task it replaces, −1 if the CPU was idle
	aged   bool
}

// Act appends the transactions of a channel's agent: tasks given to other channels, then each free CPU takes its queue's front, then
// wakeup preemption. They must be committed and settled before the next turn.
func (c *Core) Act(ch kernel.Channel, now Time, dst []kernel.Txn) []kernel.Txn {
	c.begin(now)
	c.granted = c.granted[:0]
	for _, i := range c.assign {
		if t := &c.tasks[i]; t.State == Queued || t.State == Held {
			dst = append(dst, kernel.Txn{Task: t.ID, CPU: c.queues[t.Queue].cpus[0], Barrier: t.Seq, Flags: kernel.TxnAssign})
			c.granted = append(c.granted, grant{task: i, victim: -1})
		}
	}
	c.assign = c.assign[:0]
	if ch < 0 {
		return dst
	}
	q := &c.queues[ch]
	for q.idle > 0 && q.len() > 0 {
		i, n, aged := c.next(q, now)
		if i < 0 {
			break
		}
		dst = c.grant(dst, q, i, n, -1, aged)
	}
	if q.asked && q.idle == 0 {
		dst = c.preempt(q, dst)
	}
	q.asked, q.acted = false, c.turn
	return dst
}

// next chooses a waiting task and an idle CPU for it: the task that is past the age bound, else the front; its previous CPU if that
// is idle, else the lowest-numbered idle one it may use.
func (c *Core) next(q *queue, now Time) (index int, n int32, aged bool) {
	if o := q.oldest; o >= 0 && now-c.tasks[o].Since > c.cfg.AgeBound {
		if n := c.idleFor(q, &c.tasks[o]); n >= 0 {
			return q.find(o), n, true
		}
	}
	if q.pinned == 0 {
		return 0, c.idleFor(q, &c.tasks[q.at(0).task]), false
	}
	for i := range q.len() {
		if n := c.idleFor(q, &c.tasks[q.at(i).task]); n >= 0 {
			return i, n, false
		}
	}
	return -1, -1, false
}

func (c *Core) idleFor(q *queue, t *Task) int32 {
	if n := t.CPU; n >= 0 && c.cpus[n].task < 0 && c.cpus[n].available && &c.queues[max(c.cpus[n].queue, 0)] == q && c.mayUse(t, n) {
		return n
	}
	for _, n := range q.cpus {
		if c.cpus[n].task < 0 && c.cpus[n].available && c.mayUse(t, n) {
			return n
		}
	}
	return -1
}

func (c *Core) grant(dst []kernel.Txn, q *queue, index int, n, victim int32, aged bool) []kernel.Txn {
	t := &c.tasks[q.at(index).task]
	q.remove(index)
	c.unlink(q, t)
	slice := t.Slice
	if slice <= 0 {
		slice = c.cfg.Slice
	}
	t.State = OnCPU
	c.occupy(n, int32(t.slot))
	c.granted = append(c.granted, grant{task: int32(t.slot), victim: victim, aged: aged})
	return append(dst, kernel.Txn{Task: t.ID, CPU: n, Barrier: t.Seq, Slice: slice})
}

// preempt lets waking and new tasks that were placed since the queue's agent acted last take CPUs from running tasks with greater
// keys, the worst first. With a queue per CPU, another agent's turn may have placed them.
func (c *Core) preempt(q *queue, dst []kernel.Txn) []kernel.Txn {
	for q.len() > 0 {
		t := &c.tasks[q.at(0).task]
		if t.batch <= q.acted || !comesAnew(t.Reason) {
			break
		}
		worst, key := int32(-1), t.Key
		for _, n := range q.cpus {
			if !c.cpus[n].available || c.cpus[n].task < 0 || !c.mayUse(t, n) {
				continue
			}
			if r := &c.tasks[c.cpus[n].task]; r.State == OnCPU && !r.Safe && r.Key > key {
				worst, key = n, r.Key
			}
		}
		if worst < 0 {
			break
		}
		dst = c.grant(dst, q, 0, worst, c.cpus[worst].task, false)
	}
	return dst
}

// Settle takes in the outcomes of the transactions that the last Act appended, in the same order.
func (c *Core) Settle(now Time, txns []kernel.Txn) {
	for i := range txns {
		x, g := &txns[i], c.granted[i]
		c.refused[x.State]++
		t := &c.tasks[g.task]
		switch {
		case x.Flags&kernel.TxnAssign != 0:
			if x.State == kernel.StateDone {
				t.channel = t.Queue
			}
		case x.State == kernel.StateDone:
			c.dispatched(t, x, g)
		default:
			c.takeBack(t, x, g)
		}
	}
	c.granted, c.inTurn = c.granted[:0], false
}

func (c *Core) dispatched(t *Task, x *kernel.Txn, g grant) {
	c.stopWaiting(t, x.At)
	if g.victim >= 0 {
		c.tasks[g.victim].State = Displaced
	}
	wait := max(x.At-t.Since, 0)
	first := !t.ran
	t.ran, t.CPU, t.Start, t.Safe, t.channel = true, x.CPU, x.At, g.aged, t.Queue
	t.Waited += wait
	if g.aged {
		c.fates.Aged++
	}
	if q := &c.queues[t.Queue]; t.VRuntime > q.minV {
		q.minV = t.VRuntime
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Dispatched(t, x.At, wait, first)
	}
}

// takeBack undoes a grant that the kernel refused: the task keeps its place, and news of it is on the way.
func (c *Core) takeBack(t *Task, x *kernel.Txn, g grant) {
	if g.victim >= 0 {
		c.cpus[x.CPU].task = g.victim
	} else {
		c.vacate(x.CPU)
	}
	switch x.State {
	case kernel.StateNotFound:
		c.stopWaiting(t, c.now)
		c.supersede(t)
		t.State = Gone
		return
	case kernel.StateUnavailable:
		c.setAvailable(x.CPU, false)
	}
	q := &c.queues[t.Queue]
	t.State = Queued
	at := 0
	if c.cfg.Order == ByKey {
		at = q.place(t.Key, t.serial)
	}
	q.insert(at, entry{key: t.Key, serial: t.serial, task: int32(t.slot)})
	c.link(q, t)
	if t.pinned {
		q.pinned++
	}
}
