package f32

// Arith says which of the four operations a Binary does.
type Arith uint8

const (
	Add Arith = iota
	Sub
	Mul
	Div
)

// Binary overwrites z with x op y, element by element; z may be x or y. All have the same length.
func Binary(op Arith, z, x, y []float32) {
	x, y = x[:len(z)], y[:len(z)]
	switch op {
	case Add:
		for i := range z {
			z[i] = x[i] + y[i]
		}
	case Sub:
		for i := range z {
			z[i] = x[i] - y[i]
		}
	case Mul:
		for i := range z {
			z[i] = x[i] * y[i]
		}
	case Div:
		for i := range z {
			z[i] = x[i] / y[i]
		}
	}
}

// BinaryRows is Binary of each row of x, as long as c, with the row c; swapped is c op x.
func BinaryRows(op Arith, swapped bool, z, x, c []float32) {
	for len(z) > 0 {
		if swapped {
			Binary(op, z[:len(c)], c, x[:len(c)])
		} else {
			Binary(op, z[:len(c)], x[:len(c)], c)
		}
		z, x = z[len(c):], x[len(c):]
	}
}
