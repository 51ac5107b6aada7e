package sim

import "math/bits"

// wide is an unsigned integer of 128 bits. Units times microseconds of a year do not fit into 64.
type wide struct{ high, low uint64 }

// product returns a times b.
func product(a, b uint64) (w wide) {
	w.high, w.low = bits.Mul64(a, b)
	return w
}

// plus returns w + more.
func (w wide) plus(more wide) (sum wide) {
	low, carry := bits.Add64(w.low, more.low, 0)
	high, _ := bits.Add64(w.high, more.high, carry)
	return wide{high, low}
}

// less returns w - by, or 0 if by is larger.
func (w wide) less(by wide) wide {
	low, borrow := bits.Sub64(w.low, by.low, 0)
	high, under := bits.Sub64(w.high, by.high, borrow)
	if under != 0 {
		return wide{}
	}
	return wide{high, low}
}

// over returns w / by, rounded up. It must fit into 64 bits.
func (w wide) over(by uint64) uint64 {
	up := w.plus(wide{0, by - 1})
	quotient, _ := bits.Div64(up.high, up.low, by)
	return quotient
}
