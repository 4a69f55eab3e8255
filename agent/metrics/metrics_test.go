package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

const us = kernel.Microsecond

// play drives a core with hand-made messages under first come, first served, one CPU, and returns the figures at 1000 µs.
func play(t *testing.T, warmup kernel.Time, split bool, burst func(*sched.Task) (kernel.Time, bool)) Figures {
	t.Helper()
	c := New(Config{Warmup: warmup, SwitchCost: 0})
	topo := &kernel.Topology{CPUs: make([]kernel.CPU, 1), Channels: make([]kernel.CPUSet, 1)}
	topo.Channels[0].Add(0)
	core, err := sched.New(sched.Config{Topology: topo, Slice: kernel.Forever, Observer: c})
	if err != nil {
		t.Fatal(err)
	}
	id := func(n uint32) kernel.TaskID { return kernel.MakeTaskID(n, 1) }
	seq := map[kernel.TaskID]uint32{}
	turn := func(at kernel.Time, msgs ...kernel.Message) {
		for i := range msgs {
			seq[msgs[i].Task]++
			msgs[i].Time, msgs[i].Seq, msgs[i].CPU = at, seq[msgs[i].Task], kernel.NoCPU
		}
		parts := [][]kernel.Message{msgs}
		if split { // the same messages in turns of one each
			parts = nil
			for i := range msgs {
				parts = append(parts, msgs[i:i+1])
			}
		}
		for _, p := range parts {
			core.Observe(0, at, p)
			core.OpenBatch()
			out := make([]sched.Placement, len(core.Batch()))
			for i := range out {
				out[i] = sched.ToBack()
			}
			core.Apply(at, out)
			txns := core.Act(0, at, nil)
			for i := range txns {
				txns[i].State, txns[i].At = kernel.StateDone, at
			}
			core.Settle(at, txns)
		}
	}
	enter := func(n uint32) kernel.Message {
		return kernel.Message{Type: kernel.TaskNew, Task: id(n), Flags: kernel.FlagRunnable}
	}
	turn(0, enter(1), enter(2))                                                                      // 1 runs, 2 waits
	turn(100*us, kernel.Message{Type: kernel.TaskBlocked, Task: id(1), Runtime: 100 * us})           // 2 runs after 100
	turn(150*us, kernel.Message{Type: kernel.TaskWakeup, Task: id(1), Runtime: 100 * us})            // 1 waits
	turn(300*us, kernel.Message{Type: kernel.TaskDead, Task: id(2), Runtime: 200 * us})              // 1 runs after 150
	turn(400*us, kernel.Message{Type: kernel.TaskBlocked, Task: id(1), Runtime: 200 * us}, enter(3)) // 3 runs
	turn(600*us, enter(4))                                                                           // 4 waits for ever
	core.Stop()
	core.View().Now = 1000 * us
	c.Close(core, 1000*us, burst)
	return c.Figures()
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
			if got < want || got > want*(1+1.0/128)+1 || got > float64(values[n-1]) {
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
	}
}

func TestAddingDoesNotAllocate(t *testing.T) {
	h := NewHistogram(1)
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() { v = v*7%1000003 + 1; h.Add(v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
