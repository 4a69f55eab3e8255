package workload

import (
	"math"
	"slices"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/env/workload/internal/fifo"
)

// bursts collects the CPU bursts of each task, in order of the tasks' creation.
type bursts struct {
	order   map[kernel.TaskID]int
	runtime []kernel.Time
	lengths [][]kernel.Time
}

func (b *bursts) see(m *kernel.Message) {
	switch m.Type {
	case kernel.TaskNew:
		b.order[m.Task] = len(b.lengths)
		b.runtime = append(b.runtime, 0)
		b.lengths = append(b.lengths, nil)
	case kernel.TaskBlocked, kernel.TaskDead:
		i := b.order[m.Task]
		if n := m.Runtime - b.runtime[i]; n > 0 {
			b.runtime[i] = m.Runtime
			b.lengths[i] = append(b.lengths[i], n)
		}
	}
}

const noLimit = math.MaxInt

func machine(t *testing.T, in *Instance, cpus int, horizon kernel.Time) *sim.Sim {
	t.Helper()
	m, err := fifo.Machine(in.Workload, cpus, horizon, in.Slack, 7)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// watch runs an instance and returns its bursts.
func watch(t *testing.T, in *Instance, cpus int, horizon kernel.Time, d fifo.Driver) *bursts {
	t.Helper()
	b := &bursts{order: map[kernel.TaskID]int{}}
	d.See = b.see
	if _, err := d.Run(machine(t, in, cpus, horizon), horizon, noLimit); err != nil {
		t.Fatal(err)
	}
	return b
}

// Demand is what the parameters say: on a machine so large that nobody waits, the share of time that tasks run, how often
// they begin to, and for how long.
func TestNominal(t *testing.T) {
	for _, c := range []struct {
		name      string
		p         Params
		tolerance float64 // of the figures: about four standard errors at 20000 bursts, 200000 for dispersive
	}{
		{"sched_bench", Params{Cycles: -1}, .02}, // timer slack adds 25 us to a cycle of 1.5 ms
		{"dispersive", Params{Load: .6}, .13},
		{"bimodal", Params{}, .03},
		{"rocksdb", Params{Scale: .25}, .03},
		{"interactive", Params{CPUs: 4}, .03},
		{"heavytail", Params{CPUs: 4, Scale: 2}, .12},
		{"phase", Params{CPUs: 4}, .12},
		{"frame", Params{Load: .3}, .03},
	} {
		in, err := Build(c.name, c.p)
		if err != nil {
			t.Fatal(err)
		}
		horizon := 20000 * in.Interarrival
		if c.name == "dispersive" { // one in 200 makes the mean
			horizon *= 10
		}
		b := watch(t, in, 250, horizon, fifo.Driver{})
		var count, sum float64
		chunk := kernel.Time(hogChunk * in.Params.Scale)
		for _, lengths := range b.lengths {
			for _, n := range lengths {
				if n < MinBurst {
					t.Fatalf("%s: a burst of %d ns", c.name, n)
				}
				if n != chunk {
					count++
					sum += float64(n)
				}
			}
		}
		for what, ratio := range map[string]float64{
			"load":         sum / float64(horizon) / float64(in.CPUs) / in.Params.Load,
			"interarrival": float64(horizon) / count / float64(in.Interarrival),
			"mean burst":   sum / count / float64(in.MeanBurst),
		} {
			if math.Abs(ratio-1) > c.tolerance {
				t.Errorf("%s: %s is %.3f of what is declared (%.0f bursts)", c.name, what, ratio, count)
			}
		}
	}
}

// Whatever the order of service, the k-th burst of each task is the same.
func TestStreamsDoNotDependOnScheduling(t *testing.T) {
	for _, name := range Names() {
		in, err := Build(name, Params{Cycles: cyclesFor(name)})
		if err != nil {
			t.Fatal(err)
		}
		horizon := 20000 * in.Interarrival
		a := watch(t, in, in.CPUs, horizon, fifo.Driver{Slice: 4 * in.MeanBurst})
		b := watch(t, in, in.CPUs, horizon, fifo.Driver{LIFO: true, Slice: in.MeanBurst / 3})
		same, tasks := 0, min(len(a.lengths), len(b.lengths))
		if in.Open && len(a.lengths) != len(b.lengths) {
			t.Errorf("%s: %d and %d requests", name, len(a.lengths), len(b.lengths))
		}
		for i := range tasks {
			n := min(len(a.lengths[i]), len(b.lengths[i]))
			same += n
			if !slices.Equal(a.lengths[i][:n], b.lengths[i][:n]) {
				t.Fatalf("%s: task %d: %v and %v", name, i, a.lengths[i][:n], b.lengths[i][:n])
			}
		}
		if same < 500 {
			t.Errorf("%s: only %d bursts compared", name, same)
		}
	}
}

func cyclesFor(name string) int {
	if find(name).cycles != 0 {
		return -1
	}
	return 0
}

// sched_bench ends when all threads have done their cycles.
func TestCycles(t *testing.T) {
	in, err := Build("sched_bench", Params{Cycles: 20})
	if err != nil {
		t.Fatal(err)
	}
	b := watch(t, in, in.CPUs, kernel.Second, fifo.Driver{})
	for i, lengths := range b.lengths {
		if len(lengths) != 20 {
			t.Errorf("thread %d: %d bursts", i, len(lengths))
		}
	}
}
