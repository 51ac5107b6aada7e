package sim

import (
	"time"

	"stint"
)

// Bound returns what may pass too much in a history of a mode in which nodes decide alone:
//
//	min((N-1) * (burst + rate*S), what is asked for in S)
//
// S is the longest for which somebody had not heard of a unit, with all that befell
// messages and nodes. A process that dies takes with it what it had not told, and the one
// in its place begins with nothing; a store that is emptied gives all of it out again; a
// clock that runs fast refills too early.
func (o *Options) Bound(r *Result) int64 {
	spec := o.Limit.Spec()
	one := o.Limit.Capacity() + units(&spec, r.Stale)
	if spec.Algorithm == stint.FixedWindow {
		one = o.Limit.Capacity() * (1 + int64((r.Stale+spec.Per-1)/spec.Per))
	}
	others := min(int64(o.Nodes-1)*one, r.Surge)
	bound := others
	for _, f := range o.Faults {
		switch {
		case f.Kind == Kill:
			bound += 2 * one
		case f.Kind == Flush || f.Kind == Switch:
			bound += one + others
		case f.Kind == Drift && f.Rate > 1:
			bound += units(&spec, time.Duration(float64(o.Length)*(f.Rate-1)))
		}
	}
	return bound
}

// units returns how many come back in a time.
func units(spec *stint.Spec, d time.Duration) int64 {
	return int64(float64(spec.Requests)*float64(d)/float64(spec.Per)) + 1
}
