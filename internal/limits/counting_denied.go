package limits

import (
	"math"

	"stint"
)

// CountingDenied returns a limit that charges denied takes too. It has one unit more than l, which
// is used only if more than l is used. So a limit that is used up differs from one that is
// exceeded. It returns nil for limits other than windows at multiples of their length.
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
