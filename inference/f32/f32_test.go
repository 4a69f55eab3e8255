package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ulps is the distance of got from the exact value, in units of the last place of the float32 nearest to it.
func ulps(got float32, exact float64) float64 {
	if math.IsInf(exact, 0) || math.Abs(exact) > math.MaxFloat32 {
		if math.IsInf(float64(got), int(math.Copysign(1, exact))) {
			return 0
		}
		if exact < 0x1.ffffffp127 && got == math.MaxFloat32 {
			return 0
		}
		return math.Inf(1)
	}
	_, e := math.Frexp(exact)
	ulp := math.Ldexp(1, max(e-24, -149))
	return math.Abs(float64(got)-exact) / ulp
}

func TestFunctionsWithinOneUlp(t *testing.T) {
	functions := []struct {
		name  string
		f     func(float32) float32
		exact func(float64) float64
		bound float64
	}{
		{"exp", Exp, math.Exp, 0.6},
		{"tanh", Tanh, math.Tanh, 0.8},
		{"sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 0.6},
	}
	for _, c := range functions {
		worst, at := 0.0, float32(0)
		check := func(x float32) {
			if x != x {
				if y := c.f(x); y == y {
					t.Fatalf("%s(NaN) = %v", c.name, y)
				}
				return
			}
			if u := ulps(c.f(x), c.exact(float64(x))); u > worst {
				worst, at = u, x
			}
		}
		for b := uint64(0); b < 1<<32; b += 257 * 7 { // every float32 in about 1,800
			check(math.Float32frombits(uint32(b)))
		}
		for _, x := range []float32{0, 0.25, 9.02, 20, -20, expHigh, expLow, 88.7, -87.4, -103, 104, -104, float32(math.Inf(1)), float32(math.Inf(-1))} {
			for range 3 {
				check(x)
				check(-x)
				x = math.Nextafter32(x, 0)
			}
			for range 6 {
				check(x)
				check(-x)
				x = math.Nextafter32(x, float32(math.Inf(1)))
			}
		}
		if worst > c.bound {
			t.Errorf("%s(%v) = %v is off by %.3f ulp, bound %.1f", c.name, at, c.f(at), worst, c.bound)
		}
		t.Logf("%s: worst %.3f ulp at %v", c.name, worst, at)
	}
	if z := Tanh(float32(math.Copysign(0, -1))); !math.Signbit(float64(z)) {
		t.Error("tanh loses the sign of -0")
	}
}

func TestDenseSumsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 19; n++ {
		for _, k := range []int{0, 1, 2, 7, 20} {
			w, b, x := normal(r, k*n), normal(r, n), normal(r, 3*k)
			d := NewDense(k, n, w, b)
			y := make([]float32, 3*n)
			d.Run(y, x, 3)
			for row := range 3 {
				for j := range n {
					want := b[j]
					for i := range k {
						want += float32(x[row*k+i] * w[i*n+j])
					}
					if got := y[row*n+j]; got != want {
						t.Fatalf("k=%d n=%d: y[%d,%d] = %v, want exactly %v", k, n, row, j, got, want)
					}
				}
			}
		}
	}
}

func TestActivations(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{-2, -0.5, 0, 0.5, 2, nan}
	cases := []struct {
		act  Act
		want []float32
	}{
		{Act{}, x},
		{Act{Kind: Relu}, []float32{0, 0, 0, 0.5, 2, nan}},
		{Act{Kind: LeakyRelu, Alpha: 0.25}, []float32{-0.5, -0.125, 0, 0.5, 2, nan}},
		{Act{Kind: LeakyRelu, Alpha: 2}, []float32{-4, -1, 0, 0.5, 2, nan}},
		{Act{Kind: ClipAct, Lo: -1, Hi: 0.25}, []float32{-1, -0.5, 0, 0.25, 0.25, nan}},
		{Act{Kind: ClipAct, Lo: 3, Hi: 1}, []float32{1, 1, 1, 1, 1, nan}},
	}
	for _, c := range cases {
		y := make([]float32, len(x))
		c.act.Apply(y, x)
		for i := range y {
			if y[i] != c.want[i] && !(y[i] != y[i] && c.want[i] != c.want[i]) {
				t.Errorf("%+v of %v = %v, want %v", c.act, x[i], y[i], c.want[i])
			}
		}
	}
}

func TestBinaryRows(t *testing.T) {
	x, c, z := []float32{1, 2, 3, 4}, []float32{2, 8}, make([]float32, 4)
	BinaryRows(Div, true, z, x, c)
	if want := [4]float32{2, 4, 2. / 3, 2}; [4]float32(z) != want {
		t.Errorf("c / x = %v, want %v", z, want)
	}
	BinaryRows(Sub, false, z, x, c)
	if want := [4]float32{-1, -6, 1, -4}; [4]float32(z) != want {
		t.Errorf("x - c = %v, want %v", z, want)
	}
}

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}
