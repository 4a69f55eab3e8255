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

// exp is e**x to a relative error of 6e-9, for |x| <= 300: 2**k times the Taylor polynomial of degree 7 of the rest.
func exp(x float64) float64 {
	// Adding 1.5·2⁵² rounds to an integer, which then stands in the low bits.
	const round = 3 << 51
	t := float64(x*log2e) + round
	k := t - round
	r := x - float64(k*math.Ln2)
	r2 := r * r
	r4 := r2 * r2
	p := 1 + r + float64(r2*(0.5+float64(r*(1.0/6)))) +
		float64(r4*((1.0/24+float64(r*(1.0/120)))+float64(r2*(1.0/720+float64(r*(1.0/5040))))))
	return p * math.Float64frombits((math.Float64bits(t)+1023)<<52)
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
	return float32(exp(float64(x)))
}

// Tanh is the hyperbolic tangent.
func Tanh(x float32) float32 {
	d := float64(x)
	a := math.Abs(d)
	switch {
	case a < 0.25: // the odd Taylor polynomial of degree 11
		q := d * d
		q2 := q * q
		p := float64(q*(-1.0/3+float64(q*(2.0/15)))) +
			float64(q2*(float64(q*(-17.0/315+float64(q*(62.0/2835))))+float64(q2*q*(-1382.0/155925))))
		return float32(d * (1 + p)) // as a product, so that -0 stays -0
	case a > 9.02: // the nearest float32 is ±1
		return float32(math.Copysign(1, d))
	case x != x:
		return x
	}
	e := exp(2 * d)
	return float32((e - 1) / (e + 1))
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
	return float32(1 / (1 + exp(-float64(x))))
}
