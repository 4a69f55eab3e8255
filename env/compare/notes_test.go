package compare

import (
	"slices"
	"strings"
	"testing"
)

// noteWith is the only note of a workload that has the words; "" if there is none.
func noteWith(t *testing.T, w *WorkloadReport, words string) string {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(w.Notes), func(n string) bool { return !strings.Contains(n, words) })
	if len(found) > 1 {
		t.Errorf("%q stands in %d notes: %q", words, len(found), found)
	}
	return strings.Join(found, "\n")
}

// TestRunsThatEndInTheWarmUpAreNoted: sched_bench ends after 200 cycles, whatever the horizon is.
func TestRunsThatEndInTheWarmUpAreNoted(t *testing.T) {
	for _, c := range []struct {
		bursts, warmup float64
		says           string
	}{
		{2000, 0.25, "4 of 4 runs ended within the warm-up (25 % of the horizon of 1.5s): no burst that ended is in their figures; use --warmup 0"},
		{2000, 0.15, "4 of 4 runs ended before twice the warm-up (15 % of the horizon of 1.5s): most of each is not in its figures"},
		{2000, 0.1, ""},
		{2000, 0, ""},
		{300, 0.75, ""}, // the horizon ends them
	} {
		w := execute(t, Plan{Workloads: []Workload{{Name: "w", Specs: []string{"sched_bench:threads=2:cycles=200"}}}, Schedulers: []string{"fifo", "rr"},
			Reps: 2, Bursts: c.bursts, Warmup: c.warmup}).Workloads["w"]
		if got := noteWith(t, w, "warm-up"); got != c.says {
			t.Errorf("horizon %v, warm-up %v: %q, want %q", c.bursts, c.warmup, got, c.says)
		}
		if strings.Contains(c.says, "within") != (w.Schedulers["rr"].WaitMean.N == 0) {
			t.Errorf("warm-up %v: %+v", c.warmup, w.Schedulers["rr"].WaitMean)
		}
	}
}

// notesOf runs a workload briefly.
func notesOf(t *testing.T, spec string, schedulers ...string) *WorkloadReport {
	t.Helper()
	return execute(t, Plan{Workloads: []Workload{{Name: "w", Specs: []string{spec}}}, Schedulers: schedulers, Reps: 1, Bursts: 20}).Workloads["w"]
}

// TestMachinesThatBoundSlowdownsDifferentlyAreNoted: 5 switch costs, and 1 us at least.
func TestMachinesThatBoundSlowdownsDifferentlyAreNoted(t *testing.T) {
	for _, c := range []struct {
		spec       string
		schedulers []string
		says       string
	}{
		{"bimodal", []string{"fifo@kthread", "rr@kthread", "fifo@ideal", "cfs@linux"}, "(kthread: 10µs, ideal: 1µs, linux: 5.62µs): compare waits"},
		{"frame", []string{"fifo", "fifo@ideal"}, "(kthread: 10µs, ideal: 1µs)"},
		{"bimodal", []string{"fifo", "fifo@ideal"}, ""}, // 5 of its switches last 1 us
		{"bimodal", []string{"fifo@ghost-global", "fifo@ghost-percpu"}, ""},
	} {
		if got := noteWith(t, notesOf(t, c.spec, c.schedulers...), "slowdown"); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%s under %v: %q, want %q", c.spec, c.schedulers, got, c.says)
		}
	}
}

// TestOverloadIsNoted: the agent's own CPU runs no tasks.
func TestOverloadIsNoted(t *testing.T) {
	for _, c := range []struct {
		spec       string
		schedulers []string
		says       string
	}{
		{"bimodal:load=0.8:cpus=4", []string{"rr", "fifo@ghost-global", "rr@ghost-global"},
			"offered load 1.08, with one switch a burst, of the 3 CPUs that run tasks on ghost-global: it never settles"},
		{"bimodal:load=1:cpus=4", []string{"rr", "las"}, "offered load 1.00, with one switch a burst, of the 4 CPUs that run tasks on uthread: it never settles"},
		{"bimodal:load=0.7:cpus=4", []string{"rr", "rr@ghost-global"}, ""},
		{"frame:load=1.2:cpus=4", []string{"rr"}, ""}, // a closed loop settles
	} {
		if got := noteWith(t, notesOf(t, c.spec, c.schedulers...), "offered load"); got != c.says {
			t.Errorf("%s under %v: %q, want %q", c.spec, c.schedulers, got, c.says)
		}
	}
}
