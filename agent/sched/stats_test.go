package sched

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBinIsItsFormula: the table gives what the logarithm does, at every edge and anywhere.
func TestBinIsItsFormula(t *testing.T) {
	check := func(ns float64) {
		t.Helper()
		if got, want := Bin(ns), binOf(ns); got != want {
			t.Errorf("%v ns: bin %d, by the formula %d", ns, got, want)
		}
	}
	seen := map[int]bool{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200000 {
		ns := math.Exp2(rng.Float64() * 50)
		check(ns)
		check(math.Floor(ns))
		seen[Bin(ns)] = true
	}
	if len(seen) != Bins {
		t.Errorf("%d bins of %d are in use", len(seen), Bins)
	}
	for i := range Bins {
		edge := binBase * math.Exp2(float64(i)*binOctave)
		for _, ns := range []float64{edge, math.Nextafter(edge, 0), math.Nextafter(edge, 1e18), math.Floor(edge), math.Ceil(edge)} {
			check(ns)
		}
		check(BinMiddle(i))
	}
	for e := range 62 {
		check(math.Ldexp(1, e))
	}
	check(-1)
	check(math.MaxInt64)
	if Bin(math.NaN()) != 0 || Bin(math.Inf(1)) != Bins-1 {
		t.Error("what is no length is in no bin")
	}
}
