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

// ApplyTally turns the decision d of a limit that CountingDenied returned, on a take of cost units, into
// that of the limit it was made of: over once its last unit is used. denyPeeks denies a take of cost 0 then.
func ApplyTally(d *stint.Decision, t *stint.Take, cost uint32, denyPeeks bool) {
	if d.Degraded { // a failure policy decided
		if d.Limit == t.Limit.Capacity() {
			d.Limit--
		}
		return
	}
	over := d.Remaining == 0
	d.Limit--
	d.Remaining = max(0, d.Remaining-1)
	if t.Op != stint.Ask {
		return
	}
	d.Allowed, d.RetryAfter = true, 0
	switch {
	case !over || cost == 0 && !denyPeeks:
	case int64(cost) > d.Limit:
		d.Allowed, d.RetryAfter = false, stint.Never
	default:
		d.Allowed, d.RetryAfter = false, d.ResetAfter
	}
}
