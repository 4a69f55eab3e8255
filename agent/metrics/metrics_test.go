package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

const us = kernel.Microsecond

// rig drives a core with hand-made messages under first come, first served, one CPU.
type rig struct {
	core  *sched.Core
	c     *Collector
	seq   map[kernel.TaskID]uint32
	cost  kernel.Time // of a switch
	split bool        // the messages of a turn come in turns of one each
}

func newRig(t *testing.T, warmup kernel.Time) *rig {
	t.Helper()
	r := &rig{c: New(Config{Warmup: warmup, SwitchCost: 0}), seq: map[kernel.TaskID]uint32{}}
	topo := &kernel.Topology{CPUs: make([]kernel.CPU, 1), Channels: make([]kernel.CPUSet, 1)}
	topo.Channels[0].Add(0)
	var err error
	if r.core, err = sched.New(sched.Config{Topology: topo, Slice: kernel.Forever, Observer: r.c}); err != nil {
		t.Fatal(err)
	}
	return r
}

func id(n uint32) kernel.TaskID { return kernel.MakeTaskID(n, 1) }

func enter(n uint32) kernel.Message {
	return kernel.Message{Type: kernel.TaskNew, Task: id(n), Flags: kernel.FlagRunnable}
}

func (r *rig) turn(at kernel.Time, msgs ...kernel.Message) {
	for i := range msgs {
		r.seq[msgs[i].Task]++
		msgs[i].Time, msgs[i].Seq, msgs[i].CPU = at, r.seq[msgs[i].Task], kernel.NoCPU
	}
	parts := [][]kernel.Message{msgs}
	if r.split {
		parts = nil
		for i := range msgs {
			parts = append(parts, msgs[i:i+1])
		}
	}
	for _, p := range parts {
		r.core.Observe(0, at, p)
		r.core.OpenBatch()
		out := make([]sched.Placement, len(r.core.Batch()))
		for i := range out {
			out[i] = sched.ToBack()
		}
		r.core.Apply(at, out)
		txns := r.core.Act(0, at, nil)
		for i := range txns {
			txns[i].State, txns[i].At = kernel.StateDone, at+r.cost
		}
		r.core.Settle(at, txns)
	}
}

func (r *rig) end(at kernel.Time, burst func(*sched.Task) (kernel.Time, bool)) Figures {
	r.core.Stop()
	r.core.View().Now = at
	r.c.Close(r.core, at, burst)
	return r.c.Figures()
}

// play returns the figures at 1000 µs.
func play(t *testing.T, warmup kernel.Time, split bool, burst func(*sched.Task) (kernel.Time, bool)) Figures {
	t.Helper()
	r := newRig(t, warmup)
	r.split = split
	r.turn(0, enter(1), enter(2))                                                                      // 1 runs, 2 waits
	r.turn(100*us, kernel.Message{Type: kernel.TaskBlocked, Task: id(1), Runtime: 100 * us})           // 2 runs after 100
	r.turn(150*us, kernel.Message{Type: kernel.TaskWakeup, Task: id(1), Runtime: 100 * us})            // 1 waits
	r.turn(300*us, kernel.Message{Type: kernel.TaskDead, Task: id(2), Runtime: 200 * us})              // 1 runs after 150
	r.turn(400*us, kernel.Message{Type: kernel.TaskBlocked, Task: id(1), Runtime: 200 * us}, enter(3)) // 3 runs
	r.turn(600*us, enter(4))                                                                           // 4 waits for ever
	return r.end(1000*us, burst)
}

