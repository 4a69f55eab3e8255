package f32

import "math"

// Kind says what an Act does.
type Kind uint8

const (
	None Kind = iota
	Relu
	LeakyRelu
	TanhAct
	SigmoidAct
	ClipAct
)

// Act is an activation: a function applied to each element.
type Act struct {
	Kind   Kind
	Alpha  float32 // slope of LeakyRelu below zero
	Lo, Hi float32 // bounds of ClipAct
}

// Apply overwrites y with the activation of x, which has the same length and may be y itself. NaN stays NaN.
func (a *Act) Apply(y, x []float32) {
	x = x[:len(y)]
	switch a.Kind {
	case None:
		copy(y, x)
	case Relu:
		for i, v := range x {
			y[i] = max(v, 0)
		}
	case LeakyRelu:
		slope := [2]float32{1, a.Alpha} // chosen by sign bit: a branch here would be mispredicted half the time
		for i, v := range x {
			y[i] = v * slope[math.Float32bits(v)>>31]
		}
	case TanhAct:
		for i, v := range x {
			y[i] = Tanh(v)
		}
	case SigmoidAct:
		for i, v := range x {
			y[i] = Sigmoid(v)
		}
	case ClipAct:
		for i, v := range x {
			y[i] = min(max(v, a.Lo), a.Hi)
		}
	}
}
