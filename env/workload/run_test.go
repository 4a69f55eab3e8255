package workload

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
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
	if _, err := d.Run(machine(t, in, cpus, horizon), horizon); err != nil {
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
		b := watch(t, in, 96, horizon, fifo.Driver{})
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

// One instance serves many episodes: started again with the same seed, it does the same again, however the first one ended.
func TestInstancesAreReused(t *testing.T) {
	for _, name := range Names() {
		in, err := Build(name, Params{})
		if err != nil {
			t.Fatal(err)
		}
		horizon := 2000 * in.Interarrival
		first := watch(t, in, in.CPUs, horizon, fifo.Driver{})
		watch(t, in, in.CPUs, horizon/7, fifo.Driver{LIFO: true})
		again := watch(t, in, in.CPUs, horizon, fifo.Driver{})
		if len(first.lengths) != len(again.lengths) {
			t.Fatalf("%s: %d tasks, then %d", name, len(first.lengths), len(again.lengths))
		}
		for i := range first.lengths {
			if !slices.Equal(first.lengths[i], again.lengths[i]) {
				t.Fatalf("%s: task %d differs", name, i)
			}
		}
	}
}

// Other seeds and other episodes are other workloads.
func TestSeedsDiffer(t *testing.T) {
	profile, err := sim.LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		in, err := Build(name, Params{})
		if err != nil {
			t.Fatal(err)
		}
		var times [][]kernel.Time
		for _, c := range []sim.Config{{Seed: 1}, {Seed: 2}, {Seed: 1, Episode: 1}} {
			c.Profile, c.CPUs, c.Horizon, c.Slack, c.Workload = profile, in.CPUs, 1000*in.Interarrival, in.Slack, in.Workload
			m, err := sim.New(c)
			if err != nil {
				t.Fatal(err)
			}
			var at []kernel.Time
			d := fifo.Driver{See: func(msg *kernel.Message) { at = append(at, msg.Time) }}
			if _, err := d.Run(m, c.Horizon); err != nil {
				t.Fatal(err)
			}
			times = append(times, at)
		}
		if slices.Equal(times[0], times[1]) || slices.Equal(times[0], times[2]) || slices.Equal(times[1], times[2]) {
			t.Errorf("%s: two seeds or episodes give the same run", name)
		}
	}
}

// A second episode on the same machine does not allocate: everything is there from the first.
func TestNoAllocations(t *testing.T) {
	profile, err := sim.LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"rtapp/testdata/pipeline.json", "rtapp/testdata/fork.json", "rtapp/testdata/display.json"}
	for _, name := range append(Names(), files...) {
		in, err := Build(name, Params{})
		if err != nil {
			t.Fatal(err)
		}
		c := sim.Config{
			Profile: profile, CPUs: in.CPUs, Horizon: 2000 * in.Interarrival, Slack: in.Slack, Seed: 3, Workload: in.Workload,
		}
		m, err := sim.New(c)
		if err != nil {
			t.Fatal(err)
		}
		var d fifo.Driver
		messages := 0
		episode := func() {
			if err := m.Reset(c); err != nil {
				t.Fatal(err)
			}
			if messages, err = d.Run(m, c.Horizon); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(1, episode); n != 0 {
			t.Errorf("%s: %.0f allocations in an episode of %d messages", name, n, messages)
		}
		if messages < 100 {
			t.Errorf("%s: %d messages", name, messages)
		}
	}
}

// The stages of a game run in their order, each once per frame, and a game keeps to its period if nobody is in its way.
func TestFrames(t *testing.T) {
	in, err := Build("frame", Params{})
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		at    kernel.Time
		stage string
	}
	ends := map[uint32][]end{} // by slot
	horizon := 100 * kernel.Time(framePeriod)
	m := machine(t, in, 100, horizon)
	ran := map[kernel.TaskID]kernel.Time{}
	d := fifo.Driver{See: func(msg *kernel.Message) {
		if msg.Type == kernel.TaskBlocked && msg.Runtime > ran[msg.Task] {
			ran[msg.Task] = msg.Runtime
			ends[msg.Task.Slot()] = append(ends[msg.Task.Slot()], end{msg.Time, m.TaskName(msg.Task)})
		}
	}}
	if _, err := d.Run(m, horizon); err != nil {
		t.Fatal(err)
	}
	games := int(math.Round(in.Params.Load * float64(in.CPUs) * framePeriod / 7.5e6))
	if games != 4 {
		t.Fatalf("%d games", games)
	}
	for g := range uint32(games) {
		var of [4][]end
		for s := range of {
			of[s] = ends[4*g+uint32(s)]
			if n := len(of[s]); n < 98 || n > 100 || of[s][0].stage != fmt.Sprintf("%s %d", stages[s].name, g) {
				t.Fatalf("game %d: %d frames of %s", g, n, of[s][0].stage)
			}
		}
		for i := range 98 {
			if !(of[0][i].at < of[1][i].at && of[0][i].at < of[2][i].at && of[1][i].at < of[3][i].at) {
				t.Errorf("game %d, frame %d: %v %v %v %v", g, i, of[0][i], of[1][i], of[2][i], of[3][i])
			}
		}
	}
}

