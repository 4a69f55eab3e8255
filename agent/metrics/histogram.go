package metrics

import (
	"math"
	"math/bits"
)

// subBits is the binary logarithm of the number of bins per octave: a bin is at most 1/128 of its values wide.
const subBits = 7

// freshSize is how many values are counted at once.
const freshSize = 128

const numBins = (64-subBits)<<subBits + 1

// Histogram counts non-negative integers in logarithmic bins. Integers below 2^subBits have a bin each; above, every octave has
// 2^subBits. Sum, count, least and greatest are exact. Adding does not allocate.
type Histogram struct {
	unit  float64 // integers per unit reported
	bins  []uint64
	fresh [freshSize]int64 // values not yet in bins: counting them together keeps the bins in the cache
	nf    int
	n     uint64
	hi    uint64 // of the sum, in 128 bits: no order of adding can change a mean
	lo    uint64
	least int64
	most  int64
}

// NewHistogram makes a histogram of integers that are reported divided by unit: 1000 reports nanoseconds in µs.
func NewHistogram(unit float64) *Histogram {
	return &Histogram{unit: unit, bins: make([]uint64, numBins), least: math.MaxInt64, most: -1}
}

func binOf(v int64) int {
	shift := max(bits.Len64(uint64(v))-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bottom is the least integer of a bin.
func bottom(bin int) int64 {
	shift := max(bin>>subBits-1, 0)
	return int64(uint64(bin-shift<<subBits) << shift)
}

// top is the greatest integer of a bin.
func top(bin int) int64 {
	shift := max(bin>>subBits-1, 0)
	base := uint64(bin - shift<<subBits)
	return int64((base+1)<<shift - 1)
}

// Add counts a value; a negative one counts as zero.
func (h *Histogram) Add(v int64) {
	v = max(v, 0)
	h.fresh[h.nf] = v
	if h.nf++; h.nf == freshSize {
		h.settle()
	}
	h.n++
	var carry uint64
	h.lo, carry = bits.Add64(h.lo, uint64(v), 0)
	h.hi += carry
	h.least, h.most = min(h.least, v), max(h.most, v)
}

// settle counts what has been added.
func (h *Histogram) settle() {
	for _, v := range h.fresh[:h.nf] {
		h.bins[binOf(v)]++
	}
	h.nf = 0
}

// Merge adds all that another histogram of the same unit has counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.n == 0 {
		return
	}
	o.settle()
	for i := binOf(o.least); i <= binOf(o.most); i++ {
		h.bins[i] += o.bins[i]
	}
	h.n += o.n
	var carry uint64
	h.lo, carry = bits.Add64(h.lo, o.lo, 0)
	h.hi += o.hi + carry
	h.least, h.most = min(h.least, o.least), max(h.most, o.most)
}

// Reset forgets everything.
func (h *Histogram) Reset() {
	if h.n > 0 {
		clear(h.bins[binOf(h.least) : binOf(h.most)+1])
	}
	h.n, h.hi, h.lo, h.nf, h.least, h.most = 0, 0, 0, 0, math.MaxInt64, -1
}

// N is how many values there are.
func (h *Histogram) N() uint64 { return h.n }

// Mean is the exact mean; NaN of nothing.
func (h *Histogram) Mean() float64 {
	return (float64(h.hi)*0x1p64 + float64(h.lo)) / float64(h.n) / h.unit
}

// Max is the greatest value; NaN of nothing.
func (h *Histogram) Max() float64 {
	if h.n == 0 {
		return math.NaN()
	}
	return float64(h.most) / h.unit
}

// Percentile is the value of nearest rank for a share 0 < p <= 1 of the values: the lower edge of its bin, by whatever else is in the
// bin, so that equal values give equal percentiles. NaN of nothing.
func (h *Histogram) Percentile(p float64) float64 {
	if h.n == 0 {
		return math.NaN()
	}
	h.settle()
	rank := max(uint64(math.Ceil(p*float64(h.n)-1e-9)), 1) // 0.07*100 is a little more than 7
	for i := binOf(h.least); i < binOf(h.most); i++ {
		if h.bins[i] >= rank {
			return float64(bottom(i)) / h.unit
		}
		rank -= h.bins[i]
	}
	return float64(bottom(binOf(h.most))) / h.unit
}

// Few reports whether there are too few values for a percentile: fewer than ten are expected beyond it.
func (h *Histogram) Few(p float64) bool { return float64(h.n)*(1-p) < 10-1e-9 }

// Point is a point of a cumulative distribution.
type Point struct {
	Value float64 `json:"value" msgpack:"value"` // upper edge of a bin
	Share float64 `json:"share" msgpack:"share"` // of values up to it
}

// CDF is the cumulative distribution: one point per bin that is not empty; the last one has share 1.
func (h *Histogram) CDF() []Point {
	if h.n == 0 {
		return nil
	}
	h.settle()
	var points []Point
	seen := uint64(0)
	for i := binOf(h.least); i <= binOf(h.most); i++ {
		if h.bins[i] > 0 {
			seen += h.bins[i]
			points = append(points, Point{Value: float64(min(top(i), h.most)) / h.unit, Share: float64(seen) / float64(h.n)})
		}
	}
	return points
}
