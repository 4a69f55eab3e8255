package fifo

import (
	"reflect"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// jobs are tasks that run once for as long as they say, all from time 0.
type jobs []job

type job struct {
	time kernel.Time
	cpus *kernel.CPUSet
}

type program struct {
	time kernel.Time
	ran  bool
}

func (p *program) Next(*sim.Sim, kernel.TaskID) sim.Op {
	if p.ran {
		return sim.Op{Kind: sim.OpExit}
	}
	p.ran = true
	return sim.Op{Kind: sim.OpRun, Time: p.time}
}

func (j jobs) Start(m *sim.Sim) {
	for i := range j {
		m.Spawn(sim.TaskSpec{Program: &program{time: j[i].time}, CPUs: j[i].cpus})
	}
}

func (jobs) Arrive(*sim.Sim) {}

func TestOrder(t *testing.T) {
	second := &kernel.CPUSet{2}
	for _, c := range []struct {
		name   string
		driver Driver
		jobs   jobs
		cpus   int
		ends   []kernel.Time // by slot
	}{
		{"fifo", Driver{}, jobs{{30, nil}, {20, nil}, {10, nil}}, 1, []kernel.Time{30, 50, 60}},
		{"lifo", Driver{LIFO: true}, jobs{{30, nil}, {20, nil}, {10, nil}}, 1, []kernel.Time{60, 30, 10}},
		{"round robin", Driver{Slice: 10}, jobs{{30, nil}, {20, nil}, {10, nil}}, 1, []kernel.Time{60, 50, 30}},
		{"two CPUs", Driver{}, jobs{{30, nil}, {20, nil}, {10, nil}}, 2, []kernel.Time{30, 20, 30}},
		{"affinity", Driver{}, jobs{{30, second}, {20, second}, {10, nil}}, 2, []kernel.Time{30, 50, 10}},
	} {
		m, err := Machine(c.jobs, c.cpus, 1000, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		ends := make([]kernel.Time, len(c.jobs))
		c.driver.See = func(msg *kernel.Message) {
			if msg.Type == kernel.TaskDead {
				ends[msg.Task.Slot()] = msg.Time
			}
		}
		if _, err := c.driver.Run(m, 1000); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(ends, c.ends) {
			t.Errorf("%s: ends %v, want %v", c.name, ends, c.ends)
		}
	}
}

func TestStop(t *testing.T) {
	m, err := Machine(jobs{{kernel.Second, nil}}, 1, kernel.Second, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	d := Driver{Stop: func() bool { asked++; return m.Now() >= 5*kernel.Millisecond }}
	if _, err := d.Run(m, kernel.Second); err != nil || m.Now() != 5*kernel.Millisecond || asked < 5 {
		t.Errorf("%v at %d after %d questions", err, m.Now(), asked)
	}
}
