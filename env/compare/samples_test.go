package compare

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/env"
)

// tracesOf makes results whose traces are given, one letter each; a space is a repetition that was not finished.
func tracesOf(letters string) results {
	r := results{}
	for rep, letter := range letters {
		if letter != ' ' {
			r[rep] = &env.Result{TraceHash: string(letter)}
		}
	}
	return r
}

// TestSamplesAreRunsThatDiffer: what repeats itself counts once, unless the other side of a pair is random.
func TestSamplesAreRunsThatDiffer(t *testing.T) {
	for _, c := range []struct {
		specs int
		of    []string
		want  []int
	}{
		{1, []string{"aaaa"}, []int{0}},
		{1, []string{"a"}, []int{0}},
		{1, []string{""}, nil},
		{1, []string{"aaba"}, []int{0, 1, 2, 3}}, // chance may bring a run twice
		{1, []string{" aa"}, []int{1}},
		{2, []string{"abab"}, []int{0, 1}},
		{2, []string{"aaaa"}, []int{0, 1}},
		{2, []string{"ab"}, []int{0, 1}},
		{2, []string{"abac"}, []int{0, 1, 2, 3}},
		{1, []string{"aaaa", "bbbb"}, []int{0}},
		{1, []string{"aaaa", "bcde"}, []int{0, 1, 2, 3}},
		{1, []string{"aaa ", " bbb"}, []int{1}},
		{1, []string{"abc ", " bcd"}, []int{1, 2}},
	} {
		var of []results
		for _, letters := range c.of {
			of = append(of, tracesOf(letters))
		}
		if got := samples(c.specs, of...); !slices.Equal(got, c.want) {
			t.Errorf("%d specs, %q: %v, want %v", c.specs, c.of, got, c.want)
		}
	}
}

const periodic = `{"global": {"duration": 1}, "tasks": {
	"four": {"instance": 4, "loop": -1, "run": 2000, "timer": {"ref": "tick", "period": 10000}},
	"one": {"loop": 50, "run": 5000, "sleep": 15000}}}`

// TestRepetitionsOfOneRunAreNoEvidence: where nothing is random, twenty repetitions say no more than one. A random scheduler has
// a distribution, and so do the differences to it.
func TestRepetitionsOfOneRunAreNoEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "periodic.json")
	put(t, path, periodic)
	p := Plan{Workloads: []Workload{{Name: "w", Specs: []string{path + ":cpus=1"}}}, Schedulers: []string{"rr", "las", "random"}, Reps: 5, Bursts: 100}
	w := execute(t, p).Workloads["w"]
	for name, n := range map[string]int{"rr": 1, "las": 1, "random": 5} {
		if x := w.Schedulers[name].WaitMean; x.N != n || math.IsNaN(float64(x.SD)) != (n == 1) {
			t.Errorf("%s: %+v, want n = %d", name, x, n)
		}
	}
	for _, x := range w.Paired {
		if n := map[string]int{"las": 1, "random": 5}[x.B]; x.Metric == "wait_mean_us" && (x.N != n || math.IsNaN(float64(x.Lo)) != (n == 1)) {
			t.Errorf("%+v, want n = %d", x, n)
		}
	}
	if !slices.Contains(w.Notes, "deterministic under rr, las: the repetitions are one run, no interval between these") {
		t.Errorf("%q", w.Notes)
	}
	p.Schedulers = p.Schedulers[:2]
	r := execute(t, p)
	if !slices.Contains(r.Workloads["w"].Notes, "deterministic: the repetitions are one run, no interval") || len(r.Runs) != 10 {
		t.Errorf("%d runs, %q", len(r.Runs), r.Workloads["w"].Notes)
	}
	if !strings.Contains(r.Markdown(), "; no interval |") {
		t.Error(r.Markdown())
	}
}
