package compare

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ghostgym/ghostgym/agent/metrics"
)

// Summary is the mean and sample standard deviation of a figure over n repetitions; n may be smaller than their number where the
// figure does not exist in some.
type Summary struct {
	Mean metrics.Number `json:"mean" msgpack:"mean"`
	SD   metrics.Number `json:"sd" msgpack:"sd"`
	N    int            `json:"n" msgpack:"n"`
}

func summarise(values []float64) Summary {
	nan := metrics.Number(math.NaN())
	switch len(values) {
	case 0:
		return Summary{Mean: nan, SD: nan}
	case 1:
		return Summary{Mean: metrics.Number(values[0]), SD: nan, N: 1}
	}
	mean, sd := stat.MeanStdDev(values, nil)
	return Summary{Mean: metrics.Number(mean), SD: metrics.Number(sd), N: len(values)}
}

// interval is the mean of differences and Student's 95 % interval about it: NaN below two of them.
func interval(diffs []float64) (mean, lo, hi float64) {
	if len(diffs) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	if len(diffs) == 1 {
		return diffs[0], math.NaN(), math.NaN()
	}
	mean, sd := stat.MeanStdDev(diffs, nil)
	n := float64(len(diffs))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * sd / math.Sqrt(n)
	return mean, mean - half, mean + half
}
