package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/kerneltest"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/trace"
)

const us = kernel.Microsecond

// byTask answers with the negative of the task's slot as key: later tasks go first.
type byTask struct{ calls int }

func (p *byTask) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	p.calls++
	for i := range batch {
		out[i] = sched.Placement{Key: -float64(v.Task(batch[i].Task).ID.Slot()), Slot: 0}
	}
}

func message(at kernel.Time, typ kernel.MsgType, slot, seq uint32, ran kernel.Time) kernel.Message {
	m := kernel.Message{Time: at, Type: typ, Task: kernel.MakeTaskID(slot, 1), Seq: seq, Runtime: ran, CPU: kernel.NoCPU}
	if typ == kernel.TaskNew {
		m.Flags = kernel.FlagRunnable
	}
	return m
}

// three tasks on one CPU: 1 runs, 2 and 3 come while it does, then it ends.
func three() []kerneltest.Step {
	return []kerneltest.Step{
		{At: 0, Messages: []kernel.Message{message(0, kernel.TaskNew, 1, 1, 0)}},
		{At: 10 * us, Messages: []kernel.Message{message(10*us, kernel.TaskNew, 2, 1, 0)}},
		{At: 20 * us, Messages: []kernel.Message{message(20*us, kernel.TaskNew, 3, 1, 0)}},
		{At: 100 * us, Messages: []kernel.Message{message(100*us, kernel.TaskDead, 1, 2, 100*us)}},
		{At: 150 * us, Messages: []kernel.Message{message(150*us, kernel.TaskDead, 3, 2, 50*us)}},
		{At: 200 * us, Messages: []kernel.Message{message(200*us, kernel.TaskDead, 2, 2, 50*us)}},
	}
}

