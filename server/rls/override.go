package rls

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/limits"
)

// overrides caches the limits that descriptors contain, because clients send the same few limits
// repeatedly. It has a fixed number of slots, so clients cannot fill the memory; limits with the
// same slot replace each other.
type overrides struct {
	slots [256]atomic.Pointer[known]
}

type known struct {
	override     override
	limit, tally *stint.Limit
}

// limit returns the limit of an override, and the same limit counting denied hits. It is a fixed
// window, as all limits of envoyproxy/ratelimit.
func (o *overrides) limit(from *override) (limit, counted *stint.Limit, err error) {
	slot := &o.slots[(from.requests*31+uint32(from.unit)*7+from.multiplier)%uint32(len(o.slots))]
	if k := slot.Load(); k != nil && k.override == *from {
		return k.limit, k.tally, nil
	}
	if limit, err = from.build(); err != nil {
		return nil, nil, err
	}
	counted = limits.CountingDenied(limit)
	slot.Store(&known{*from, limit, counted})
	return limit, counted, nil
}

// build creates the limit.
func (o *override) build() (*stint.Limit, error) {
	if o.unit < int32(second) || o.unit > int32(year) {
		return nil, fmt.Errorf("unit %d is not known: use SECOND (1), MINUTE (2), HOUR (3), DAY (4), MONTH (5) or YEAR (6)", o.unit)
	}
	per := units[o.unit].per
	if o.scaled {
		if o.multiplier == 0 || time.Duration(o.multiplier) > stint.MaxPer/per {
			return nil, fmt.Errorf("unit_multiplier %d: a period is at least one unit and at most 366 days; leave it out for one unit", o.multiplier)
		}
		per *= time.Duration(o.multiplier)
	}
	limit, err := stint.NewLimit(stint.Spec{Requests: o.requests, Per: per})
	if wrong, ok := errors.AsType[*stint.SpecError](err); ok {
		return nil, fmt.Errorf("%s: %s", wrong.Problem, wrong.Hint)
	}
	return limit, err
}

// shape returns the form of the limit in answers.
func (o *override) shape() shape {
	s := shape{requests: o.requests, unit: unit(o.unit)}
	if o.multiplier > 1 {
		s.multiplier = o.multiplier
	}
	return s
}