func near(t *testing.T, what string, got Number, want float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(float64(got)) || math.Abs(float64(got)-want) > 0.01*math.Abs(want)+1e-9 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestFiguresByHand: bursts 100, 200, 100 µs with waits 0, 100, 150; then 3 runs from 400 on and 4 waits from 600 on.
func TestFiguresByHand(t *testing.T) {
	truth := func(x *sched.Task) (kernel.Time, bool) { return 1000 * us, true }
	for _, split := range []bool{false, true} {
		f := play(t, 0, split, truth)
		near(t, "wait", f.WaitMean, (0+100+150+0+400)/5.0)
		near(t, "wakeup p50", f.WakeupP50, 100)
		near(t, "wakeup max", f.WakeupMax, 400)
		near(t, "slowdown", f.SlowdownMean, (1+300.0/200+250.0/100)/3)
		near(t, "age", f.AgeMax, 400)
		near(t, "throughput", f.Throughput, 3000)
		near(t, "utilisation", f.Utilisation, 1)
		near(t, "turnaround", f.Turnaround, 0.3)
		if f.Bursts != 3 || f.Censored != 2 || f.Unstarted != 1 || f.Switches != 3 {
			t.Errorf("split %v: %d bursts, %d censored, %d unstarted, %d switches", split, f.Bursts, f.Censored, f.Unstarted, f.Switches)
		}
		if f.Fates.Requested != f.Fates.Applied || f.Fates.Trivial+f.Fates.Requested != 5 {
			t.Errorf("fates %+v", f.Fates)
		}
	}
	// an open burst counts as slow once its response exceeds its length
	f := play(t, 0, false, func(x *sched.Task) (kernel.Time, bool) { return 100 * us, true })
	near(t, "slowdown with open bursts", f.SlowdownMean, (1+300.0/200+250.0/100+600.0/100+400.0/100)/5)
	// the warm-up leaves out what ended in it, and what is still open counts
	f = play(t, 350*us, false, truth)
	if f.Bursts != 1 || f.Censored != 2 {
		t.Errorf("after the warm-up: %d bursts, %d censored", f.Bursts, f.Censored)
	}
	near(t, "wait after the warm-up", f.WaitMean, (150+0+400)/3.0)
}

// TestWakeupsThatUseNoCPU: who waits for a CPU only to exit has waited, but that is no burst.
func TestWakeupsThatUseNoCPU(t *testing.T) {
	r := newRig(t, 0)
	r.turn(0, enter(1), enter(2))
	r.turn(100*us, kernel.Message{Type: kernel.TaskBlocked, Task: id(1), Runtime: 100 * us})
	r.turn(150*us, kernel.Message{Type: kernel.TaskWakeup, Task: id(1), Runtime: 100 * us})
	r.turn(300*us, kernel.Message{Type: kernel.TaskDead, Task: id(2), Runtime: 200 * us})
	r.turn(300*us, kernel.Message{Type: kernel.TaskDead, Task: id(1), Runtime: 100 * us})
	f := r.end(300*us, nil)
	near(t, "wait", f.WaitMean, (0+100+150)/2.0)
	near(t, "wait p99", f.WaitP99, 100)
	near(t, "wakeup", f.WakeupMax, 150)
	near(t, "age", f.AgeMax, 150)
	near(t, "slowdown", f.SlowdownMean, (1+300.0/200)/2)
	near(t, "turnaround", f.Turnaround, 0.3)
	if f.Bursts != 2 || f.Slowdowns != 2 || f.Wakeups != 3 || f.Finished != 2 || f.Censored != 0 {
		t.Errorf("%d bursts, %d slowdowns, %d wakeups, %d finished, %d censored", f.Bursts, f.Slowdowns, f.Wakeups, f.Finished, f.Censored)
	}
}

// TestNothingIsMeasuredBeyondTheEnd: the second burst is granted a CPU that it gets long after the end.
func TestNothingIsMeasuredBeyondTheEnd(t *testing.T) {
	r := newRig(t, 0)
	r.turn(0, enter(1))
	r.cost = kernel.Second
	r.turn(100*us, kernel.Message{Type: kernel.TaskBlocked, Task: id(1), Runtime: 100 * us}, enter(2))
	f := r.end(300*us, nil)
	near(t, "wait", f.WaitMean, (0+200)/2.0)
	near(t, "wakeup", f.WakeupMax, 200)
	near(t, "age", f.AgeMax, 200)
	near(t, "utilisation", f.Utilisation, 1.0/3)
	if f.Bursts != 1 || f.Censored != 1 || f.Wakeups != 2 || f.Unstarted != 1 {
		t.Errorf("%d bursts, %d censored, %d wakeups, %d unstarted", f.Bursts, f.Censored, f.Wakeups, f.Unstarted)
	}
}

// TestEveryFigureIsDefined: once, in the order of the fields.
func TestEveryFigureIsDefined(t *testing.T) {
	var want, got []string
	for _, of := range []reflect.Type{reflect.TypeFor[Figures](), reflect.TypeFor[sched.Fates]()} {
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "fates" {
				want = append(want, name)
			}
		}
	}
	for _, d := range Definitions() {
		got = append(got, d.Name)
		if !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("%s: %q is no sentence", d.Name, d.Doc)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("defined are %v, the fields are %v", got, want)
	}
}

func TestNothingIsNull(t *testing.T) {
	c := New(Config{})
	b, err := json.Marshal(c.Figures())
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"wait_mean_us", "wakeup_p99_us", "slowdown_mean", "turnaround_ms", "throughput_per_s", "age_max_us"} {
		if v, there := m[k]; !there || v != nil {
			t.Errorf("%s of nothing is %v", k, v)
		}
	}
	var back Figures
	if err := json.Unmarshal(b, &back); err != nil || !math.IsNaN(float64(back.WaitMean)) {
		t.Errorf("%v, %v", back.WaitMean, err)
	}
}

// TestHistogramAgainstSorting: percentiles are the values of nearest rank within a bin's width, never beyond the maximum.
func TestHistogramAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 127, 128, 129, 5000} {
		h := NewHistogram(1)
		other := NewHistogram(1)
		var values []int64
		for i := range n {
			v := int64(math.Exp(rng.Float64() * 30))
			values = append(values, v)
			if i%3 == 0 {
				other.Add(v)
			} else {
				h.Add(v)
			}
		}
		h.Merge(other)
		slices.Sort(values)
		sum := 0.0
		for _, v := range values {
			sum += float64(v)
		}
		if h.N() != uint64(n) || math.Abs(h.Mean()-sum/float64(n)) > 1e-9*sum {
			t.Errorf("n %d of %d, mean %v of %v", h.N(), n, h.Mean(), sum/float64(n))
		}
		for _, p := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			want := float64(values[max(int(math.Ceil(p*float64(n)-1e-9)), 1)-1])
			got := h.Percentile(p)
			if got > want || got < want*(1-1.0/128)-1 {
				t.Errorf("n %d, p %v: %v, want %v", n, p, got, want)
			}
		}
		points := h.CDF()
		if last := points[len(points)-1]; last.Share != 1 || last.Value != float64(values[n-1]) {
			t.Errorf("the distribution ends at %+v", last)
		}
		h.Reset()
		if h.N() != 0 || !math.IsNaN(h.Percentile(0.5)) {
			t.Error("a histogram that was reset has values")
		}
		h.Add(3)
		if h.Percentile(1) != 3 {
			t.Errorf("after a reset 3 is %v", h.Percentile(1))
		}
		h.Add(2000)
		same := h.Percentile(1)
		if h.Add(50000); h.Percentile(2.0/3) != same { // what is longer changes nothing of it
			t.Errorf("2000 is %v, and %v beside a greater value", same, h.Percentile(2.0/3))
		}
	}
}

func TestAddingDoesNotAllocate(t *testing.T) {
	h := NewHistogram(1)
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() { v = v*7%1000003 + 1; h.Add(v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
