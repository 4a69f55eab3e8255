package rtapp

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/env/workload/internal/fifo"
)

const (
	ms = kernel.Millisecond
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
	renices int
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
	if _, err := d.Run(m, horizon); err != nil {
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
		s.renices++
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

// A thread's own timer is of its task, also where another task has the same name.
func TestOwnTimersOfNamesakes(t *testing.T) {
	f, _, err := Parse("f", []byte(`{"tasks": {
		"t": {"loop": 1, "timer": {"ref": "unique", "period": 0, "mode": "absolute"}},
		"t": {"loop": 1, "phases": {
			"late": {"run": 25000, "timer": {"ref": "unique", "period": 20000}},
			"next": {"run": 1000, "timer": {"ref": "unique", "period": 20000}}}}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 2, kernel.Second)
	check(t, "relative", s.wakeups[1], []kernel.Time{45 * ms})
}

// Nobody passes a barrier before the last has come.
func TestBarrier(t *testing.T) {
	s := run(t, load(t, "barrier"), 4, kernel.Second)
	// The three that are woken at the barrier need a moment on a CPU before they sleep.
	end := 50 * (4*ms + 500*us)
	check(t, "ends", s.ended, []kernel.Time{end, end + upkeep, end + upkeep, end + upkeep})
	check(t, "notes", len(load(t, "barrier").Compile().Notes), 1)
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

// The policy of a phase stays for the ones that follow and says what their priority means; without a priority it has its own.
func TestPoliciesOfPhases(t *testing.T) {
	for _, c := range []struct {
		text    string
		nice    int8
		renices int // messages after that of the thread's creation
	}{
		{`"loop": 1, "phases": {"a": {"priority": 10, "run": 10}, "b": {"run": 10}}`, 10, 0},
		{`"loop": 1, "phases": {"a": {"priority": 10, "run": 10}, "b": {"policy": "SCHED_OTHER", "run": 10}}`, 0, 1},
		{`"loop": 1, "phases": {"a": {"policy": "SCHED_FIFO", "priority": 10, "run": 10}, "b": {"priority": 50, "run": 10}}`, 0, 0},
		{`"loop": 1, "priority": 7, "phases": {"a": {"policy": "SCHED_RR", "run": 10}, "b": {"run": 10}}`, 7, 0},
		{`"loop": 1, "priority": 7, "phases": {"a": {"policy": "SCHED_RR", "run": 10}, "b": {"policy": "SCHED_BATCH", "run": 1}}`, 0, 1},
		{`"loop": 50, "phases": {"a": {"priority": 5, "run": 10, "sleep": 10}}`, 5, 0},
		{`"loop": 50, "priority": 5, "phases": {"a": {"priority": 5, "run": 10, "sleep": 10}}`, 5, 0},
		{`"loop": 2, "phases": {"a": {"priority": 5, "run": 10}, "b": {"priority": 6, "run": 10}}`, 6, 3},
	} {
		f, _, err := Parse("f", []byte(task(c.text)), false)
		if err != nil {
			t.Error(err)
			continue
		}
		s := run(t, f, 1, kernel.Second)
		check(t, c.text+": nice", s.nice[0], c.nice)
		check(t, c.text+": messages", s.renices, c.renices)
	}
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

// A workload that blocks for ever ends at once, with a report of who waits for whom.
func TestDeadlock(t *testing.T) {
	s := run(t, load(t, "deadlock"), 2, kernel.Second)
	if !s.machine.Deadlocked() || s.machine.Now() != ms+100*us+2*upkeep {
		t.Errorf("deadlocked %v at %d", s.machine.Deadlocked(), s.machine.Now())
	}
	var waits []string
	for _, w := range s.machine.Waits() {
		waits = append(waits, w.String())
	}
	check(t, "waits", waits, []string{"one-0 waits for mutex b, held by two-0", "two-0 waits for mutex a, held by one-0"})
}

// Suspended with nobody to resume it: the file is accepted, and the notes say so before the run does.
func TestNobodyResumes(t *testing.T) {
	f, _, err := Parse("f", []byte(task(`"loop": 1, "run": 5, "suspend"`)), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 1, kernel.Second)
	check(t, "deadlocked", s.machine.Deadlocked(), true)
	check(t, "notes", f.Compile().Notes, []string{`"t": threads wait for it, and no event signals or resumes it`})
}

// A thread whose next phase has other CPUs moves although it runs.
func TestMoveWhileRunning(t *testing.T) {
	f, _, err := Parse("f", []byte(task(`"loop": 1, "phases": {"a": {"cpus": [0], "run": 100}, "b": {"cpus": [2], "run": 200}, "c": {"run": 300}}`)), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 3, kernel.Second)
	check(t, "CPUs", s.ran[0], map[int32]bool{0: true, 2: true})
	check(t, "end", s.ended[0], 600*us)
}

// A thread that has yielded or moved and waits for a CPU has not blocked: its bursts are those that it has when nobody is in its way.
func TestDisplacedThreadsDoNotBlock(t *testing.T) {
	for _, text := range []string{
		`"run": 10, "yield", "lock": "m", "unlock": "m", "sem_post": "s", "run": 10, "sleep": 5`,
		`"run": 10, "yield", "run": 0, "lock": "m", "unlock": "m", "sem_post": "s", "run": 10, "sleep": 5`,
		`"phases": {"p": {"cpus": [0], "run": 10}, "q": {"cpus": [1], "lock": "m", "unlock": "m", "sem_post": "s", "run": 10, "sleep": 5}}`,
	} {
		for _, delay := range []string{"1", "500"} {
			f, _, err := Parse("f", []byte(`{"tasks": {"a": {"loop": 1, `+text+`}, "b": {"loop": 1, "cpus": [0], "delay": `+delay+`, "run": 100},
				"c": {"loop": 1, "cpus": [1], "delay": `+delay+`, "run": 100}}}`), false)
			if err != nil {
				t.Fatal(err)
			}
			s := run(t, f, 2, kernel.Second)
			check(t, text+" and "+delay, s.bursts[0], []kernel.Time{20 * us})
		}
	}
}

// Threads suspended under one name are all resumed by it, and none later.
func TestResumeWakesAll(t *testing.T) {
	s := run(t, load(t, "display"), 4, kernel.Second)
	frames := 60 // at 0 nobody waits yet, and the 60th vblank comes after the end
	check(t, "composer", len(s.wakeups[1]), frames-1)
	check(t, "recorder", len(s.wakeups[2]), frames-1)
	check(t, "together", s.wakeups[1], s.wakeups[2])
	check(t, "worker", len(s.bursts[3]) > frames, true)
}

// rt-app waits under the name of a mutex that the file locks too: the wait gives it up.
func TestSuspendUnderALockedName(t *testing.T) {
	f, _, err := Parse("f", []byte(`{"tasks": {
		"a": {"loop": 1, "suspend": "m", "run": 100},
		"b": {"loop": 1, "lock": "m", "run": 1000, "unlock": "m", "resume": "m"}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 2, kernel.Second)
	check(t, "ends", s.ended[0] > s.ended[1] && s.ended[1] > 1000*us, true)
}

// A file may be run any number of times, and all state is of one run.
func TestRunsAreAlike(t *testing.T) {
	for _, name := range []string{"pingpong", "pipeline", "display", "timers", "barrier", "fork", "semaphores", "memory", "affinity", "deadlock"} {
		f := load(t, name)
		w := f.Compile()
		var all [2]*seen
		for i := range all {
			m, err := fifo.Machine(w, 6, 300*ms, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = &seen{names: map[kernel.TaskID]int{}}
			d := fifo.Driver{See: all[i].see}
			n, err := d.Run(m, 300*ms)
			if err != nil || n < 4 {
				t.Fatalf("%s: %d messages, %v", name, n, err)
			}
		}
		if !reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("%s: two runs differ", name)
		}
	}
}

// Forks are bounded, as in rt-app, and a task that forks itself ends all the same.
func TestForkBound(t *testing.T) {
	f, _, err := Parse("f", []byte(`{"tasks": {"t": {"loop": 1, "fork": "t", "fork2": "t", "run": 10}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 1, kernel.Second)
	check(t, "threads", len(s.bursts), 1+MaxForks)
}

// Where forks may be left out, the notes say so before the run does it.
func TestForkNotes(t *testing.T) {
	const left = ": forked at most 1024 times in a run; rt-app gives up at one more, here it is left out"
	child := `, "c": {"instance": 0, "loop": 1, "run": 1}}}`
	for text, want := range map[string][]string{
		`{"tasks": {"t": {"loop": 1, "fork": "t", "run": 10}}}`:                                       {`"t"` + left},
		`{"tasks": {"t": {"loop": 1024, "fork": "c", "run": 1}` + child:                               nil,
		`{"tasks": {"t": {"loop": 1025, "fork": "c", "run": 1}` + child:                               {`"c"` + left},
		`{"tasks": {"t": {"fork": "c", "run": 1}` + child:                                             {`"c"` + left},
		`{"tasks": {"t": {"loop": 205, "phases": {"p": {"loop": 5, "fork": "c", "run": 1}}}` + child:  {`"c"` + left},
		`{"tasks": {"t": {"loop": 500, "fork": "c", "fork2": "c", "fork3": "c", "run": 1}` + child:    {`"c"` + left},
		`{"tasks": {"t": {"instance": 0, "loop": -1, "fork": "c", "run": 1}, "u": {"run": 1}` + child: nil,
	} {
		f, _, err := Parse("f", []byte(text), false)
		if err != nil {
			t.Error(err)
			continue
		}
		check(t, text, f.Compile().Notes, want)
	}
	var many strings.Builder
	for i := range 10 {
		fmt.Fprintf(&many, `"t%d": {"instance": 1000, "loop": 1, "fork": "t%d", "run": 1},`, i, i)
	}
	f, _, err := Parse("f", []byte(`{"tasks": {`+many.String()+`}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "last note", f.Compile().Notes[10], "at most 20000 threads start in a run; forks beyond that are left out")
}

// rt-app counts who comes to a barrier by the threads that it starts itself: one that only forks come to never opens.
func TestBarrierOfForks(t *testing.T) {
	f, _, err := Parse("f", []byte(`{"tasks": {"a": {"loop": 1, "fork": "b", "fork1": "b", "run": 10},
		"b": {"instance": 0, "loop": 1, "barrier": "x", "run": 10}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 4, kernel.Second)
	check(t, "deadlocked", s.machine.Deadlocked(), true)
	check(t, "ended", s.ended[1:], []kernel.Time{0, 0})
	check(t, "notes", f.Compile().Notes, []string{`"x": only forked threads come to this barrier; rt-app does not count them, so they wait for ever`})
}

// Whatever reads, runs: no file makes the machine fail.
func FuzzRun(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, _, err := Parse("f", src, true)
		if err != nil || file.CPUs > 8 {
			return
		}
		m, err := fifo.Machine(file.Compile(), max(2, file.CPUs), 20*ms, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		d := fifo.Driver{Slice: ms, Stop: func() bool { return m.Stats().Events > 20000 }}
		if _, err := d.Run(m, 20*ms); err != nil {
			t.Fatal(err)
		}
	})
}

// Many events in a row take their time, so that the work to simulate a span is bounded.
func TestLongRow(t *testing.T) {
	const pairs = 8000
	f, _, err := Parse("f", []byte(task(`"loop": 1, `+strings.Repeat(`"resume": "x", "run": 0,`, pairs))), false)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, f, 1, kernel.Second)
	check(t, "end", s.ended, []kernel.Time{2 * pairs / maxRow * upkeep})
}
