package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

const us = kernel.Microsecond

// scripted is a program read from a line: "run 10; lock 0; run 5; unlock 0; sleep 20; exit".
type scripted struct {
	ops  []Op
	at   int
	loop bool
}

func (s *scripted) Next(*Sim, kernel.TaskID) Op {
	if s.at == len(s.ops) {
		if !s.loop {
			return Op{Kind: OpExit}
		}
		s.at = 0
	}
	s.at++
	return s.ops[s.at-1]
}

var opNames = map[string]OpKind{
	"exit": OpExit, "run": OpRun, "sleep": OpSleep, "until": OpSleepUntil, "yield": OpYield, "lock": OpLock, "unlock": OpUnlock,
	"wait": OpWait, "signal": OpSignal, "broadcast": OpBroadcast, "barrier": OpBarrier, "post": OpPost, "acquire": OpAcquire,
	"suspend": OpSuspend, "resume": OpResume, "nop": OpNop,
}

func parseOps(t *testing.T, line string) *scripted {
	s := &scripted{}
	for _, part := range strings.Split(line, ";") {
		f := strings.Fields(part)
		if len(f) == 0 {
			continue
		}
		if f[0] == "again" {
			s.loop = true
			continue
		}
		kind, ok := opNames[f[0]]
		if !ok {
			t.Fatalf("unknown op %q", part)
		}
		op := Op{Kind: kind, Mutex: None}
		for i, x := range f[1:] {
			n, err := strconv.Atoi(x)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case kind == OpRun || kind == OpSleep || kind == OpSleepUntil:
				op.Time = kernel.Time(n) * us
			case i == 0:
				op.Ref = int32(n)
			default:
				op.Mutex = int32(n)
			}
		}
		s.ops = append(s.ops, op)
	}
	return s
}

// script is a scenario: objects and tasks, and how the agent behaves.
type script struct {
	tasks   []string
	objects []string
}

func (s *script) Start(m *Sim) {
	for i, o := range s.objects {
		f := strings.Fields(o)
		name := string(rune('a' + i))
		switch f[0] {
		case "mutex":
			m.NewMutex(name)
		case "cond":
			m.NewCond(name)
		case "barrier":
			n, _ := strconv.Atoi(f[1])
			m.NewBarrier(name, n)
		case "semaphore":
			n, _ := strconv.Atoi(f[1])
			m.NewSemaphore(name, n)
		}
	}
	for i, line := range s.tasks {
		m.Spawn(TaskSpec{Program: parseOps(s.t(), line), Name: "t" + strconv.Itoa(i)})
	}
}

func (s *script) Arrive(*Sim) {}

func (s *script) t() *testing.T { return current }

var current *testing.T // of the scenario under way

// TestScenarios plays each file of testdata under a first-come-first-served agent and compares the transcript of messages and
// transactions. A file: "profile NAME", "cpus N", "slice µs", "think µs", "horizon µs", "object KIND …", "task OPS", then a line "---".
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			current = t
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(b), "---\n")
			got := head + "---\n" + transcript(t, head)
			if *update {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(b) {
				t.Errorf("%s differs; run go test -update and read the difference\n%s", f, got)
			}
		})
	}
}

func transcript(t *testing.T, head string) string {
	var s script
	c := Config{CPUs: 1, Horizon: kernel.Second, Workload: &s}
	slice, think := kernel.Forever, kernel.Time(0)
	for _, line := range strings.Split(head, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		n, _ := strconv.Atoi(rest)
		switch word {
		case "profile":
			p, err := LoadProfile(rest)
			if err != nil {
				t.Fatal(err)
			}
			c.Profile = p
		case "cpus":
			c.CPUs = n
		case "slice":
			slice = kernel.Time(n) * us
		case "think":
			think = kernel.Time(n) * us
		case "horizon":
			c.Horizon = kernel.Time(n) * us
		case "object":
			s.objects = append(s.objects, rest)
		case "task":
			s.tasks = append(s.tasks, rest)
		}
	}
	m, err := New(c)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var out strings.Builder
	d := driver{m: m, slice: slice, think: think, seen: func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }}
	d.run()
	if m.Deadlocked() {
		for _, w := range m.Waits() {
			fmt.Fprintln(&out, "deadlock:", w)
		}
	}
	st := m.Stats()
	fmt.Fprintf(&out, "end at %s: busy %s, agent %s, %d switches, %d migrations, %d preemptions, %d finished\n", micros(m.Now()),
		micros(st.Busy), micros(st.Agent), st.Switches, st.Migrations, st.Preemptions, st.Finished)
	return out.String()
}