// Every phase of a task, the first one too, has as many bursts as were drawn for it.
func TestPhaseLengths(t *testing.T) {
	in, err := Build("phase", Params{})
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t, in, in.CPUs, kernel.Second)
	workers := in.Workload.(*closed).workers
	for i := range workers {
		w := &workers[i]
		w.reset(m, uint64(i))
		for phase, mean, left, bursts := 0, w.mean, w.left, 0; phase < 4; {
			if op := w.Next(m, 0); op.Kind != sim.OpRun {
				continue
			}
			if w.mean != mean {
				if bursts != left {
					t.Errorf("task %d: phase %d has %d bursts, want %d", i, phase, bursts, left)
				}
				phase, mean, left, bursts = phase+1, w.mean, w.left+1, 0
			}
			bursts++
		}
	}
}

// Where frames are late, each is a burst of its own all the same.
func TestLateFrames(t *testing.T) {
	in, err := Build("frame", Params{})
	if err != nil {
		t.Fatal(err)
	}
	const frames = 2000
	for _, cpus := range []int{1, 2, 3} {
		b := watch(t, in, cpus, frames*kernel.Time(framePeriod), fifo.Driver{})
		var count, sum, longest [len(stages)]float64
		for i, lengths := range b.lengths[:16] {
			for _, n := range lengths {
				count[i%4]++
				sum[i%4] += float64(n)
				longest[i%4] = max(longest[i%4], float64(n))
			}
		}
		for i := range stages {
			// Four standard errors of the mean, and the longest of some thousand draws from a lognormal law with sigma 0.3.
			mean, most := sum[i]/count[i]/stages[i].mean, longest[i]/stages[i].mean
			if math.Abs(mean-1) > 4*.31/math.Sqrt(count[i]) || most > 3.5 {
				t.Errorf("%d CPUs, %s: %.0f bursts, mean %.3f and longest %.2f of the mean that is declared", cpus, stages[i].name, count[i], mean, most)
			}
		}
		if count[0] > 4*frames/2 {
			t.Errorf("%d CPUs: %.0f frames begun, too few are late", cpus, count[0])
		}
	}
}

// To measure a file is bounded work, whatever its tasks do.
func TestMeasureIsBounded(t *testing.T) {
	const cpus = 128
	// Between two looks at the counters a millisecond may pass, in which each CPU has at most 1000 runs of a microsecond.
	const mostEvents, mostLooks = nominalEvents + cpus*1000*2 + 1000, nominalLooks + cpus*501
	for _, tasks := range []string{
		`"t": {"instance": 300, "run": 0}`,
		`"t": {"instance": 300, "yield"}`,
		`"t": {"instance": 300, "run": 1, "sleep": 1}`,
		`"t": {"instance": 300, "cpus": [15], "run": 0}`,
		`"a": {"instance": 500, "cpus": [0], "run": 1, "sleep": 1}, "b": {"cpus": [127], "run": 1, "sleep": 1}`,
	} {
		path := filepath.Join(t.TempDir(), "w.json")
		if err := os.WriteFile(path, []byte(`{"tasks": {`+tasks+`}, "global": {"duration": 1000}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := Build(path, Params{CPUs: cpus})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := in.measure(); err != nil || e.events > mostEvents || e.looks > mostLooks {
			t.Errorf("%s: %+v, at most %d and %d are allowed: %v", tasks, e, mostEvents, mostLooks, err)
		}
		if in.Interarrival < 1 || in.MeanBurst < 1 || in.Duration != 1000*kernel.Second {
			t.Errorf("%s: %+v", tasks, in)
		}
	}
}
