// Package f32 holds the float32 kernels of compiled plans.
//
// Every sum is taken in one fixed order, which depends neither on the number of rows nor on a row's place among
// them, and no product is fused into a sum: a result is the same to the bit on every processor. The functions
// round once, from a float64 that is good to about 1e-9; their error is below 1 unit in the last place everywhere.
package f32

import "math"

const (
	log2e = 1 / math.Ln2
	// Above expHigh, exp(x) rounds to +Inf in float32; below expLow, to 0.
	expHigh = 88.72284
	expLow  = -103.97208
)

// expParts returns s and q with e**x = s·(1+q) to a relative error of 6e-9, for |x| <= 300. s is a power of two, and
// q is the Taylor polynomial of degree 7 of the rest, good to that error even where it is near 0.
func expParts(x float64) (s, q float64) {
	// Adding 1.5·2⁵² rounds to an integer, which then stands in the low bits.
	const round = 3 << 51
	t := float64(x*log2e) + round
	r := x - float64((t-round)*math.Ln2)
	r2 := r * r
	p := (0.5 + float64(r*(1.0/6))) +
		float64(r2*((1.0/24+float64(r*(1.0/120)))+float64(r2*(1.0/720+float64(r*(1.0/5040))))))
	return math.Float64frombits((math.Float64bits(t) + 1023) << 52), r + float64(r2*p)
}

// Exp is e**x.
func Exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > expHigh:
		return float32(math.Inf(1))
	case x < expLow:
		return 0
	}
	s, q := expParts(float64(x))
	return float32(s * (1 + q))
}

// Tanh is the hyperbolic tangent, as (e**2x - 1) / (e**2x + 1). It has no branch: inputs near zero and far from it
// mix in practice.
func Tanh(x float32) float32 {
	const one = 9.02 // from here on the nearest float32 is 1
	d := float64(x)
	s, q := expParts(2 * min(max(d, -one), one))
	m := float64(s*q) + (s - 1) // without cancellation: s is 1 where e**2x is near 1
	return float32(math.Copysign(m/(m+2), d))
}

// Sigmoid is 1/(1+e**-x).
func Sigmoid(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 20: // the nearest float32 is 1
		return 1
	case x < -104:
		return 0
	}
	s, q := expParts(-float64(x))
	return float32(1 / (1 + float64(s*(1+q))))
}
