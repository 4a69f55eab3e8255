package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// world is a careless machine: it does anything a kernel may do to tasks, at random, and refuses transactions at random.
type world struct {
	core    *Core
	rng     *rand.Rand
	now     Time
	tasks   []worldTask
	cpus    []int32 // task per CPU, −1 none
	pending [][]kernel.Message
	open    []Decision
	ids     []kernel.TaskID
	refuse  bool
}

type worldTask struct {
	id      kernel.TaskID
	gen     uint32
	alive   bool
	running int32
	blocked bool
	seq     uint32
	runtime Time
	channel int
}

func newWorld(t testing.TB, cfg Config, cpus, queues, tasks int, seed uint64) *world {
	topo := &kernel.Topology{CPUs: make([]kernel.CPU, cpus), Channels: make([]kernel.CPUSet, queues)}
	for i := range cpus {
		topo.Channels[i%queues].Add(int32(i))
	}
	cfg.Topology = topo
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{core: c, rng: rand.New(rand.NewPCG(seed, 1)), tasks: make([]worldTask, tasks), pending: make([][]kernel.Message, queues)}
	for range cpus {
		w.cpus = append(w.cpus, -1)
	}
	for i := range w.tasks {
		w.tasks[i].running = -1
	}
	return w
}

func (w *world) tell(i int, typ kernel.MsgType, flags kernel.MsgFlags) {
	t := &w.tasks[i]
	t.seq++
	w.pending[t.channel] = append(w.pending[t.channel], kernel.Message{
		Time: w.now, Runtime: t.runtime, Task: t.id, Seq: t.seq, CPU: kernel.NoCPU, Type: typ, Flags: flags,
	})
}

func (w *world) leave(i int) {
	if t := &w.tasks[i]; t.running >= 0 {
		w.cpus[t.running], t.running = -1, -1
		t.runtime += Time(w.rng.IntN(50000))
	}
}

func (w *world) happen() {
	i := w.rng.IntN(len(w.tasks))
	t := &w.tasks[i]
	switch {
	case !t.alive:
		t.gen++
		*t = worldTask{id: kernel.MakeTaskID(uint32(i), t.gen), gen: t.gen, alive: true, running: -1}
		t.channel = 0
		if w.rng.IntN(4) == 0 {
			t.blocked = true
			w.tell(i, kernel.TaskNew, 0)
		} else {
			w.tell(i, kernel.TaskNew, kernel.FlagRunnable)
		}
	case t.blocked:
		t.blocked = false
		w.tell(i, kernel.TaskWakeup, 0)
	case t.running >= 0:
		w.leave(i)
		switch w.rng.IntN(8) {
		case 0:
			w.tell(i, kernel.TaskYield, 0)
		case 1, 2, 3:
			w.tell(i, kernel.TaskPreempt, kernel.FlagSlice)
		case 4:
			t.alive = false
			w.tell(i, kernel.TaskDead, 0)
		default:
			t.blocked = true
			w.tell(i, kernel.TaskBlocked, 0)
		}
	case w.rng.IntN(50) == 0: // killed while it waits
		t.alive = false
		w.tell(i, kernel.TaskDead, 0)
	}
}

// commit is the kernel's side of a transaction.
func (w *world) commit(txns []kernel.Txn) {
	for k := range txns {
		x := &txns[k]
		i := int(x.Task.Slot())
		t := &w.tasks[i]
		switch {
		case !t.alive || t.id != x.Task:
			x.State = kernel.StateNotFound
		case x.Barrier != t.seq:
			x.State = kernel.StateStale
		case x.Flags&kernel.TxnAssign != 0:
			x.State = kernel.StateDone
			t.channel = int(w.core.cpus[x.CPU].queue)
		case w.refuse && w.rng.IntN(20) == 0:
			x.State = kernel.StateOnCPU
			w.tell(i, kernel.TaskAffinity, 0)
		default:
			if v := w.cpus[x.CPU]; v >= 0 {
				w.leave(int(v))
				w.tell(int(v), kernel.TaskPreempt, 0)
			}
			x.State, x.At = kernel.StateDone, w.now
			w.cpus[x.CPU], t.running = int32(i), x.CPU
			t.channel = int(w.core.cpus[x.CPU].queue)
		}
	}
}