func micros(t kernel.Time) string { return strconv.FormatFloat(float64(t)/1e3, 'f', -1, 64) + "us" }

// TestMessagesKeepTheRules: per task, sequence numbers and CPU time grow and states follow each other; nobody is on two CPUs.
func TestMessagesKeepTheRules(t *testing.T) {
	for _, name := range Profiles() {
		t.Run(name, func(t *testing.T) {
			p, err := LoadProfile(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(Config{Profile: p, CPUs: 4, Horizon: 100 * kernel.Millisecond, Slack: 5000, Seed: 1, Workload: &churn{}})
			if err != nil {
				t.Fatal(err)
			}
			last := map[kernel.TaskID]kernel.Message{}
			n := 0
			d := driver{m: m, slice: 20 * us}
			d.check = func(_ kernel.Channel, msgs []kernel.Message) {
				for _, x := range msgs {
					n++
					old, known := last[x.Task]
					if known == (x.Type == kernel.TaskNew) {
						t.Fatalf("%v of task %v, known before: %v", x.Type, x.Task, known)
					}
					if known && (x.Seq != old.Seq+1 || x.Time < old.Time || x.Runtime < old.Runtime || old.Type == kernel.TaskDead) {
						t.Fatalf("%+v follows %+v", x, old)
					}
					if x.Type == kernel.TaskWakeup && (old.Type != kernel.TaskBlocked && old.Type != kernel.TaskNew || x.Runtime != old.Runtime) {
						t.Fatalf("%+v follows %+v", x, old)
					}
					if x.Time > m.Now() {
						t.Fatalf("%+v comes from the future, it is %d", x, m.Now())
					}
					last[x.Task] = x
				}
			}
			d.run()
			if n < 1000 {
				t.Errorf("only %d messages", n)
			}
			var sum kernel.Time
			for i := range m.tasks {
				if m.tasks[i].state != gone {
					sum += m.TaskCPU(m.tasks[i].id)
				}
			}
			for _, x := range last {
				if x.Type == kernel.TaskDead {
					sum += x.Runtime
				}
			}
			if busy := m.Stats().Busy; sum != busy {
				t.Errorf("tasks have used %d ns of CPU, CPUs were busy for %d", sum, busy)
			}
		})
	}
}

// TestStaleBarriers: a message that has not been read makes a transaction stale, and other refusals name themselves.
func TestStaleBarriers(t *testing.T) {
	current = t
	p, err := LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Profile: p, CPUs: 2, Horizon: kernel.Second,
		Workload: &script{tasks: []string{"run 10; sleep 10; run 5", "run 50", "sleep 500"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, msgs, err := m.Poll(nil, kernel.Forever)
	if err != nil || len(msgs) != 3 {
		t.Fatalf("%v %v", msgs, err)
	}
	a, b, c := msgs[0], msgs[1], msgs[2]
	for _, x := range []struct {
		txn  kernel.Txn
		want kernel.TxnState
	}{
		{kernel.Txn{Task: a.Task, CPU: 7, Barrier: a.Seq}, kernel.StateInvalidCPU},
		{kernel.Txn{Task: kernel.MakeTaskID(0, 9), CPU: 0, Barrier: a.Seq}, kernel.StateNotFound},
		{kernel.Txn{Task: a.Task, CPU: 0, Barrier: a.Seq + 1}, kernel.StateStale},
		{kernel.Txn{Task: c.Task, CPU: 0, Barrier: c.Seq}, kernel.StateNotRunnable},
		{kernel.Txn{Task: a.Task, CPU: 0, Barrier: a.Seq, Slice: kernel.Forever}, kernel.StateDone},
		{kernel.Txn{Task: a.Task, CPU: 1, Barrier: a.Seq, Slice: kernel.Forever}, kernel.StateOnCPU},
		{kernel.Txn{Task: b.Task, CPU: 0, Barrier: b.Seq, Flags: kernel.TxnIdleOnly}, kernel.StateBusy},
		{kernel.Txn{Task: b.Task, CPU: 1, Barrier: b.Seq, Slice: kernel.Forever}, kernel.StateDone},
	} {
		txns := []kernel.Txn{x.txn}
		if err := m.Commit(0, txns); err != nil || txns[0].State != x.want {
			t.Errorf("%+v: %v, %v; want %v", x.txn, txns[0].State, err, x.want)
		}
	}
	if ch, msgs, err := m.Poll(nil, 9*us); ch != -1 || len(msgs) != 0 || err != nil || m.Now() != 9*us {
		t.Errorf("until 9 us: %d %v %v at %d", ch, msgs, err, m.Now())
	}
	if err := m.Commit(5, nil); err == nil {
		t.Error("a commit by a channel that is not there was taken")
	}
}

func TestResetIsNew(t *testing.T) {
	play := func(m *Sim) string {
		var out strings.Builder
		d := driver{m: m, slice: 20 * us, seen: func(f string, a ...any) { fmt.Fprintf(&out, f+"\n", a...) }}
		d.run()
		return out.String()
	}
	p, err := LoadProfile("ghost-percpu")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Profile: p, CPUs: 3, Horizon: 20 * kernel.Millisecond, Slack: 5000, Seed: 1, Workload: &churn{}}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	first := play(m)
	c.Seed = 2
	if err := m.Reset(c); err != nil {
		t.Fatal(err)
	}
	if play(m) == first {
		t.Error("two seeds gave one run")
	}
	c.Seed = 1
	if err := m.Reset(c); err != nil {
		t.Fatal(err)
	}
	if play(m) != first {
		t.Error("after a reset the machine is not as new")
	}
}

type endless struct{}

func (endless) Next(*Sim, kernel.TaskID) Op { return Op{Kind: OpNop} }

type endlessLoad struct{ p Program }

func (w endlessLoad) Start(m *Sim) { m.Spawn(TaskSpec{Program: w.p, Name: "spinner"}) }
func (endlessLoad) Arrive(*Sim)    {}

func TestBadProgramsEndTheRun(t *testing.T) {
	p, err := LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    Program
		says string
	}{{endless{}, "spinner"}, {&scripted{ops: []Op{{Kind: OpLock, Ref: 3}}}, "object 3"}} {
		m, err := New(Config{Profile: p, CPUs: 1, Horizon: kernel.Second, Workload: endlessLoad{c.p}})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		d := driver{m: m, slice: us, seen: func(f string, a ...any) { said = fmt.Sprintf(f, a...) }}
		d.run()
		if !strings.Contains(said, c.says) {
			t.Errorf("%q does not say %q", said, c.says)
		}
	}
}

func TestEventsDoNotAllocate(t *testing.T) {
	current = t
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(Config{Profile: p, CPUs: 3, Horizon: kernel.Forever / 2, Slack: 1000, Workload: &script{
			objects: []string{"mutex", "semaphore 0"},
			tasks: []string{"run 10; sleep 30; again", "lock 0; run 40; unlock 0; sleep 5; again", "lock 0; run 3; unlock 0; yield; again",
				"run 7; post 1; sleep 9; again", "acquire 1; run 2; again"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		d := driver{m: m, slice: 15 * us, maximum: 3000}
		d.run()
		if n := testing.AllocsPerRun(50, func() { d.maximum = d.turns + 20; d.run() }); n != 0 {
			t.Errorf("%s: %v allocations in 20 turns", name, n)
		}
	}
}

func TestTasksThatCouldNeverRun(t *testing.T) {
	p, err := LoadProfile("ghost-global")
	if err != nil {
		t.Fatal(err)
	}
	var last kernel.CPUSet
	last.Add(1) // which is the agent's
	_, err = New(Config{Profile: p, CPUs: 2, Horizon: kernel.Second, Workload: pinned{&last}})
	if err == nil || !strings.Contains(err.Error(), "chained") {
		t.Errorf("%v does not name the task", err)
	}
}

type pinned struct{ set *kernel.CPUSet }

func (w pinned) Start(m *Sim) {
	m.Spawn(TaskSpec{Program: &scripted{ops: []Op{{Kind: OpRun, Time: us}}}, Name: "chained", CPUs: w.set})
}
func (pinned) Arrive(*Sim) {}
