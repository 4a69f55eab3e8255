package sim

import (
	"strconv"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// BenchmarkMachine is the machine under an agent that does next to nothing.
func BenchmarkMachine(b *testing.B) {
	for _, name := range []string{"ideal", "linux", "ghost-percpu", "ghost-global"} {
		for _, cpus := range []int{2, 8, 64} {
			b.Run(name+"/cpus="+strconv.Itoa(cpus), func(b *testing.B) {
				b.ReportAllocs()
				m, err := New(Config{Profile: profile(b, name), CPUs: cpus, Horizon: kernel.Forever / 2, Workload: crowd(2 * cpus)})
				if err != nil {
					b.Fatal(err)
				}
				d := greedy{m: m}
				for range 10000 {
					d.turn(b)
				}
				before := m.Stats().Events
				for b.Loop() {
					d.turn(b)
				}
				b.ReportMetric(float64(m.Stats().Events-before)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// crowd is a number of tasks that run and sleep in turn for ever.
type crowd int

type member struct {
	burst, sleep kernel.Time
	ran          bool
}

func (x *member) Next(*Sim, kernel.TaskID) Op {
	if x.ran = !x.ran; x.ran {
		return Op{Kind: OpRun, Time: x.burst}
	}
	return Op{Kind: OpSleep, Time: x.sleep}
}

func (n crowd) Start(m *Sim) {
	for i := range int(n) {
		m.Spawn(TaskSpec{Program: &member{burst: kernel.Time(20000 + 371*i), sleep: kernel.Time(25000 + 593*i)}})
	}
}

func (crowd) Arrive(*Sim) {}

// greedy gives each idle CPU of the channel the task that came last.
type greedy struct {
	m    *Sim
	msgs []kernel.Message
	txns []kernel.Txn
	wait [kernel.MaxCPUs][]kernel.Message
	idle [kernel.MaxCPUs][]int32
	init bool
}

func (d *greedy) turn(tb testing.TB) {
	topo := d.m.Topology()
	if !d.init {
		d.init = true
		for ch := range topo.Channels {
			for n := range topo.CPUs {
				if topo.Channels[ch].Has(int32(n)) {
					d.idle[ch] = append(d.idle[ch], int32(n))
				}
			}
		}
	}
	ch, msgs, err := d.m.Poll(d.msgs[:0], kernel.Forever)
	if err != nil {
		tb.Fatal(err)
	}
	d.msgs = msgs
	for i := range msgs {
		switch x := &msgs[i]; x.Type {
		case kernel.TaskNew, kernel.TaskWakeup:
			d.wait[ch] = append(d.wait[ch], *x)
		case kernel.TaskBlocked:
			d.idle[ch] = append(d.idle[ch], x.CPU)
		}
	}
	d.txns = d.txns[:0]
	for wait, idle := &d.wait[ch], &d.idle[ch]; len(*wait) > 0 && len(*idle) > 0; {
		x := (*wait)[len(*wait)-1]
		d.txns = append(d.txns, kernel.Txn{Task: x.Task, CPU: (*idle)[len(*idle)-1], Barrier: x.Seq})
		*wait, *idle = (*wait)[:len(*wait)-1], (*idle)[:len(*idle)-1]
	}
	if err := d.m.Commit(ch, d.txns); err != nil {
		tb.Fatal(err)
	}
}
