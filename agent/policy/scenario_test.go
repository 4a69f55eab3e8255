package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/sched/schedtest"
)

const (
	us = kernel.Microsecond
	ms = kernel.Millisecond
)

// told passes finished bursts on to a policy that wants to hear of them, as the agent does.
type told struct {
	view   *sched.View
	policy Policy
}

func (o *told) Dispatched(*sched.Task, kernel.Time, kernel.Time, bool) {}

func (o *told) BurstEnded(t *sched.Task, _, burst kernel.Time) {
	if b, ok := o.policy.(BurstObserver); ok {
		b.BurstEnded(o.view, int32(t.ID.Slot()), burst)
	}
}

func make1(tb testing.TB, name string) Policy {
	tb.Helper()
	e, err := Find(name)
	if err != nil {
		tb.Fatal(err)
	}
	c := Config{}
	if e.NeedsModel {
		c = Config{Scorer: &linear{}, Schema: schemaBy(sched.ByKey), Fallback: "gittins"}
	}
	p, err := e.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func machine(tb testing.TB, cpus int, cfg sched.Config, p Policy) *schedtest.Machine {
	o := &told{policy: p}
	cfg.Observer = o
	m := schedtest.New(tb, cpus, cfg)
	o.view = m.Core.View()
	return m
}

// live lets a task alone on the machine have bursts of the length given, each after a sleep.
func live(m *schedtest.Machine, p Policy, task, bursts int, burst kernel.Time) {
	for range bursts {
		if m.Core.NumTasks() > task && m.Core.View().Task(int32(task)).State == sched.Blocked {
			m.Wake(task)
		} else {
			m.Enter(task, 0)
		}
		m.Turn(ms, p)
		m.Block(task, burst).Turn(burst, p)
	}
}

// In each scene one CPU runs task 9, and task 8 waits. Then 1, which had bursts of 10 ms, 2, which had bursts of 0.1 ms, and 3, which
// had bursts of 1 ms, wake in one turn; and a while later 9 loses the CPU.
func TestScenarios(t *testing.T) {
	for _, c := range []struct {
		policy    string
		order     sched.Order
		waiting   []int // after the wakeups
		next      int   // who gets the CPU that 9 loses after 2 ms
		preempted []int // the queue then
	}{
		{"fifo", sched.BySlot, []int{8, 1, 2, 3}, 9, []int{8, 1, 2, 3}},
		{"fifo", sched.ByKey, []int{8, 1, 2, 3}, 9, []int{8, 1, 2, 3}},
		{"rr", sched.BySlot, []int{8, 1, 2, 3}, 8, []int{1, 2, 3, 9}},
		{"rr", sched.ByKey, []int{8, 1, 2, 3}, 8, []int{1, 2, 3, 9}},
		{"front", sched.BySlot, []int{1, 2, 3, 8}, 9, []int{1, 2, 3, 8}},
		{"las", sched.ByKey, []int{8, 1, 2, 3}, 8, []int{1, 2, 3, 9}},
		// 8 is new: what is expected of it is the mean of all
		{"sept", sched.ByKey, []int{2, 8, 3, 1}, 2, []int{8, 3, 9, 1}},
		// by the prior each can hope for a burst of 0.1 ms: the more bursts of other lengths a task has had, the less. 1 and 3 had
		// as many, so that they tie; 9, past 2 ms, can only hope for 10 ms
		{"gittins", sched.ByKey, []int{2, 8, 1, 3}, 2, []int{8, 1, 3, 9}},
		// vruntimes in ms: who is new begins a slice of 2 after the queue's clock, so that 1 began at 2 and stands at 52, 2 began at 44
		// and had 0.5, 3 began at 46.4 and stands at 51.4, 9 began at 52.4, and 8 at 54.4; who wakes comes from no farther behind the
		// clock than a slice, so that 2 stands at 50.4; and 9 ties with 8 when it has had 2
		{"cfs", sched.ByKey, []int{2, 3, 1, 8}, 2, []int{3, 1, 8, 9}},
	} {
		p := make1(t, c.policy)
		m := machine(t, 1, sched.Config{Order: c.order, Slice: 2 * ms, Events: sched.EventsAll}, p)
		for _, h := range []struct {
			task  int
			burst kernel.Time
		}{{1, 10 * ms}, {2, 100 * us}, {3, ms}} {
			live(m, p, h.task, 5, h.burst)
		}
		m.Enter(9, 0).Turn(ms, p)
		m.Enter(8, 0).Turn(10*us, p)
		m.Wake(1).Wake(2).Wake(3).Turn(10*us, p)
		if got := m.Queue(); !slices.Equal(got, c.waiting) {
			t.Errorf("%s by %s: waiting %v, want %v", c.policy, c.order, got, c.waiting)
		}
		m.Preempt(9, 2*ms).Turn(2*ms-20*us, p)
		if got := m.Granted(); !slices.Equal(got, []int{c.next}) {
			t.Errorf("%s by %s: the CPU goes to %v, want %d", c.policy, c.order, got, c.next)
		}
		if got := m.Queue(); !slices.Equal(got, c.preempted) {
			t.Errorf("%s by %s: waiting %v after a preemption, want %v", c.policy, c.order, got, c.preempted)
		}
		if err := m.Core.Fates().Check(m.Core.Open()); err != nil {
			t.Error(err)
		}
	}
}

// A task that wakes takes the CPU from one that its policy thinks worse of now, and only then.
func TestWakeupPreemption(t *testing.T) {
	for _, c := range []struct {
		policy        string
		runner, waker int
		ran           kernel.Time // by the running task, since it was dispatched
		takes         bool
	}{
		{"fifo", 1, 2, 5 * ms, false},
		{"rr", 1, 2, 5 * ms, false},
		{"las", 1, 2, 10 * us, true},   // the waker has attained nothing
		{"sept", 1, 2, 10 * us, false}, // both had bursts of 1 ms
		{"sept", 1, 2, 900 * us, false},
		{"sept", 1, 2, 1100 * us, true}, // overrun
		{"sept", 1, 3, 1100 * us, true}, // 3 had bursts of 2 ms, less than twice what 1 has used
		{"sept", 1, 3, 900 * us, false},
		{"gittins", 1, 2, 700 * us, false}, // soon done
		{"gittins", 1, 2, 5 * ms, true},    // longer than any burst before
		// vruntimes in ms: 2 has had 30 since it began at 19; 1 is at 38, no farther behind the clock than a slice
		{"cfs", 1, 2, 10 * us, false},
		{"cfs", 1, 2, 10900 * us, false},
		{"cfs", 1, 2, 11100 * us, true},
		{"cfs", 2, 1, 10 * us, true},
	} {
		p := make1(t, c.policy)
		m := machine(t, 1, sched.Config{Order: sched.ByKey, Preempt: true, Slice: 10 * ms}, p)
		live(m, p, 1, 30, ms)
		live(m, p, 2, 30, ms)
		if c.waker == 3 {
			live(m, p, 3, 30, 2*ms)
		}
		m.Wake(c.runner).Turn(ms, p)
		m.Wake(c.waker).Turn(c.ran, p)
		if took := slices.Equal(m.Granted(), []int{c.waker}); took != c.takes {
			v := m.Core.View()
			t.Errorf("%s: after %d ns the CPU is taken: %v, want %v (keys %v and %v)", c.policy, c.ran, took, c.takes,
				v.Task(int32(c.runner)).Key, v.Task(int32(c.waker)).Key)
		}
	}
}

// What a running task is judged by goes up to now, and by its weight; under fifo nobody is better than who runs.
func TestRunningKeys(t *testing.T) {
	for policy, want := range map[string]float64{
		"fifo": math.Inf(-1), "rr": math.Inf(1), "las": 3e6, "sept": 6e6, "cfs": 2e6*1024/335 + 1e6*1024/335,
	} {
		p := make1(t, policy)
		m := machine(t, 1, sched.Config{Order: sched.ByKey, Preempt: true, Slice: kernel.Forever}, p)
		m.Enter(1, 5).Turn(ms, p)
		m.Yield(1, 2*ms).Turn(2*ms, p)
		m.Enter(2, 0)
		batch := m.Observe(ms)
		out := make([]sched.Placement, len(batch))
		p.Place(m.Core.View(), batch, out)
		if len(batch) != 2 || !batch[1].Running || batch[1].Task != 1 {
			t.Fatalf("%s: batch %+v", policy, batch)
		}
		if got := out[1].Key; got != want && !(math.Abs(got/want-1) <= 1e-9) {
			t.Errorf("%s: the running task has key %v, want %v", policy, got, want)
		}
	}
}

// Under cfs, tasks that always want the CPU share it by weight.
func TestCFSShares(t *testing.T) {
	p := make1(t, "cfs")
	m := machine(t, 1, sched.Config{Order: sched.ByKey}, p)
	nices := []int8{0, 5, -3}
	for n, nice := range nices {
		m.Enter(n, nice)
	}
	m.Turn(ms, p)
	total, weights := kernel.Time(0), 0.0
	for range 5000 {
		running := m.Granted()[0]
		m.Preempt(running, ms).Turn(ms, p)
	}
	for n, nice := range nices {
		total += m.Core.View().Task(int32(n)).Runtime
		weights += sched.WeightOf(nice)
	}
	for n, nice := range nices {
		got, want := float64(m.Core.View().Task(int32(n)).Runtime)/float64(total), sched.WeightOf(nice)/weights
		if math.Abs(got-want) > 0.002 {
			t.Errorf("nice %d has %.4f of the CPU, want %.4f", nice, got, want)
		}
	}
}

// Where all bursts are alike in kind, the order of gittins follows the index worked out by hand.
func TestGittinsIndex(t *testing.T) {
	p := new(gittins)
	m := machine(t, 1, sched.Config{Order: sched.ByKey, Slice: kernel.Forever, AgeBound: kernel.Second}, p)
	// half the bursts are of about 0.1 ms, half of about 10 ms
	for i := range 400 {
		live(m, p, 1, 1, []kernel.Time{100 * us, 10 * ms}[i&1])
	}
	key := func(attained kernel.Time) float64 {
		m.Wake(1).Turn(ms, p)
		m.Yield(1, attained)
		batch := m.Observe(attained)
		if len(batch) == 0 { // nobody else: not asked
			batch = []sched.Decision{{Task: 1}}
		}
		out := make([]sched.Placement, 1)
		p.Place(m.Core.View(), batch[:1], out)
		m.Place(p)
		m.Block(1, 0).Turn(0, p)
		return out[0].Key
	}
	short, long := sched.BinMiddle(sched.Bin(1e5)), sched.BinMiddle(sched.Bin(1e7))
	// fresh: stop after the short ones, each costing short time, half of the bursts ending: 2·short, against the mean of both
	if got, want := key(0), 2*short; math.Abs(got/want-1) > 0.1 {
		t.Errorf("fresh: %v, want about %v", got, want)
	}
	if got, want := key(ms), long-1e6; math.Abs(got/want-1) > 0.05 {
		t.Errorf("after 1 ms: %v, want about %v", got, want)
	}
}

// A task's history is that of its incarnation, and outweighs what is known of all.
func TestGittinsKnowsTasks(t *testing.T) {
	p := new(gittins)
	m := machine(t, 1, sched.Config{Order: sched.ByKey, Slice: kernel.Forever}, p)
	for range 20 {
		live(m, p, 1, 1, 10*ms)
		live(m, p, 2, 1, 50*us)
	}
	keyOf := func(task int32) float64 {
		out := make([]sched.Placement, 1)
		p.Place(m.Core.View(), []sched.Decision{{Task: task}}, out)
		return out[0].Key
	}
	m.Wake(1).Wake(2).Turn(0, p)
	long, short := keyOf(1), keyOf(2)
	if !(long > 5*short) {
		t.Errorf("the task of long bursts has key %v, that of short ones %v", long, short)
	}
	// 20 bursts of 10 ms that fade count for own, and the prior for 3, half of them short. The best that 1 can hope for is a short
	// one, at which all have spent a short time for 1.5 that end
	own := (1 - math.Pow(historyDecay, 20)) / (1 - historyDecay)
	if want := sched.BinMiddle(sched.Bin(50e3)) * (own + 3) / 1.5; math.Abs(long/want-1) > 1e-9 {
		t.Errorf("the task of long bursts has key %v, want %v", long, want)
	}
	m.Exit(2, 0).Turn(ms, p)
	m.Exit(1, 0).Turn(ms, p)
	m.Enter(1, 0).Enter(2, 0).Turn(ms, p)
	if a, b := keyOf(1), keyOf(2); a != b {
		t.Errorf("new incarnations have keys %v and %v, by histories of other tasks", a, b)
	}
}

func TestRandomIsUniform(t *testing.T) {
	p := newRandom()
	m := machine(t, 1, sched.Config{Order: sched.BySlot}, p)
	for n := range 4 {
		m.Enter(n, 0).Turn(us, p)
	}
	m.Enter(4, 0)
	batch := m.Observe(us)
	counts := map[int32]int{}
	out := make([]sched.Placement, 1)
	const draws = 40000
	for range draws {
		p.Place(m.Core.View(), batch, out)
		counts[out[0].Slot]++
	}
	// three wait: slots 0, 1, 2 and the back
	for _, slot := range []int32{0, 1, 2, sched.Back} {
		if d := float64(counts[slot]) - draws/4; math.Abs(d) > 5*math.Sqrt(draws*3/16.) {
			t.Errorf("slot %d was named %d times of %d, want about a quarter", slot, counts[slot], draws)
		}
	}
	if len(counts) != 4 {
		t.Errorf("slots named: %v", counts)
	}
}

// recorder notes what a policy answers.
type recorder struct {
	Policy
	keys []sched.Placement
}

func (r *recorder) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	r.Policy.Place(v, batch, out)
	r.keys = append(r.keys, out...)
}

