package workload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/env/workload/internal/fifo"
)

// originals are rt-app's own examples and the least share of their time that the machine is in use when they run.
var originals = []string{
	"browser-short", "browser-long", "mp3-short", "mp3-long", "video-short", "video-long", "spreading-tasks", "template",
	"tutorial/example1", "tutorial/example2", "tutorial/example3", "tutorial/example4", "tutorial/example5", "tutorial/example6",
	"tutorial/example7", "tutorial/example8", "cpufreq_governor_efficiency/calibration", "cpufreq_governor_efficiency/dvfs",
}

// Every example runs unmodified, to its end or for its first three seconds.
func TestOriginalsRun(t *testing.T) {
	const dir = "/usr/share/doc/rt-app/examples"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("rt-app's examples are not installed (Debian: apt-get install rt-app): ", err)
	}
	for _, name := range originals {
		in, err := Build(filepath.Join(dir, name+".json"), Params{})
		if err != nil {
			t.Error(err)
			continue
		}
		horizon := min(in.Duration, 3*kernel.Second)
		m := machine(t, in, in.CPUs, horizon)
		var d fifo.Driver
		messages, err := d.Run(m, horizon)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s := m.Stats()
		if s.Busy == 0 || m.Deadlocked() {
			t.Errorf("%s: stopped at %d ns after %d messages: %v", name, m.Now(), messages, m.Waits())
		}
		t.Logf("%-40s %d CPUs, %6d messages to %4d ms, %4.0f ms of CPU, interarrival %d us, burst %d us", name, in.CPUs, messages,
			m.Now()/kernel.Millisecond, float64(s.Busy)/1e6, in.Interarrival/1000, in.MeanBurst/1000)
		for _, note := range in.Notes {
			t.Log("    ", note)
		}
	}
}
