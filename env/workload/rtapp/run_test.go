package rtapp

import (
	"reflect"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/env/workload/internal/fifo"
)

const (
	ms      = kernel.Millisecond
	noLimit = 1 << 40
)

// seen is what the messages of a run say.
type seen struct {
	machine *sim.Sim
	names   map[kernel.TaskID]int // number in order of creation
	bursts  [][]kernel.Time
	wakeups [][]kernel.Time
	blocks  [][]kernel.Time
	ran     []map[int32]bool // CPUs
	runtime []kernel.Time
	ended   []kernel.Time
	nice    []int8
}

func run(t *testing.T, f *File, cpus int, horizon kernel.Time) *seen {
	t.Helper()
	w := f.Compile()
	m, err := fifo.Machine(w, cpus, horizon, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{machine: m, names: map[kernel.TaskID]int{}}
	d := fifo.Driver{See: s.see}
	if _, err := d.Run(m, horizon, noLimit); err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, name string) *File {
	t.Helper()
	f, repairs, err := Load("testdata/"+name+".json", false)
	if err != nil || len(repairs) > 0 {
		t.Fatal(err, repairs)
	}
	return f
}

func (s *seen) see(m *kernel.Message) {
	if m.Type == kernel.TaskNew {
		s.names[m.Task] = len(s.bursts)
		s.bursts, s.wakeups, s.blocks = append(s.bursts, nil), append(s.wakeups, nil), append(s.blocks, nil)
		s.runtime, s.ended = append(s.runtime, 0), append(s.ended, 0)
		s.ran, s.nice = append(s.ran, map[int32]bool{}), append(s.nice, m.Nice)
	}
	if m.Task == 0 {
		return
	}
	i := s.names[m.Task]
	switch m.Type {
	case kernel.TaskWakeup:
		s.wakeups[i] = append(s.wakeups[i], m.Time)
	case kernel.TaskPriority:
		s.nice[i] = m.Nice
	case kernel.TaskYield, kernel.TaskPreempt:
		s.ran[i][m.CPU] = true
	case kernel.TaskBlocked, kernel.TaskDead:
		s.ran[i][m.CPU] = true
		if n := m.Runtime - s.runtime[i]; n > 0 {
			s.bursts[i] = append(s.bursts[i], n)
			s.blocks[i] = append(s.blocks[i], m.Time)
			s.runtime[i] = m.Runtime
		}
		if m.Type == kernel.TaskDead {
			s.ended[i] = m.Time
		}
	}
}

func repeat(n int, v kernel.Time) []kernel.Time {
	all := make([]kernel.Time, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// One ball: while one runs, the other is suspended, so both together use one CPU all the time.
func TestPingPong(t *testing.T) {
	s := run(t, load(t, "pingpong"), 4, 60*ms)
	check(t, "left", s.bursts[0], repeat(10, 3*ms))
	check(t, "right", s.bursts[1], append([]kernel.Time{upkeep}, repeat(9, 3*ms)...))
	check(t, "right wakes", s.wakeups[1][:3], []kernel.Time{3 * ms, 9 * ms, 15 * ms})
}

// A relative timer that is late begins anew; an absolute one keeps its beat.
func TestTimers(t *testing.T) {
	s := run(t, load(t, "timers"), 8, 126*ms)
	for i := range 3 {
		check(t, "own", s.wakeups[i][:4], []kernel.Time{8 * ms, 16 * ms, 24 * ms, 32 * ms})
	}
	check(t, "late", s.wakeups[3], []kernel.Time{45 * ms, 65 * ms, 85 * ms})
	check(t, "steadfast", s.wakeups[4], []kernel.Time{40 * ms, 60 * ms, 80 * ms, 120 * ms})
}

// Nobody passes a barrier before the last has come.
func TestBarrier(t *testing.T) {
	s := run(t, load(t, "barrier"), 4, kernel.Second)
	// The three that are woken at the barrier need a moment on a CPU before they sleep.
	end := 50 * (4*ms + 500*us)
	check(t, "ends", s.ended, []kernel.Time{end, end + upkeep, end + upkeep, end + upkeep})
}

func TestFork(t *testing.T) {
	s := run(t, load(t, "fork"), 8, kernel.Second)
	check(t, "threads", len(s.bursts), 11)
	for i := 1; i < len(s.bursts); i++ {
		// 1500, sleep, yield after a microsecond, 300, 1500, ...
		check(t, "child", s.bursts[i], []kernel.Time{1500 * us, 300*us + upkeep + 1500*us, 300*us + upkeep})
		check(t, "end", s.ended[i] > 0, true)
	}
}

func TestSemaphores(t *testing.T) {
	s := run(t, load(t, "semaphores"), 2, kernel.Second)
	check(t, "source ended", s.ended[0] > 0, true)
	check(t, "sink ended", s.ended[1] > 0, true)
	check(t, "sink ran", s.runtime[1] >= 80*400*us, true)
}

func TestMemoryCosts(t *testing.T) {
	s := run(t, load(t, "memory"), 1, 100*ms)
	// 500 us, 2 MB filled, 1 MB read, 10000 hops, two writes of 100 kB in all; then the device, then the sleep.
	burst := 500*us + 200*us + 500*us + 800*us + 2*us + 10*us
	check(t, "burst", s.bursts[0][0], burst)
	check(t, "device", s.wakeups[0][0]-s.blocks[0][0], 200*us)
	if len(load(t, "memory").Compile().Notes) != 4 {
		t.Errorf("notes: %q", load(t, "memory").Compile().Notes)
	}
}

func TestAffinityAndNice(t *testing.T) {
	f := load(t, "affinity")
	s := run(t, f, f.CPUs, 3500*us)
	check(t, "nice", s.nice[0], int8(4))
	for cpu, want := range map[int32]bool{5: true, 0: true, 2: false, 3: false} {
		check(t, "mover's CPU", s.ran[0][cpu], want)
	}
	check(t, "no effect", f.NoEffect, []string{"util_min", "policy", "priority"})
}

// A delayed thread starts when its delay is over, and its timers count from there.
func TestDelay(t *testing.T) {
	f, _, err := Parse("f", []byte(task(`"delay": 700, "run": 100, "timer": {"ref": "unique", "period": 1000}`)), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 1, 4*ms)
	check(t, "wakeups", s.wakeups[0], []kernel.Time{700 * us, 1700 * us, 2700 * us, 3700 * us})
}

// Loops without any run do not stop the clock.
func TestLoopsCostTime(t *testing.T) {
	for _, text := range []string{`"run": 0`, `"resume": "x"`, `"yield"`, `"sleep": 0`, `"timer": {"ref": "u", "period": 0}`, `"phases": {"p": {"loop": -1, "run": 0}}`} {
		f, _, err := Parse("f", []byte(task(text)), false)
		if err != nil {
			t.Fatal(err)
		}
		s := run(t, f, 1, ms)
		check(t, text, s.machine.Now() >= ms, true)
	}
}
