package compare

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ghostgym/ghostgym/agent/metrics"
)

// Summary is the mean and sample standard deviation of a figure over N repetitions; N is smaller than their number where the figure
// does not exist in some, or where they are one run.
type Summary struct {
	Mean metrics.Number `json:"mean" msgpack:"mean"`
	SD   metrics.Number `json:"sd" msgpack:"sd"` // NaN below two repetitions
	N    int            `json:"n" msgpack:"n"`
}

func summarise(values []float64) Summary {
	mean, sd := moments(values)
	return Summary{Mean: metrics.Number(mean), SD: metrics.Number(sd), N: len(values)}
}

// moments are the mean and the sample standard deviation: NaN below one and below two values.
func moments(values []float64) (mean, sd float64) {
	switch len(values) {
	case 0:
		return math.NaN(), math.NaN()
	case 1:
		return values[0], math.NaN()
	}
	return stat.MeanStdDev(values, nil)
}

// interval is the mean of differences and Student's 95 % interval about it, which is NaN below two of them.
func interval(diffs []float64) (mean, lo, hi float64) {
	mean, sd := moments(diffs)
	if len(diffs) < 2 {
		return mean, math.NaN(), math.NaN()
	}
	n := float64(len(diffs))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * sd / math.Sqrt(n)
	return mean, mean - half, mean + half
}
