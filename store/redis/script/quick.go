package script

import (
	"strconv"
	"time"

	"stint"
)

// Quick holds the numbers of a limit for quick.lua, few.lua and one.lua. These decide nearly all
// takes, but only for a token bucket, a leaky bucket or a fixed window. The state of such a key is
// one number. Times are in microseconds.
type Quick struct {
	Head   string // Form.Head and a bar
	Place  string // where the digits after the head begin, counted from 1
	Full   int64  // capacity of the bucket or window, in units of its state
	Wait   int64  // the longest wait in the queue of a leaky bucket
	Per    int64  // length of a window, 0 for buckets
	Charge uint64 // charge of one unit: an interval of a bucket, 1 in a window
}

// maxUnits is larger than any capacity. maxState is the largest number that is read as a state,
// whoever wrote it.
const (
	maxUnits = 1 << 52
	maxState = 1 << 53
)

// Units converts the cost of a take to the unit of the limit's state: microseconds or a count.
func (f *Quick) Units(cost uint64) int64 {
	if cost > uint64(f.Full)/f.Charge {
		return maxUnits
	}
	return int64(cost * f.Charge)
}

// Most returns the largest state that quick.lua may leave for a key of which units are taken. For a
// peek that is any number of a window, and a full bucket: quick.lua leaves larger states to
// decide.lua, see Early.
func (f *Quick) Most(units int64) int64 {
	switch {
	case units == 0 && f.Per > 0:
		return maxState
	case units == 0:
		return f.Full
	}
	return min(f.Full, f.Wait+units)
}

// WordsOfOne returns the arguments of one.lua for a cost. renew makes the script set the TTL.
func (f *Quick) WordsOfOne(cost uint64, renew bool) []string {
	place := f.Place
	if renew {
		place = ""
	}
	units := f.Units(cost)
	return []string{f.Head, Number(units), Number(f.Most(units)), place}
}

// noWait is the Wait of limits that bound no wait; it is longer than any.
const noWait = 1 << 52

// newQuick returns the numbers of a limit, nil if quick.lua cannot decide it.
func newQuick(limit *stint.Limit, head string) *Quick {
	s := limit.Spec()
	if s.Step || s.Reserve || s.Overdraw || s.Requests == 0 || s.FromFirst || s.CarryDebt || s.Calendar != stint.NoPeriod {
		return nil
	}
	per, requests, wait, window := s.Per.Microseconds(), int64(s.Requests), int64(noWait), int64(0)
	charge := (per + requests - 1) / requests
	switch s.Algorithm {
	case stint.TokenBucket:
	case stint.LeakyBucket:
		if s.MaxWait > 0 {
			wait = s.MaxWait.Microseconds()
		}
	case stint.FixedWindow:
		charge, window = 1, per
	default:
		return nil
	}
	return &Quick{
		Head: head + "|", Place: strconv.Itoa(len(head) + 1), Full: charge * limit.Capacity(), Wait: wait,
		Per: window, Charge: uint64(charge),
	}
}

// Settled returns how long after an epoch began the keys of this limit are as if it followed no
// loss, by clocks that run up to a fifth too fast.
func (f *Quick) Settled() time.Duration {
	whole := time.Duration(f.Full) * time.Microsecond
	if f.Per > 0 {
		whole = time.Duration(f.Per) * time.Microsecond
	}
	whole += stint.LeaseTime + stint.LeaseMargin
	return whole + whole/4
}

// Early reports whether a bucket has more used than its capacity, because the clock was set back.
func (f *Quick) Early(st stint.State, now stint.Instant) bool {
	return f.Per == 0 && st.T > int64(now)+f.Full
}

// State returns the state for the number of a key at a time.
func (f *Quick) State(found int64, now stint.Instant) stint.State {
	if f.Per == 0 {
		return stint.State{T: found}
	}
	if found == 0 {
		return stint.State{}
	}
	return stint.State{T: int64(now) - int64(now)%f.Per, N: found}
}

// Word returns the number that represents a state.
func (f *Quick) Word(st stint.State) int64 {
	if f.Per > 0 {
		return st.N
	}
	return st.T
}
