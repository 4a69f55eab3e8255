// Package schedtest drives a scheduling core by hand: a machine whose tasks do what a test says, and whose kernel grants every
// transaction at once. It serves the tests of what looks at a core from outside.
package schedtest

import (
	"math/rand/v2"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Placer answers a batch, as a policy does.
type Placer interface {
	Place(v *sched.View, batch []sched.Decision, out []sched.Placement)
}

// Machine is a core with one queue for all CPUs.
type Machine struct {
	Core *sched.Core
	Now  kernel.Time

	tb   testing.TB
	seq  map[int]uint32
	gen  map[int]uint32
	ran  map[int]kernel.Time
	msgs []kernel.Message
	txns []kernel.Txn
	out  []sched.Placement
}

// New makes a machine. The configuration's topology is filled in.
func New(tb testing.TB, cpus int, cfg sched.Config) *Machine {
	tb.Helper()
	topo := &kernel.Topology{Model: kernel.Global, CPUs: make([]kernel.CPU, cpus), Channels: make([]kernel.CPUSet, 1)}
	for n := range cpus {
		topo.Channels[0].Add(int32(n))
	}
	cfg.Topology = topo
	if cfg.Slice == 0 {
		cfg.Slice = kernel.Millisecond
	}
	core, err := sched.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &Machine{Core: core, tb: tb, seq: map[int]uint32{}, gen: map[int]uint32{}, ran: map[int]kernel.Time{}}
}

func (m *Machine) say(task int, typ kernel.MsgType, ran kernel.Time, flags kernel.MsgFlags, nice int8) *Machine {
	m.seq[task]++
	m.ran[task] += ran
	m.msgs = append(m.msgs, kernel.Message{
		Time: m.Now, Type: typ, Task: kernel.MakeTaskID(uint32(task), m.gen[task]), Seq: m.seq[task], Runtime: m.ran[task],
		CPU: kernel.NoCPU, Flags: flags, Nice: nice,
	})
	return m
}

// Enter lets a runnable task enter, as a new incarnation.
func (m *Machine) Enter(task int, nice int8) *Machine {
	m.gen[task]++
	m.ran[task] = 0
	return m.say(task, kernel.TaskNew, 0, kernel.FlagRunnable, nice)
}

// Wake, Block, Yield, Preempt and Exit are what happens to a task in the next turn; ran is the CPU time it has used since its last
// message.
func (m *Machine) Wake(task int) *Machine { return m.say(task, kernel.TaskWakeup, 0, 0, 0) }

// Block: see Wake.
func (m *Machine) Block(task int, ran kernel.Time) *Machine {
	return m.say(task, kernel.TaskBlocked, ran, 0, 0)
}

// Yield: see Wake.
func (m *Machine) Yield(task int, ran kernel.Time) *Machine {
	return m.say(task, kernel.TaskYield, ran, 0, 0)
}

// Preempt: see Wake.
func (m *Machine) Preempt(task int, ran kernel.Time) *Machine {
	return m.say(task, kernel.TaskPreempt, ran, kernel.FlagSlice, 0)
}

// Exit: see Wake.
func (m *Machine) Exit(task int, ran kernel.Time) *Machine {
	return m.say(task, kernel.TaskDead, ran, 0, 0)
}

// Observe begins a turn, after the time given, with what was said since the last one, and returns its batch.
func (m *Machine) Observe(after kernel.Time) []sched.Decision {
	m.Now += after
	for i := range m.msgs {
		m.msgs[i].Time = m.Now
	}
	m.Core.Observe(0, m.Now, m.msgs)
	m.Core.OpenBatch()
	m.msgs = m.msgs[:0]
	return m.Core.Batch()
}

// Place lets the policy answer the batch of the turn, and dispatches.
func (m *Machine) Place(p Placer) {
	batch := m.Core.Batch()
	for len(m.out) < len(batch) {
		m.out = append(m.out, sched.Placement{})
	}
	if len(batch) > 0 {
		p.Place(m.Core.View(), batch, m.out[:len(batch)])
	}
	m.Core.Apply(m.Now, m.out[:len(batch)])
	m.txns = m.Core.Act(0, m.Now, m.txns[:0])
	for i := range m.txns {
		m.txns[i].State, m.txns[i].At = kernel.StateDone, m.Now
	}
	m.Core.Settle(m.Now, m.txns)
}

// Turn is Observe and Place.
func (m *Machine) Turn(after kernel.Time, p Placer) {
	m.Observe(after)
	m.Place(p)
}

// Queue is the waiting tasks, front first.
func (m *Machine) Queue() (tasks []int) {
	v := m.Core.View()
	for i := range v.Len(0) {
		tasks = append(tasks, int(v.Waiting(0, i).ID.Slot()))
	}
	return tasks
}

// Granted is the tasks that the last turn gave a CPU, in order.
func (m *Machine) Granted() (tasks []int) {
	for _, x := range m.txns {
		tasks = append(tasks, int(x.Task.Slot()))
	}
	return tasks
}

// Shuffle lives through the number of turns given, in which tasks 0…tasks−1 enter, wake, block, yield, are preempted and exit by
// chance, and calls check in each, while its batch is open.
func (m *Machine) Shuffle(seed uint64, tasks, turns int, p Placer, check func(batch []sched.Decision)) {
	rng := rand.New(rand.NewPCG(seed, 1))
	known := make([]bool, tasks)
	for range turns {
		after := kernel.Time(rng.ExpFloat64() * 200e3)
		for range 1 + rng.IntN(3) {
			n := rng.IntN(tasks)
			for try := 0; try < 8 && rng.IntN(4) > 0 && !m.onCPU(n); try++ { // waiting tasks do nothing: look for others
				n = rng.IntN(tasks)
			}
			if m.said(n) {
				continue
			}
			if !known[n] {
				known[n] = true
				m.Enter(n, int8(rng.IntN(40)-20))
				continue
			}
			switch t := m.Core.View().Task(int32(n)); t.State {
			case sched.Blocked:
				m.Wake(n)
			case sched.OnCPU:
				ran := m.Now + after - t.Start
				switch rng.IntN(5) {
				case 0:
					m.Yield(n, ran)
				case 1:
					m.Preempt(n, ran)
				case 2:
					m.Exit(n, ran)
					known[n] = false
				default:
					m.Block(n, ran)
				}
			case sched.Displaced:
				m.Preempt(n, 0)
			}
		}
		batch := m.Observe(after)
		if check != nil {
			check(batch)
		}
		m.Place(p)
	}
}

func (m *Machine) onCPU(task int) bool {
	return task < m.Core.NumTasks() && m.Core.View().Task(int32(task)).State == sched.OnCPU
}

func (m *Machine) said(task int) bool {
	for i := range m.msgs {
		if int(m.msgs[i].Task.Slot()) == task {
			return true
		}
	}
	return false
}