func (w *world) key() float64 {
	switch w.rng.IntN(10) {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(-1)
	}
	return float64(w.rng.IntN(5))
}

// check verifies what must hold between turns.
func (w *world) check() error {
	c := w.core
	if err := c.fates.Check(c.Open()); err != nil {
		return err
	}
	waiting := 0
	for qi := range c.queues {
		q := &c.queues[qi]
		busy, idle := 0, 0
		for _, n := range q.cpus {
			if c.cpus[n].task >= 0 {
				busy++
			} else if c.cpus[n].available {
				idle++
			}
		}
		if busy != q.running || idle != q.idle {
			return fmt.Errorf("queue %d counts %d running and %d idle, there are %d and %d", qi, q.running, q.idle, busy, idle)
		}
		if q.idle > 0 && q.len() > 0 {
			return fmt.Errorf("queue %d has %d waiting and %d idle CPUs", qi, q.len(), q.idle)
		}
		seen := map[int32]bool{}
		last := math.Inf(-1)
		for _, e := range q.list() {
			t := &c.tasks[e.task]
			if seen[e.task] || t.State != Queued || t.Queue != int32(qi) || t.serial != e.serial {
				return fmt.Errorf("queue %d holds task %d, which is %s in queue %d (twice: %v)", qi, e.task, t.State, t.Queue, seen[e.task])
			}
			if q.order == ByKey && e.key < last {
				return fmt.Errorf("queue %d is out of order: %v after %v", qi, e.key, last)
			}
			seen[e.task], last = true, e.key
		}
		n, since := 0, Time(math.MinInt64)
		for o := q.oldest; o >= 0; o = c.tasks[o].younger {
			if !seen[o] || c.tasks[o].Since < since {
				return fmt.Errorf("queue %d lists task %d by age wrongly", qi, o)
			}
			since = c.tasks[o].Since
			n++
		}
		if n != q.len() {
			return fmt.Errorf("queue %d has %d waiting, %d by age", qi, q.len(), n)
		}
		waiting += n
	}
	held := 0
	for i := range c.tasks {
		switch c.tasks[i].State {
		case Held:
			held++
		case Pending:
			return fmt.Errorf("task %d is pending between turns", i)
		case OnCPU:
			if c.cpus[c.tasks[i].CPU].task != int32(i) {
				return fmt.Errorf("task %d is on CPU %d, which runs %d", i, c.tasks[i].CPU, c.cpus[c.tasks[i].CPU].task)
			}
		}
	}
	if waiting+held != c.waiting {
		return fmt.Errorf("%d wait and %d are held, the core counts %d", waiting, held, c.waiting)
	}
	return nil
}

func (w *world) turn(mode int, txns []kernel.Txn) []kernel.Txn {
	c := w.core
	w.now += Time(w.rng.IntN(20000))
	if mode > 0 {
		c.Expire(w.now)
		for ch := range c.queues {
			txns = c.Act(kernel.Channel(ch), w.now, txns[:0])
			w.commit(txns)
			c.Settle(w.now, txns)
		}
		if n := len(w.open); n > 0 && w.rng.IntN(2) == 0 {
			k := w.rng.IntN(n)
			ch := c.Answer(w.now, w.open[k].ID, w.ids[k], Placement{Key: w.key(), Slot: int32(w.rng.IntN(11) - 1)})
			if w.rng.IntN(3) > 0 {
				w.open[k], w.ids[k] = w.open[n-1], w.ids[n-1]
				w.open, w.ids = w.open[:n-1], w.ids[:n-1]
			}
			txns = c.Act(max(ch, 0), w.now, txns[:0])
			w.commit(txns)
			c.Settle(w.now, txns)
		}
	}
	for range 1 + w.rng.IntN(4) {
		w.happen()
	}
	for ch := range w.pending {
		msgs := w.pending[ch]
		w.pending[ch] = msgs[:0]
		c.Observe(kernel.Channel(ch), w.now, msgs)
		c.OpenBatch()
		if batch := c.Batch(); len(batch) > 0 {
			if mode == 0 {
				var out [64]Placement
				for i := range batch {
					out[i] = Placement{Key: w.key(), Slot: int32(w.rng.IntN(11) - 1), Source: Source(w.rng.IntN(NumSources))}
				}
				c.Apply(w.now, out[:len(batch)])
			} else {
				for _, d := range batch {
					if !d.Running && len(w.open) < 256 {
						w.open, w.ids = append(w.open, d), append(w.ids, c.tasks[d.Task].ID)
					}
				}
				c.Defer(w.now, Time(mode-1)*50000)
			}
		}
		txns = c.Act(kernel.Channel(ch), w.now, txns[:0])
		w.commit(txns)
		c.Settle(w.now, txns)
	}
	return txns
}

