package sim_test

import (
	"fmt"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/kerneltest"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// scenario plays a conformance scenario.
type scenario kerneltest.Scenario

type player struct {
	task kerneltest.Task
	done int
	rest bool
}

func (p *player) Next(*sim.Sim, kernel.TaskID) sim.Op {
	if p.rest {
		p.rest = false
		if p.task.Yield {
			return sim.Op{Kind: sim.OpYield}
		}
		return sim.Op{Kind: sim.OpSleep, Time: p.task.Sleep}
	}
	if p.done == p.task.Bursts {
		return sim.Op{Kind: sim.OpExit}
	}
	p.done++
	p.rest = p.done < p.task.Bursts
	return sim.Op{Kind: sim.OpRun, Time: p.task.Burst}
}

func (s *scenario) Start(m *sim.Sim) {
	for i, t := range s.Tasks {
		m.Spawn(sim.TaskSpec{Program: &player{task: t}, Name: fmt.Sprint("task ", i)})
	}
}

func (*scenario) Arrive(*sim.Sim) {}

func TestConformance(t *testing.T) {
	for _, name := range sim.Profiles() {
		t.Run(name, func(t *testing.T) {
			p, err := sim.LoadProfile(name)
			if err != nil {
				t.Fatal(err)
			}
			kerneltest.Run(t, func(t *testing.T, s kerneltest.Scenario) kernel.Kernel {
				cpus := s.CPUs
				if p.Model == kernel.Global {
					cpus++
				}
				w := scenario(s)
				m, err := sim.New(sim.Config{Profile: p, CPUs: cpus, Horizon: kernel.Forever / 2, Workload: &w})
				if err != nil {
					t.Fatal(err)
				}
				return m
			})
		})
	}
}
