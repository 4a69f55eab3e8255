package compare

import (
	"maps"
	"slices"

	"github.com/ghostgym/ghostgym/env"
)

// results are the finished runs of a scheduler on a workload, by repetition.
type results map[int]*env.Result

// deterministic reports whether repetitions are one run again and again: every spec has one trace, and some spec has it twice.
func (r results) deterministic(specs int) bool {
	traces, again := map[int]string{}, false
	for rep, res := range r {
		trace, met := traces[rep%specs]
		if met && trace != res.TraceHash {
			return false
		}
		traces[rep%specs], again = res.TraceHash, again || met
	}
	return again
}

// samples are the repetitions that count as evidence, of those that all the schedulers given have finished: of each spec one where
// all of them are deterministic. Where only some are, the others' chance is what an interval is about.
func samples(specs int, of ...results) []int {
	reps, once := slices.Sorted(maps.Keys(of[0])), true
	for _, r := range of {
		reps = slices.DeleteFunc(reps, func(rep int) bool { return r[rep] == nil })
		once = once && r.deterministic(specs)
	}
	if !once {
		return reps
	}
	met := map[int]bool{}
	return slices.DeleteFunc(reps, func(rep int) bool {
		again := met[rep%specs]
		met[rep%specs] = true
		return again
	})
}
