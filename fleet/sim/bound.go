package sim

import (
	"time"

	"stint"
)

// Bound returns how many units above the limit may pass in a history of a mode in which nodes
// decide alone:
//
//	min((N-1) * (burst + rate*S), units requested in S)
//
// S is the longest time for which a node did not know a unit, with all faults of messages and
// nodes. A process that dies loses its unreported units, and its successor starts without any. An
// emptied store gives out all units again. A fast clock refills too early.
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

// BoundKept returns how many units above the limit may pass in a history of Leased with
// KeptAfterLoss: the whole capacity, once each time that the store is emptied or replaced by a
// replica that lags.
func (o *Options) BoundKept() (units int64) {
	for _, f := range o.Faults {
		if f.Kind == Flush || f.Kind == Switch && f.For >= 0 {
			units += o.Limit.Capacity()
		}
	}
	return units
}

// units returns how many units come back in a time.
func units(spec *stint.Spec, d time.Duration) int64 {
	return int64(float64(spec.Requests)*float64(d)/float64(spec.Per)) + 1
}
