package env

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ghostgym/ghostgym/env/workload"
)

// TestPinnedTasksRunBesideAnAgent: a file that pins threads to the CPUs that it names finds them all there, also where an agent
// takes a CPU for itself.
func TestPinnedTasksRunBesideAnAgent(t *testing.T) {
	for _, file := range []string{"workload/rtapp/testdata/affinity.json", "workload/rtapp/testdata/pipeline.json"} {
		in, err := BuildInstance(file)
		if err != nil {
			t.Fatal(err)
		}
		if in.Pinned == ([4]uint64{}) {
			t.Fatalf("%s pins nothing", file)
		}
		for _, scheduler := range []string{"fifo", "fifo@ghost-global", "rr@ghost-percpu", "cfs@linux"} {
			if r := run(t, scheduler, file, 1, nil); r.Figures.Unstarted != 0 {
				t.Errorf("%s under %s: %d bursts never got a CPU", file, scheduler, r.Figures.Unstarted)
			}
		}
	}
}

// TestCPUTimeIsCountedOnce: also of tasks that hear of a new priority or affinity while they run.
func TestCPUTimeIsCountedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "phases.json")
	text := `{"global": {"duration": 1}, "tasks": {"t": {"instance": 3, "phases": {
		"a": {"run": 30000, "cpus": [0, 1]}, "b": {"priority": 4, "run": 70000, "cpus": [1]}, "c": {"priority": -3, "run": 9000000}}}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, load := range append(workload.Names(), file) {
		for _, scheduler := range []string{"rr", "cfs@linux", "las+wp@ghost-percpu", "fifo@ghost-global"} {
			m, r := play(t, scheduler, load, 3, func(s *Setup) { s.Bursts = 300 })
			cpus := 0
			for _, c := range m.Sim.Topology().CPUs {
				if !c.Agent {
					cpus++
				}
			}
			busy := float64(m.Sim.Stats().Busy) / float64(r.EndNs) / float64(cpus)
			if u := float64(r.Figures.Utilisation); math.Abs(u-busy) > 5e-3 { // agents pause a task that runs at the end without a message
				t.Errorf("%s under %s: utilisation %v, and the machine was busy for %v", load, scheduler, u, busy)
			}
		}
	}
}