// settleAll delivers what transactions have caused, until nothing is under way.
func (w *world) settleAll(mode int) {
	for range 1000 {
		left := 0
		for _, p := range w.pending {
			left += len(p)
		}
		if left == 0 {
			return
		}
		for ch := range w.pending {
			msgs := append([]kernel.Message(nil), w.pending[ch]...)
			w.pending[ch] = w.pending[ch][:0]
			w.core.Observe(kernel.Channel(ch), w.now, msgs)
			w.core.OpenBatch()
			if mode == 0 {
				out := make([]Placement, len(w.core.Batch()))
				w.core.Apply(w.now, out)
			} else {
				w.core.Defer(w.now, 0)
			}
			txns := w.core.Act(kernel.Channel(ch), w.now, nil)
			refuse := w.refuse
			w.refuse = false
			w.commit(txns)
			w.refuse = refuse
			w.core.Settle(w.now, txns)
		}
	}
}

// TestInvariants drives cores of every shape through anything that can happen and checks what must hold in between.
func TestInvariants(t *testing.T) {
	for _, order := range []Order{BySlot, ByKey} {
		for _, wp := range []bool{false, true} {
			for _, queues := range []int{1, 3} {
				for mode := range 3 { // sync, async, hold
					if wp && order == BySlot {
						continue
					}
					name := fmt.Sprintf("%s/wp=%v/queues=%d/mode=%d", order, wp, queues, mode)
					t.Run(name, func(t *testing.T) {
						cfg := Config{Order: order, Preempt: wp, Slice: kernel.Millisecond, AgeBound: 200 * kernel.Microsecond, MaxInFlight: 20,
							TTL: 300 * kernel.Microsecond, Events: Events(queues % 3)}
						w := newWorld(t, cfg, 3, queues, 40, uint64(queues*10+mode))
						w.refuse = true
						var txns []kernel.Txn
						for i := range 5000 {
							txns = w.turn(mode, txns)
							if i%10 == 0 {
								w.settleAll(mode)
								if err := w.check(); err != nil {
									t.Fatalf("turn %d: %v", i, err)
								}
							}
						}
						w.core.Stop()
						if err := w.core.fates.Check(0); err != nil {
							t.Error(err)
						}
						if w.core.fates.Requested == 0 || w.core.fates.Aged == 0 {
							t.Errorf("nothing was tested: %+v", w.core.fates)
						}
					})
				}
			}
		}
	}
}

func TestTurnsDoNotAllocate(t *testing.T) {
	for mode := range 3 {
		cfg := Config{Order: ByKey, Preempt: true, Slice: kernel.Millisecond, MaxInFlight: 20, TTL: 300 * kernel.Microsecond}
		w := newWorld(t, cfg, 3, 1, 40, 5)
		txns := make([]kernel.Txn, 0, 64)
		for range 3000 {
			txns = w.turn(mode, txns)
		}
		if n := testing.AllocsPerRun(1000, func() { txns = w.turn(mode, txns) }); n != 0 {
			t.Errorf("mode %d: %v allocations per turn", mode, n)
		}
	}
}
