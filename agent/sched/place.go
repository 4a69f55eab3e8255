package sched

import (
	"math"
	"slices"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// openBatch decides for each pending task which queue it goes to and whether the policy is asked, gives those that are not
// their default place, and opens decisions for the others.
func (c *Core) openBatch() {
	for _, i := range c.pending {
		t := &c.tasks[i]
		c.chooseQueue(t)
		c.queues[t.Queue].pending++
	}
	for i := range c.queues {
		q := &c.queues[i]
		if q.pending > 0 {
			q.trivial = c.isTrivial(q)
			q.seenN = 0
		}
	}
	asked := c.pending[:0]
	for _, i := range c.pending {
		t := &c.tasks[i]
		if c.asks(t) {
			asked = append(asked, i)
			continue
		}
		c.fates.Trivial++
		t.batch = 0
		t.State = Queued // its place is taken below, once nothing is judged by the length of queues any more
		c.trivials = append(c.trivials, i)
	}
	c.pending = asked
	for _, i := range c.trivials {
		c.enqueue(&c.tasks[i], ToBack())
	}
	c.trivials = c.trivials[:0]
	for _, i := range c.pending {
		t := &c.tasks[i]
		c.supersede(t)
		c.nextID++
		t.decision = c.nextID
		c.fates.Requested++
		c.batch = append(c.batch, Decision{ID: c.nextID, Task: i, Queue: t.Queue, Seq: t.Seq, Reason: t.Reason})
		if q := &c.queues[t.Queue]; c.cfg.Order == BySlot && q.seenN == 0 {
			q.remember()
		}
	}
	for i := range c.queues {
		q := &c.queues[i]
		if c.cfg.Preempt && q.pending > 0 && q.idle == 0 && len(c.pending) > 0 {
			c.askRunning(int32(i), q)
		}
		q.pending = 0
	}
}

func (c *Core) isTrivial(q *queue) bool {
	if c.cfg.Order == BySlot {
		return q.len() == 0
	}
	return !c.cfg.Preempt && q.len() == 0 && q.pending <= q.idle
}

func (c *Core) asks(t *Task) bool {
	switch c.cfg.Events {
	case EventsAll:
		return true
	case EventsFork:
		return t.Reason != ReasonWakeup || t.CPU == kernel.NoCPU
	}
	return !c.queues[t.Queue].trivial
}

// askRunning adds a row for each running task of the queue, in CPU order, so that keys compare what is true now: if the batch has
// a task that comes anew. A preempted task does not preempt in its turn, or two tasks that a policy judges differently running and
// waiting would take the CPU from each other for ever, without any time passing.
func (c *Core) askRunning(index int32, q *queue) {
	if !slices.ContainsFunc(c.batch, func(d Decision) bool { return d.Queue == index && comesAnew(d.Reason) }) {
		return
	}
	q.asked = true
	for _, n := range q.cpus {
		if i := c.cpus[n].task; i >= 0 {
			t := &c.tasks[i]
			c.batch = append(c.batch, Decision{Task: i, Queue: index, Seq: t.Seq, Reason: t.Reason, Running: true})
		}
	}
}

func comesAnew(r Reason) bool { return r == ReasonNew || r == ReasonWakeup }

// chooseQueue picks the queue before the features are read. With one queue per CPU: the previous CPU if it is idle, else the
// lowest-numbered idle one, else the previous; new tasks take CPUs in turn as their previous one. Who was preempted or yields
// stays where it is.
func (c *Core) chooseQueue(t *Task) {
	from := t.Queue
	to := int32(0)
	if len(c.queues) > 1 {
		to = c.cpus[c.chooseCPU(t)].queue
	}
	q := &c.queues[to]
	if comesAnew(t.Reason) {
		if from >= 0 && from != to { // virtual times of different queues are compared by their distance from the queue's clock
			t.VRuntime += q.minV - c.queues[from].minV
		}
		slice := float64(c.cfg.Slice)
		if c.cfg.Slice == kernel.Forever {
			slice = 0
		}
		if t.Reason == ReasonNew { // as if its first slice were used: else a stream of new tasks would always go first
			t.VRuntime = q.minV + slice*1024/t.Weight
		} else { // who slept is not far behind the others
			t.VRuntime = max(t.VRuntime, q.minV-slice)
		}
	}
	t.Queue = to
	if int32(c.channel) != to && t.channel != to {
		c.assign = append(c.assign, int32(t.slot))
	}
}

func (c *Core) chooseCPU(t *Task) int32 {
	prev := t.CPU
	if prev != kernel.NoCPU && (t.Reason == ReasonPreempt || t.Reason == ReasonYield) && c.mayUse(t, prev) {
		return prev
	}
	if prev == kernel.NoCPU || !c.mayUse(t, prev) {
		for range c.cpus {
			prev = int32(c.nextCPU % len(c.cpus))
			c.nextCPU++
			if c.mayUse(t, prev) {
				break
			}
		}
	}
	if c.isFree(prev) {
		return prev
	}
	for n := range c.cpus {
		if c.isFree(int32(n)) && c.mayUse(t, int32(n)) {
			return int32(n)
		}
	}
	return prev
}

func (c *Core) mayUse(t *Task, n int32) bool {
	return c.cpus[n].queue >= 0 && (!t.pinned || t.allowed.Has(n))
}

// isFree reports whether a CPU with a queue of its own has nothing to run and nothing waiting for it.
func (c *Core) isFree(n int32) bool {
	p := &c.cpus[n]
	if p.queue < 0 || p.task >= 0 || !p.available {
		return false
	}
	q := &c.queues[p.queue]
	return q.len() == 0 && q.pending == 0
}

// Apply places the batch, each task by its answer, in order. len(out) is len(Batch()).
func (c *Core) Apply(now Time, out []Placement) {
	for i := range c.batch {
		d, t := &c.batch[i], &c.tasks[c.batch[i].Task]
		if d.Running {
			t.Key = c.cleanKey(out[i])
			continue
		}
		c.fates.Applied++
		if out[i].Source.Fallback() {
			c.fates.Fallback++
		}
		t.decision, t.batch = 0, c.turn
		c.enqueue(t, out[i])
	}
	c.batch, c.pending = c.batch[:0], c.pending[:0]
}

// Defer gives every task of the batch its default place, or keeps it back for at most hold when hold is positive, and leaves
// its decision open for Answer. Rows of running tasks are forgotten: see Rekey. It returns how many decisions were dropped
// because too many are open already.
func (c *Core) Defer(now, hold Time) (dropped int) {
	for i := range c.batch {
		d := &c.batch[i]
		if d.Running {
			continue
		}
		t := &c.tasks[d.Task]
		t.batch = c.turn
		if c.flight.open >= c.cfg.MaxInFlight {
			c.fates.Dropped++
			t.decision = 0
			dropped++
			c.enqueue(t, ToBack())
			continue
		}
		r := c.flight.add(d.ID, t.ID, now+c.cfg.TTL)
		if c.cfg.Order == BySlot {
			q := &c.queues[d.Queue]
			r.seen, r.seenN = q.seen, q.seenN
		}
		if hold > 0 {
			t.State = Held
			c.flight.hold(int32(t.slot), d.ID, min(now+hold, t.Since+c.cfg.AgeBound))
		} else {
			c.enqueue(t, ToBack())
		}
		r.serial = t.serial
	}
	c.batch, c.pending = c.batch[:0], c.pending[:0]
	return dropped
}

// Answer applies an answer that comes after its turn, if it still can, and settles the decision's fate. It returns the channel
// whose agent must act on it, or -1 if nothing has changed.
func (c *Core) Answer(now Time, id uint64, task kernel.TaskID, p Placement) kernel.Channel {
	c.begin(now)
	r := c.flight.get(id)
	if r == nil || r.task != task || r.answered {
		c.fates.Stale++
		return -1
	}
	r.answered = true
	if r.closed {
		c.fates.Unused++
		return -1
	}
	t := &c.tasks[task.Slot()]
	c.flight.close(r)
	t.decision = 0
	if t.serial != r.serial || t.State != Queued && t.State != Held {
		c.fates.Late++
		return -1
	}
	c.fates.Applied++
	if p.Source.Fallback() {
		c.fates.Fallback++
	}
	q := &c.queues[t.Queue]
	if t.State == Queued {
		q.remove(q.find(int32(t.slot)))
		c.unlink(q, t)
	} else {
		c.flight.release(t)
	}
	q.seen, q.seenN = r.seen, r.seenN
	t.batch = c.turn
	c.enqueue(t, p)
	return kernel.Channel(t.Queue)
}

// Rekey gives a running task a new key, if nothing has happened to it since it was asked with this sequence number.
func (c *Core) Rekey(now Time, task kernel.TaskID, seq uint32, p Placement) {
	c.begin(now)
	if s := task.Slot(); int(s) < len(c.tasks) && c.tasks[s].ID == task && c.tasks[s].Seq == seq && c.tasks[s].State == OnCPU {
		t := &c.tasks[s]
		t.Key = c.cleanKey(p)
		c.queues[t.Queue].asked = true
	}
}

// begin starts a turn without messages, for answers and deadlines, unless one is under way.
func (c *Core) begin(now Time) {
	if c.inTurn {
		return
	}
	c.advance(now)
	c.now, c.view.Now, c.inTurn = now, now, true
	c.turn++
	c.assign = c.assign[:0]
}

// NextDeadline is when Expire has something to do: the end of a hold, or of a decision's time to live. Forever: never.
func (c *Core) NextDeadline() Time { return c.flight.deadline() }

// AllChannels is returned where more than one channel's agent must act.
const AllChannels kernel.Channel = 1 << 30

// Expire ends holds and decisions whose time is up. It returns whose agent must act: a channel, AllChannels, or -1.
func (c *Core) Expire(now Time) kernel.Channel {
	concerned := kernel.Channel(-1)
	for {
		slot, ok := c.flight.endHold(now)
		if !ok {
			break
		}
		c.begin(now)
		t := &c.tasks[slot]
		c.enqueue(t, ToBack()) // the decision stays open
		switch q := kernel.Channel(t.Queue); concerned {
		case -1, q:
			concerned = q
		default:
			concerned = AllChannels
		}
	}
	for {
		r := c.flight.expired(now)
		if r == nil {
			return concerned
		}
		c.flight.close(r)
		c.fates.Expired++
		c.tasks[r.task.Slot()].decision = 0
	}
}

// Undelivered settles an open decision that was answered but not applied before the agent stopped.
func (c *Core) Undelivered(id uint64) {
	if r := c.flight.get(id); r != nil && !r.closed {
		c.flight.close(r)
		c.fates.Undelivered++
		c.tasks[r.task.Slot()].decision = 0
	}
}

// Stop abandons what is still open, at the end of a run.
func (c *Core) Stop() {
	c.fates.Abandoned += uint64(c.Open())
	for i := range c.tasks {
		c.tasks[i].decision = 0
	}
	c.batch = c.batch[:0]
	c.flight.reset(c.cfg.MaxInFlight)
}

func (c *Core) supersede(t *Task) {
	if t.decision == 0 {
		return
	}
	if r := c.flight.get(t.decision); r != nil && !r.closed {
		c.flight.close(r)
		c.fates.Superseded++
	}
	t.decision = 0
}

func (c *Core) cleanKey(p Placement) float64 {
	if nan := math.IsNaN(p.Key); p.Clipped || nan {
		c.fates.Clipped++
		if nan {
			return Behind
		}
	}
	return p.Key
}

// enqueue puts a waiting task where the placement says.
func (c *Core) enqueue(t *Task, p Placement) {
	q := &c.queues[t.Queue]
	t.State, t.Slice = Queued, p.Slice
	at := q.len()
	if c.cfg.Order == ByKey {
		t.Key = c.cleanKey(p)
		if !math.IsInf(t.Key, 1) {
			at = q.place(t.Key, t.serial)
		}
	} else {
		outside := p.Slot < 0 || p.Slot > Back
		if outside || p.Clipped {
			c.fates.Clipped++
		}
		if !outside && p.Slot < Back {
			at = q.before(p.Slot)
		}
	}
	q.insert(at, entry{key: t.Key, serial: t.serial, task: int32(t.slot)})
	c.link(q, t)
	if t.pinned {
		q.pinned++
	}
}

// remember keeps what a slot policy sees: the first tasks of the queue.
func (q *queue) remember() {
	q.seenN = min(q.len(), Slots)
	for i := range q.seenN {
		q.seen[i] = q.at(i).serial
	}
}

// before is the index of the task seen at slot k, or of the next seen one that still waits; the front when all have left; the
// back when there was no task at slot k.
func (q *queue) before(k int32) int {
	if int(k) >= q.seenN {
		return q.len()
	}
	list := q.list()
	for _, serial := range q.seen[k:q.seenN] {
		for i := range list {
			if list[i].serial == serial {
				return i
			}
		}
	}
	return 0
}

// link appends a task to the list of those that wait, by age. Tasks come in the order in which they became runnable, but for
// those that were kept back or refused, which walk to their place.
func (c *Core) link(q *queue, t *Task) {
	after := q.newest
	for after >= 0 && c.tasks[after].Since > t.Since {
		after = c.tasks[after].older
	}
	t.older = after
	if after >= 0 {
		t.younger = c.tasks[after].younger
		c.tasks[after].younger = int32(t.slot)
	} else {
		t.younger = q.oldest
		q.oldest = int32(t.slot)
	}
	if t.younger >= 0 {
		c.tasks[t.younger].older = int32(t.slot)
	} else {
		q.newest = int32(t.slot)
	}
}

func (c *Core) unlink(q *queue, t *Task) {
	if t.older >= 0 {
		c.tasks[t.older].younger = t.younger
	} else {
		q.oldest = t.younger
	}
	if t.younger >= 0 {
		c.tasks[t.younger].older = t.older
	} else {
		q.newest = t.older
	}
	t.older, t.younger = -1, -1
	if t.pinned {
		q.pinned--
	}
}