// play runs the steps and returns the order in which tasks got the CPU, and the fates.
func play(t *testing.T, timing Timing, inference kernel.Time, steps []kerneltest.Step, until kernel.Time) ([]uint32, sched.Fates, *kerneltest.Fake) {
	t.Helper()
	f := kerneltest.NewFake(1, steps...)
	a, err := New(Config{Kernel: f, Policy: &byTask{}, Timing: timing, Inference: inference, Until: until,
		Core: sched.Config{Order: sched.ByKey, Slice: kernel.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var order []uint32
	for _, c := range f.Commits {
		for _, x := range c {
			order = append(order, x.Task.Slot())
		}
	}
	return order, *a.Core().Fates(), f
}

func equal(a []uint32, b ...uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestTimings(t *testing.T) {
	for _, c := range []struct {
		name   string
		timing Timing
		order  []uint32
		fates  sched.Fates
	}{
		{"sync", Timing{}, []uint32{1, 3, 2}, sched.Fates{Requested: 2, Applied: 2, Trivial: 1}},
		{"async in time", Timing{Mode: Async, Delay: 30 * us}, []uint32{1, 3, 2}, sched.Fates{Requested: 2, Applied: 2, Trivial: 1}},
		{"async too late for one", Timing{Mode: Async, Delay: 95 * us}, []uint32{1, 2, 3},
			sched.Fates{Requested: 2, Applied: 1, Late: 1, Trivial: 1}},
		{"hold until the answer", Timing{Mode: Hold, Bound: 500 * us, Delay: 30 * us}, []uint32{1, 3, 2},
			sched.Fates{Requested: 2, Applied: 2, Trivial: 1}},
		{"hold past the bound", Timing{Mode: Hold, Bound: 20 * us, Delay: 30 * us}, []uint32{1, 3, 2},
			sched.Fates{Requested: 2, Applied: 2, Trivial: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := three()
			if c.name == "async too late for one" { // 2 runs first, so it ends first
				steps[4].Messages[0].Task, steps[5].Messages[0].Task = steps[5].Messages[0].Task, steps[4].Messages[0].Task
			}
			order, fates, _ := play(t, c.timing, 0, steps, 0)
			if !equal(order, c.order...) || fates != c.fates {
				t.Errorf("order %v, want %v; fates %+v, want %+v", order, c.order, fates, c.fates)
			}
		})
	}
}

func TestHoldKeepsTheTaskBack(t *testing.T) {
	steps := three()
	steps[3] = kerneltest.Step{At: 25 * us, Messages: []kernel.Message{message(25*us, kernel.TaskDead, 1, 2, 25*us)}}
	_, _, f := play(t, Timing{Mode: Hold, Bound: 500 * us, Delay: 30 * us}, 0, steps, 0)
	if len(f.Commits) < 2 || f.Commits[1][0].Task.Slot() != 2 || f.Commits[1][0].At != 40*us {
		t.Errorf("the CPU was free from 25 us on; commits %+v", f.Commits)
	}
}

func TestWhatIsUnderWayAtTheEnd(t *testing.T) {
	_, fates, _ := play(t, Timing{Mode: Async, Delay: 50 * us}, 0, three()[:3], 60*us)
	if fates.Applied != 0 || fates.Undelivered != 1 || fates.Abandoned != 1 {
		t.Errorf("one answer was due at 60 us, the other at 70: %+v", fates)
	}
}

func TestThinkingIsCharged(t *testing.T) {
	if _, _, f := play(t, Timing{}, 7*us, three(), 0); f.Charged != 14*us {
		t.Errorf("two decisions of 7 us charged %d", f.Charged)
	}
}

func TestLostMessagesAreCounted(t *testing.T) {
	steps := three()
	steps[2].Err = &kernel.LostError{Count: 5}
	f := kerneltest.NewFake(1, steps...)
	a, err := New(Config{Kernel: f, Policy: &byTask{}, Core: sched.Config{Order: sched.ByKey, Slice: us}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(context.Background()); err != nil || a.Lost() != 5 {
		t.Errorf("%v, %d lost", err, a.Lost())
	}
}

func TestErrorsEndTheRun(t *testing.T) {
	broken := errors.New("broken")
	steps := three()
	steps[2].Err = broken
	polls := kerneltest.NewFake(1, steps...)
	commits := kerneltest.NewFake(1, three()...)
	commits.Fail = broken
	for name, f := range map[string]*kerneltest.Fake{"poll": polls, "commit": commits} {
		a, err := New(Config{Kernel: f, Policy: &byTask{}, Core: sched.Config{Order: sched.ByKey, Slice: us}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(context.Background()); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.Core().Fates().Check(0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []Config{{}, {Kernel: polls, Timing: Timing{Mode: Hold}}, {Kernel: polls, Timing: Timing{Delay: 1}}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	a, err := New(Config{Kernel: kerneltest.NewFake(1, three()...), Core: sched.Config{Order: sched.ByKey, Slice: us}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Place(nil); err == nil {
		t.Error("an answer was taken that nobody had asked for")
	}
	if more, err := a.Observe(); !more || err != nil {
		t.Fatalf("no decision: %v", err)
	}
	if err := a.Place(make([]sched.Placement, 2)); err == nil {
		t.Error("two answers to one decision were taken")
	}
}

func TestCancelledRunsStop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var steps []kerneltest.Step
	for i := range uint32(5000) {
		steps = append(steps, kerneltest.Step{At: kernel.Time(i) * us,
			Messages: []kernel.Message{message(kernel.Time(i)*us, kernel.TaskNew, i, 1, 0)}})
	}
	f := kerneltest.NewFake(1, steps...)
	a, err := New(Config{Kernel: f, Policy: &byTask{}, Core: sched.Config{Order: sched.ByKey, Slice: us}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(ctx); !errors.Is(err, context.Canceled) || len(f.Steps) == 0 {
		t.Errorf("%v, %d steps left", err, len(f.Steps))
	}
}

// sink checks what a turn says against what the fake saw.
type sink struct {
	turns int
	txns  int
	hash  trace.Hash
	fail  error
}

func (s *sink) Turn(t *trace.Turn) error {
	s.turns++
	s.txns += len(t.Txns)
	s.hash.Turn(t)
	if len(t.Decisions) != len(t.Placements) {
		return errors.New("decisions without placements")
	}
	return s.fail
}

func TestSinksSeeEveryTurn(t *testing.T) {
	f, s := kerneltest.NewFake(1, three()...), &sink{}
	a, err := New(Config{Kernel: f, Policy: &byTask{}, Sinks: []trace.Sink{s}, Core: sched.Config{Order: sched.ByKey, Slice: us}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s.turns != 6 || s.txns != 3 || s.hash != a.Hash() || uint64(s.turns) != a.Turns() {
		t.Errorf("%d turns and %d transactions, hash %x of %x", s.turns, s.txns, s.hash, a.Hash())
	}
	s.fail = errors.New("disk full")
	if err := a.Reset(Config{Kernel: kerneltest.NewFake(1, three()...), Policy: &byTask{}, Sinks: []trace.Sink{s},
		Core: sched.Config{Order: sched.ByKey, Slice: us}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Run(context.Background()); !errors.Is(err, s.fail) {
		t.Errorf("a sink that fails: %v", err)
	}
}

func TestParseTiming(t *testing.T) {
	for text, want := range map[string]Timing{
		"sync": {}, "async": {Mode: Async}, "async+135ms": {Mode: Async, Delay: 135 * kernel.Millisecond},
		"hold=50us": {Mode: Hold, Bound: 50 * us}, "hold=50us+27us": {Mode: Hold, Bound: 50 * us, Delay: 27 * us},
	} {
		got, err := ParseTiming(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if back, err := ParseTiming(got.String()); err != nil || back != want {
			t.Errorf("%s became %s: %+v, %v", text, got, back, err)
		}
	}
	for _, text := range []string{"", "later", "sync+1ms", "hold", "hold=", "hold=-1us", "hold=0s", "async+", "async+-1us", "async+x"} {
		if _, err := ParseTiming(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// forever is a workload of tasks that run and sleep in turn and never end.
type forever struct{ tasks int }

type runner struct {
	burst, sleep kernel.Time
	ran          bool
}

func (r *runner) Next(*sim.Sim, kernel.TaskID) sim.Op {
	if r.ran = !r.ran; r.ran {
		return sim.Op{Kind: sim.OpRun, Time: r.burst}
	}
	return sim.Op{Kind: sim.OpSleep, Time: r.sleep}
}

func (w forever) Start(m *sim.Sim) {
	for i := range w.tasks {
		m.Spawn(sim.TaskSpec{Program: &runner{burst: kernel.Time(11+7*i) * us, sleep: kernel.Time(40+13*i) * us}})
	}
}

func (forever) Arrive(*sim.Sim) {}

// onMachine is an agent with a policy of the table over a simulated machine whose tasks run and sleep for ever.
func onMachine(t testing.TB, profile, name string, preempt bool, timing Timing) *Agent {
	t.Helper()
	p, err := sim.LoadProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sim.New(sim.Config{Profile: p, CPUs: 3, Horizon: kernel.Forever / 2, Workload: forever{tasks: 12}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := e.New(policy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	order, err := e.Orders.Choose(preempt)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Kernel: m, Policy: pol, Timing: timing, Inference: us, Until: kernel.Forever / 2,
		Core: sched.Config{Order: order, Preempt: preempt, Slice: 50 * us}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// answer plays n batches.
func answer(t testing.TB, a *Agent, n int) {
	t.Helper()
	for range n {
		more, err := a.Observe()
		if err != nil || !more {
			t.Fatalf("no decision: %v", err)
		}
		batch := a.Batch()
		for len(a.out) < len(batch) {
			a.out = append(a.out, sched.Placement{})
		}
		a.cfg.Policy.Place(a.View(), batch, a.out[:len(batch)])
		if err := a.Place(a.out[:len(batch)]); err != nil {
			t.Fatal(err)
		}
	}
}

var timings = []Timing{{}, {Mode: Async, Delay: 60 * us}, {Mode: Hold, Bound: 20 * us, Delay: 30 * us}}

func TestTurnsDoNotAllocate(t *testing.T) {
	for _, profile := range []string{"ideal", "ghost-percpu", "ghost-global"} {
		for _, timing := range timings {
			for _, name := range []string{"rr", "gittins", "front"} {
				a := onMachine(t, profile, name, name == "gittins", timing)
				answer(t, a, 4000)
				if n := testing.AllocsPerRun(20, func() { answer(t, a, 20) }); n != 0 {
					t.Errorf("%s@%s, %s: %v allocations in 20 batches", name, profile, timing, n)
				}
			}
		}
	}
}

// TestStopAddsUp: wherever a run is stopped, each decision has one fate.
func TestStopAddsUp(t *testing.T) {
	for _, timing := range timings {
		var abandoned, undelivered uint64
		for n := range 60 {
			a := onMachine(t, "ghost-global", "gittins", true, timing)
			answer(t, a, n)
			if n%2 == 0 { // with a batch open
				if more, err := a.Observe(); !more || err != nil {
					t.Fatalf("no decision: %v", err)
				}
			}
			if err := a.Stop(); err != nil {
				t.Errorf("%s, after %d batches: %v", timing, n, err)
			}
			if err := a.Stop(); err != nil {
				t.Errorf("%s: stopped twice: %v", timing, err)
			}
			f := a.Core().Fates()
			if sum := f.Applied + f.Late + f.Superseded + f.Expired + f.Dropped + f.Undelivered + f.Abandoned; sum != f.Requested {
				t.Errorf("%s: %d decisions, %d fates: %+v", timing, f.Requested, sum, *f)
			}
			abandoned += f.Abandoned
			undelivered += f.Undelivered
		}
		if abandoned == 0 {
			t.Errorf("%s: nothing was ever abandoned", timing)
		}
		if timing.Mode == Sync && undelivered > 0 {
			t.Errorf("sync: %d answers were not delivered", undelivered)
		}
	}
}
