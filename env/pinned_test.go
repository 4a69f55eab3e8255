package env

import "testing"

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
