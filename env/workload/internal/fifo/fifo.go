// Package fifo drives a kernel first come, first served from one queue: the plainest scheduler that there is. Workloads are
// measured under it where a figure must not depend on a policy.
package fifo

import (
	"errors"
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Driver schedules until a given instant. The zero value is ready for use; one that has run is ready for another kernel.
type Driver struct {
	Slice kernel.Time           // 0: until the task blocks
	LIFO  bool                  // last come, first served
	See   func(*kernel.Message) // called for each message, if set
	Stop  func() bool           // asked at least once per millisecond of the kernel's time, if set
	Looks uint64                // of the last run: how often it looked at a queued task in search of one that a CPU may run

	tasks    []task // by slot
	queue    []kernel.TaskID
	running  []kernel.TaskID // by CPU
	closed   []bool          // CPUs taken by a higher class or by the agent itself
	messages []kernel.Message
	txn      [1]kernel.Txn
}

type task struct {
	id     kernel.TaskID
	seq    uint32
	queued bool
}

// Run schedules until the given instant, until the kernel has nothing left to schedule, or until Stop says so. It returns the
// number of messages.
func (d *Driver) Run(k kernel.Kernel, until kernel.Time) (int, error) {
	top := k.Topology()
	d.tasks, d.queue = d.tasks[:0], d.queue[:0]
	d.running, d.closed = d.running[:0], d.closed[:0]
	for i := range top.CPUs {
		d.running = append(d.running, 0)
		d.closed = append(d.closed, top.CPUs[i].Agent)
	}
	d.Looks = 0
	seen := 0
	for k.Now() < until && (d.Stop == nil || !d.Stop()) {
		ch, batch, err := k.Poll(d.messages[:0], min(until, k.Now()+kernel.Millisecond))
		d.messages = batch
		if errors.Is(err, kernel.ErrDone) {
			return seen, nil
		}
		if err != nil {
			return seen, err
		}
		if ch < 0 {
			continue
		}
		for i := range batch {
			d.take(&batch[i])
		}
		seen += len(batch)
		if err := d.dispatch(k, top); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

func (d *Driver) take(m *kernel.Message) {
	if d.See != nil {
		d.See(m)
	}
	switch m.Type {
	case kernel.CPUBusy, kernel.CPUAvailable:
		d.closed[m.CPU] = m.Type == kernel.CPUBusy
		return
	}
	slot := m.Task.Slot()
	for int(slot) >= len(d.tasks) {
		d.tasks = append(d.tasks, task{})
	}
	t := &d.tasks[slot]
	t.id, t.seq = m.Task, m.Seq
	switch m.Type {
	case kernel.TaskNew:
		t.queued = false
		if m.Flags&kernel.FlagRunnable != 0 {
			d.enqueue(t)
		}
	case kernel.TaskWakeup:
		d.enqueue(t)
	case kernel.TaskYield, kernel.TaskPreempt:
		d.release(m.Task)
		d.enqueue(t)
	case kernel.TaskBlocked, kernel.TaskDead, kernel.TaskDeparted:
		d.release(m.Task)
		if t.queued {
			d.remove(t)
		}
	}
}

func (d *Driver) enqueue(t *task) {
	if !t.queued {
		t.queued = true
		d.queue = append(d.queue, t.id)
	}
}

func (d *Driver) remove(t *task) {
	t.queued = false
	for i, id := range d.queue {
		if id == t.id {
			d.queue = append(d.queue[:i], d.queue[i+1:]...)
			return
		}
	}
}

// release frees the CPU of a task that has left it.
func (d *Driver) release(id kernel.TaskID) {
	for cpu := range d.running {
		if d.running[cpu] == id {
			d.running[cpu] = 0
		}
	}
}

// dispatch gives every free CPU the first task that may use it.
func (d *Driver) dispatch(k kernel.Kernel, top *kernel.Topology) error {
	for cpu := range d.running {
		if d.running[cpu] != 0 || d.closed[cpu] {
			continue
		}
		ch := channelOf(top, int32(cpu))
		for n := range d.queue {
			i := n
			if d.LIFO {
				i = len(d.queue) - 1 - n
			}
			d.Looks++
			t := &d.tasks[d.queue[i].Slot()]
			if set := k.Affinity(t.id); !set.Has(int32(cpu)) {
				continue
			}
			slice := d.Slice
			if slice == 0 {
				slice = kernel.Forever
			}
			d.txn[0] = kernel.Txn{Task: t.id, Slice: slice, Barrier: t.seq, CPU: int32(cpu)}
			if err := k.Commit(ch, d.txn[:]); err != nil {
				return err
			}
			switch s := d.txn[0].State; s {
			case kernel.StateDone:
				d.running[cpu] = t.id
				d.remove(t)
			case kernel.StateStale, kernel.StateUnavailable, kernel.StateNotRunnable:
				// News is on its way; the task waits for it.
			default:
				return fmt.Errorf("fifo: task %v on CPU %d: %v", t.id, cpu, s)
			}
			break
		}
	}
	return nil
}

func channelOf(top *kernel.Topology, cpu int32) kernel.Channel {
	for ch := range top.Channels {
		if top.Channels[ch].Has(cpu) {
			return kernel.Channel(ch)
		}
	}
	return 0
}
