package sim

import (
	"math/rand/v2"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// driver is a first-come-first-served agent: one queue per channel, the lowest idle CPU.
type driver struct {
	m       *Sim
	slice   kernel.Time
	think   kernel.Time // before it commits anything
	seen    func(string, ...any)
	queue   [kernel.MaxCPUs][]kernel.TaskID
	on      [kernel.MaxCPUs]kernel.TaskID
	seq     map[kernel.TaskID]uint32
	txns    []kernel.Txn
	msgs    []kernel.Message
	check   func(ch kernel.Channel, msgs []kernel.Message)
	turns   int
	maximum int
}

func (d *driver) run() {
	if d.seq == nil {
		d.seq = map[kernel.TaskID]uint32{}
	}
	for d.maximum == 0 || d.turns < d.maximum {
		ch, msgs, err := d.m.Poll(d.msgs[:0], kernel.Forever)
		d.msgs = msgs
		if err != nil || ch < 0 {
			if err != nil {
				d.say("%s", err)
			}
			return
		}
		d.turns++
		if d.check != nil {
			d.check(ch, msgs)
		}
		for i := range msgs {
			d.take(ch, &msgs[i])
		}
		d.act(ch)
	}
}

func (d *driver) say(format string, args ...any) {
	if d.seen != nil {
		d.seen(format, args...)
	}
}

func (d *driver) take(ch kernel.Channel, x *kernel.Message) {
	if d.seen != nil {
		d.say("%s  %d %s task %d seq %d cpu %d ran %s", micros(x.Time), ch, x.Type, x.Task.Slot(), x.Seq, x.CPU, micros(x.Runtime))
	}
	d.seq[x.Task] = x.Seq
	switch x.Type {
	case kernel.TaskNew:
		if x.Flags&kernel.FlagRunnable != 0 {
			d.queue[ch] = append(d.queue[ch], x.Task)
		}
	case kernel.TaskWakeup:
		d.queue[ch] = append(d.queue[ch], x.Task)
	case kernel.TaskYield, kernel.TaskPreempt:
		d.on[x.CPU] = 0
		d.queue[ch] = append(d.queue[ch], x.Task)
	case kernel.TaskBlocked, kernel.TaskDead:
		if x.CPU >= 0 && d.on[x.CPU] == x.Task {
			d.on[x.CPU] = 0
		}
	}
}

func (d *driver) act(ch kernel.Channel) {
	d.txns = d.txns[:0]
	topo := d.m.Topology()
	for n := range topo.CPUs {
		if len(d.queue[ch]) == 0 {
			break
		}
		if d.on[n] == 0 && topo.Channels[ch].Has(int32(n)) && !topo.CPUs[n].Agent {
			task := d.queue[ch][0]
			d.queue[ch] = d.queue[ch][:copy(d.queue[ch], d.queue[ch][1:])]
			d.txns = append(d.txns, kernel.Txn{Task: task, CPU: int32(n), Barrier: d.seq[task], Slice: d.slice})
		}
	}
	if len(d.txns) > 0 {
		d.m.Charge(ch, d.think)
	}
	if err := d.m.Commit(ch, d.txns); err != nil {
		d.say("%s", err)
	}
	for _, x := range d.txns {
		if d.seen != nil {
			d.say("%s  %d commit task %d cpu %d: %s at %s", micros(d.m.Now()), ch, x.Task.Slot(), x.CPU, x.State, micros(x.At))
		}
		if x.State == kernel.StateDone {
			d.on[x.CPU] = x.Task
		} else {
			d.queue[ch] = append(d.queue[ch], x.Task)
		}
	}
}

// churn is a workload of anything: tasks that run, sleep, yield, synchronise and end, and arrivals for ever.
type churn struct {
	pcg rand.PCG
	rng *rand.Rand
}

type churner struct {
	pcg  rand.PCG
	rng  *rand.Rand
	left int
	held bool
}

func (c *churner) Next(*Sim, kernel.TaskID) Op {
	c.left--
	if c.held {
		c.held = false
		return Op{Kind: OpUnlock, Ref: 0}
	}
	if c.left < 0 {
		return Op{Kind: OpExit}
	}
	switch c.rng.IntN(8) {
	case 0:
		return Op{Kind: OpSleep, Time: kernel.Time(c.rng.IntN(50000))}
	case 1:
		return Op{Kind: OpYield}
	case 2:
		c.held = true
		return Op{Kind: OpLock, Ref: 0}
	case 3:
		return Op{Kind: OpPost, Ref: 1}
	case 4:
		return Op{Kind: OpNop}
	}
	return Op{Kind: OpRun, Time: kernel.Time(c.rng.IntN(30000))}
}

func (c *churn) Start(m *Sim) {
	s1, s2 := m.Stream(1, 0)
	c.pcg.Seed(s1, s2)
	c.rng = rand.New(&c.pcg)
	m.NewMutex("lock")
	m.NewSemaphore("count", 0)
	m.ArriveAt(0)
}

func (c *churn) Arrive(m *Sim) {
	p := &churner{left: 1 + c.rng.IntN(30)}
	s1, s2 := m.Stream(2, m.Stats().Spawned)
	p.pcg.Seed(s1, s2)
	p.rng = rand.New(&p.pcg)
	m.Spawn(TaskSpec{Program: p})
	m.ArriveAt(m.Now() + kernel.Time(c.rng.IntN(60000)))
}
