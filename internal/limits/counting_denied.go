package limits

import (
	"math"

	"stint"
)

// CountingDenied returns the limit that charges all that l is asked for, denied or not, and holds one
// unit more than l: its last unit is used where more than l is, so what is used up and what
// is over can be told apart. Nil where there is none: only windows at multiples of their
// length have one.
func CountingDenied(l *stint.Limit) *stint.Limit {
	spec := l.Spec()
	if spec.Algorithm != stint.FixedWindow || spec.FromFirst || spec.Calendar != stint.NoPeriod || spec.Requests == math.MaxUint32 {
		return nil
	}
	spec.Requests++
	spec.Overdraw, spec.CarryDebt = true, false
	tally, err := stint.NewLimit(spec)
	if err != nil {
		return nil
	}
	return tally
}