// After Reset a policy is as new, and chance follows the seed.
func TestResetIsExact(t *testing.T) {
	for _, e := range Entries() {
		order, err := e.Orders.Choose(e.NeedsModel || e.Orders == Key)
		if err != nil {
			t.Fatal(err)
		}
		run := func(p Policy, seed uint64) []sched.Placement {
			if r, ok := p.(Resetter); ok {
				r.Reset(seed)
			}
			m := machine(t, 2, sched.Config{Order: order, Preempt: order == sched.ByKey}, p)
			r := &recorder{Policy: p}
			m.Shuffle(11, 20, 600, r, nil)
			return r.keys
		}
		p := make1(t, e.Name)
		first := run(p, 5)
		if len(first) < 200 {
			t.Fatalf("%s: only %d answers", e.Name, len(first))
		}
		run(p, 6)
		if !slices.Equal(run(p, 5), first) {
			t.Errorf("%s: answers differ after Reset", e.Name)
		}
		if !slices.Equal(run(make1(t, e.Name), 5), first) {
			t.Errorf("%s: a new one answers otherwise than after Reset", e.Name)
		}
		if e.Name == "random" && slices.Equal(run(p, 6), first) {
			t.Error("random: the seed does not matter")
		}
	}
}

// frozen is a machine in the middle of a turn, with a batch of four new tasks and, by key, the running ones.
func frozen(tb testing.TB, order sched.Order, p Policy) (*sched.View, []sched.Decision) {
	m := machine(tb, 4, sched.Config{Order: order, Preempt: order == sched.ByKey}, p)
	m.Shuffle(3, 40, 2000, p, nil)
	for i := range 4 {
		m.Enter(50+i, 0)
	}
	batch := m.Observe(100 * us)
	if len(batch) < 4 {
		tb.Fatalf("%d decisions", len(batch))
	}
	return m.Core.View(), batch
}

