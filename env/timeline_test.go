package env

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ghostgym/ghostgym/agent"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env/workload"
)

// slowest is the longest that a message has taken to be read.
type slowest struct{ lag kernel.Time }

func (s *slowest) Turn(t *trace.Turn) error {
	for i := range t.Messages {
		s.lag = max(s.lag, t.Now-t.Messages[i].Time)
	}
	return nil
}

// drawn is a run with the slices of its timeline.
type drawn struct {
	Machine
	result Result
	lag    kernel.Time
	cpus   map[int]kernel.Time // by CPU, how long tasks had it
	waits  kernel.Time
	names  map[string]int // of rows
	slices []string       // row, name, from and to in µs
}

func draw(t *testing.T, scheduler, load string, options func(*Setup)) *drawn {
	t.Helper()
	d := &drawn{cpus: map[int]kernel.Time{}, names: map[string]int{}}
	setup := prepare(t, &d.Machine, scheduler, load, 7, func(s *Setup) { // the timeline wants to know the machine
		s.Bursts = 300
		if options != nil {
			options(s)
		}
	})
	var b bytes.Buffer
	var seen slowest
	x := trace.NewTimeline(&b, d.Sim.Topology(), d.Sim.TaskName, 0)
	setup.Sinks = []trace.Sink{x, &seen}
	if err := d.Reset(setup); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.result, err = d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(d.Agent.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := trace.CheckTimeline(bytes.NewReader(b.Bytes())); err != nil { // also that no two slices of a row overlap
		t.Errorf("%s on %s: %v", scheduler, load, err)
	}
	d.lag = seen.lag
	d.read(t, b.Bytes())
	return d
}

func (d *drawn) read(t *testing.T, b []byte) {
	t.Helper()
	var file struct {
		TraceEvents []struct {
			Ph, Name string
			Pid, Tid int
			Ts, Dur  float64
			Args     struct{ Name string }
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	row := map[[2]int]string{}
	for _, e := range file.TraceEvents {
		if e.Ph == "X" {
			d.slices = append(d.slices, fmt.Sprintf("%s: %s %.0f-%.0f", row[[2]int{e.Pid, e.Tid}], e.Name, e.Ts, e.Ts+e.Dur))
		}
		span := kernel.Time(math.Round(e.Dur * 1e3))
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			row[[2]int{e.Pid, e.Tid}] = e.Args.Name
			d.names[e.Args.Name]++
		case e.Ph == "X" && e.Name == "waits":
			d.waits += span
		case e.Ph == "X":
			d.cpus[e.Tid] += span
			if d.names[e.Name] != 1 {
				t.Errorf("a slice of %q, which names %d rows", e.Name, d.names[e.Name])
			}
		}
	}
}

// TestTimelinesAddUp: a CPU's slices add up to the CPU time that tasks used there, but for what an agent cannot see: under percpu, its
// own time and the switch back to the task that it paused; at the end of a run that is cut off, tasks that have left and whose message
// has not been read, which takes no longer than the slowest did. Waits add up to those of the figures, and, where no switch goes on
// after the end, to the core's integral.
func TestTimelinesAddUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ends.json")
	text := `{"global": {"duration": 1}, "tasks": {
		"long": {"instance": 3, "delay": 10, "loop": 5, "run": 1000, "sleep": 50}, "short": {"delay": 11, "loop": 40, "run": 100, "sleep": 40},
		"lock": {"instance": 2, "loop": 20, "lock": "m", "run": 70, "unlock": "m", "yield": "", "run1": 20, "sleep": 30}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	loads := append(workload.Names(), "bimodal:cpus=4:load=0.9", "sched_bench:cycles=4", file+":cpus=2")
	hold := agent.Timing{Mode: agent.Hold, Delay: 3 * kernel.Microsecond, Bound: 20 * kernel.Microsecond}
	for _, load := range loads {
		for _, c := range []struct {
			name   string
			timing agent.Timing
		}{
			{name: "oracle+wp@ideal"}, {name: "gittins+wp@kthread"}, {name: "cfs+wp@linux"}, {name: "las+wp@ghost-percpu"},
			{name: "rr@ghost-percpu"}, {name: "cfs+wp@ghost-global"}, {name: "rr@ghost-global"},
			{"random@uthread", hold}, {"las+wp@ghost-percpu", hold}, {"cfs+wp@ghost-global", hold},
		} {
			draw(t, c.name, load, func(s *Setup) { s.Timing, s.Bursts = c.timing, 200 }).addsUp(t, c.name+" on "+load)
		}
	}
}

func (d *drawn) addsUp(t *testing.T, what string) {
	t.Helper()
	unseen := kernel.Time(0)
	if !d.result.Terminated {
		unseen = d.lag
	}
	percpu := d.Sim.Topology().Model == kernel.PerCPU
	over := kernel.Time(0)
	for n := range d.Sim.CPUs() {
		more := d.cpus[n] - d.Sim.CPUBusy(int32(n))
		over += more
		if more < 0 || !percpu && more > unseen {
			t.Errorf("%s: slices of CPU %d exceed its CPU time by %d ns, and %d can be explained", what, n, more, unseen)
		}
	}
	profile, err := sim.LoadProfile(d.setup.Profile)
	if err != nil {
		t.Fatal(err)
	}
	most := unseen * kernel.Time(d.Sim.CPUs())
	if percpu {
		most += d.Sim.Stats().Agent + profile.Switch*kernel.Time(d.Agent.Turns())
	}
	if over > most {
		t.Errorf("%s: slices exceed CPU time by %d ns, and %d can be explained", what, over, most)
	}
	f := d.result.Figures
	waits := float64(f.WaitMean) * 1e3 * float64(f.Bursts+f.Censored)
	if math.Abs(waits-float64(d.waits)) > 1e-9*waits {
		t.Errorf("%s: slices of waits add up to %d ns, the figures say %.0f", what, d.waits, waits)
	}
	if integral := d.reading().Wait; d.result.Terminated && math.Abs(waits-integral) > 1e-9*waits {
		t.Errorf("%s: tasks waited %.0f ns, the integral is %.0f", what, waits, integral)
	}
}

// TestTimelinesByHand: a task that was replaced, one that was replaced while it was being switched to, and two that never end.
func TestTimelinesByHand(t *testing.T) {
	for _, c := range []struct {
		tasks, scheduler string
		wait, age        float64
		want             []string
	}{
		{`"long": {"loop": 1, "run": 1000}, "short": {"delay": 400, "loop": 1, "run": 100}`, "oracle+wp@ideal", 50, 100, []string{
			"CPU 0: long-0 0-400", "CPU 0: short-0 400-500", "long-0: waits 400-500", "CPU 0: long-0 500-1100"}},
		{`"long": {"delay": 10, "loop": 1, "run": 1000}, "short": {"delay": 11, "loop": 1, "run": 100}`, "oracle+wp@kthread", 53.5, 104, []string{
			"long-0: waits 10-11", "short-0: waits 11-13", "CPU 0: short-0 13-113", "long-0: waits 11-115", "CPU 0: long-0 115-1115"}},
		{`"hog": {"instance": 2, "loop": -1, "run": 1000000}`, "fifo@ideal", 500e3, 1e6, []string{
			"CPU 0: hog-0 0-1000000", "hog-1: waits 0-1000000"}},
	} {
		file := filepath.Join(t.TempDir(), "w.json")
		if err := os.WriteFile(file, []byte(`{"global": {"duration": 1}, "tasks": {`+c.tasks+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		d := draw(t, c.scheduler, file+":cpus=1", nil)
		if !slices.Equal(d.slices, c.want) {
			t.Errorf("%s: %q, want %q", c.tasks, d.slices, c.want)
		}
		d.addsUp(t, c.tasks)
		if f := d.result.Figures; float64(f.WaitMean) != c.wait || float64(f.AgeMax) != c.age {
			t.Errorf("%s: mean wait %v µs, want %v; longest %v, want %v", c.tasks, f.WaitMean, c.wait, f.AgeMax, c.age)
		}
	}
}
