package script

import (
	"strconv"

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