func TestPlaceDoesNotAllocate(t *testing.T) {
	for _, e := range Entries() {
		p := make1(t, e.Name)
		order, _ := e.Orders.Choose(e.NeedsModel)
		v, batch := frozen(t, order, p)
		out := make([]sched.Placement, len(batch))
		if n := testing.AllocsPerRun(100, func() {
			p.Place(v, batch, out)
			if b, ok := p.(BurstObserver); ok {
				b.BurstEnded(v, batch[0].Task, ms)
			}
			if r, ok := p.(Resetter); ok {
				r.Reset(1)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", e.Name, n)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, e := range Entries() {
		b.Run(e.Name, func(b *testing.B) {
			p := make1(b, e.Name)
			order, _ := e.Orders.Choose(e.NeedsModel)
			v, batch := frozen(b, order, p)
			out := make([]sched.Placement, len(batch))
			b.ReportAllocs()
			for b.Loop() {
				p.Place(v, batch, out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/decision")
		})
	}
}

// TestCFSServesNewTasksInTurn: where every request is a new task that a slice is enough for, least virtual runtime is first come, first
// served, also with wakeup preemption.
func TestCFSServesNewTasksInTurn(t *testing.T) {
	for _, preempt := range []bool{false, true} {
		p := make1(t, "cfs")
		m := machine(t, 1, sched.Config{Order: sched.ByKey, Slice: 2 * ms, Preempt: preempt}, p)
		m.Enter(1, 0).Turn(ms, p)
		for task := 2; task < 6; task++ {
			m.Enter(task, 0).Turn(100*us, p)
		}
		if got := m.Queue(); !slices.Equal(got, []int{2, 3, 4, 5}) {
			t.Errorf("preemption %v: waiting %v", preempt, got)
		}
	}
}
