package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Quantiles of Student's distribution at 0.975, from tables.
var student = map[int]float64{1: 12.7062, 2: 4.30265, 4: 2.77645, 9: 2.26216, 19: 2.09302, 29: 2.04523, 99: 1.98422}

func TestIntervalsAgainstTables(t *testing.T) {
	for df, q := range student {
		n := df + 1
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i * i % 7)
		}
		sum, squares := 0.0, 0.0
		for _, v := range values {
			sum += v
		}
		for _, v := range values {
			squares += (v - sum/float64(n)) * (v - sum/float64(n))
		}
		half := q * math.Sqrt(squares/float64(df)/float64(n))
		mean, lo, hi := interval(values)
		if math.Abs(mean-sum/float64(n)) > 1e-12 || math.Abs(mean-lo-half) > 1e-4*half || math.Abs(hi-mean-half) > 1e-4*half {
			t.Errorf("%d values: %v (%v to %v), want ± %v", n, mean, lo, hi, half)
		}
	}
}

// TestIntervalsCover: 95 % intervals about the mean of normal numbers miss the true mean in one of twenty, whatever n is.
func TestIntervalsCover(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	const trials = 4000
	for _, n := range []int{2, 3, 8, 20} {
		missed := 0
		values := make([]float64, n)
		for range trials {
			for i := range values {
				values[i] = 5 + 3*r.NormFloat64()
			}
			if _, lo, hi := interval(values); lo > 5 || hi < 5 {
				missed++
			}
		}
		// 200 are expected, with a standard deviation of 14
		if missed < 130 || missed > 270 {
			t.Errorf("n = %d: %d of %d missed", n, missed, trials)
		}
	}
}

// TestIntervalsMoveWithTheirValues: shifted, scaled and reflected values have shifted, scaled and reflected intervals.
func TestIntervalsMoveWithTheirValues(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for range 200 {
		values := make([]float64, 2+r.IntN(30))
		moved := make([]float64, len(values))
		shift, scale := 10*r.NormFloat64(), -r.Float64()-0.1
		for i := range values {
			values[i] = r.ExpFloat64()
			moved[i] = shift + scale*values[i]
		}
		mean, lo, hi := interval(values)
		m, l, h := interval(moved)
		for _, c := range [][2]float64{{m, shift + scale*mean}, {l, shift + scale*hi}, {h, shift + scale*lo}} {
			if math.Abs(c[0]-c[1]) > 1e-9*(1+math.Abs(c[1])) {
				t.Fatalf("%v: %v (%v to %v), moved %v (%v to %v)", values, mean, lo, hi, m, l, h)
			}
		}
		if !(lo <= mean && mean <= hi) {
			t.Fatalf("%v is not between %v and %v", mean, lo, hi)
		}
	}
}
