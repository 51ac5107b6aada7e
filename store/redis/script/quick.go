package script

import (
	"strconv"

	"stint"
)

// Quick are the numbers of a limit for quick.lua, few.lua and one.lua, which decide what
// nearly all takes are: a token bucket, a leaky bucket or a fixed window, and nothing else.
// The state of such a key is one number. Times are in microseconds.
type Quick struct {
	Head   string // that of the form, and a bar
	Place  string // where the digits behind the head begin, from 1
	Full   int64  // what the bucket or the window holds
	Wait   int64  // the longest wait in the queue of a leaky bucket
	Per    int64  // the length of a window, 0 for buckets
	Charge uint64 // of one unit: an interval of a bucket, 1 in a window
}

// noWait is longer than anybody waits.
const noWait = 1 << 52

// newQuick returns the numbers of a limit, nil where quick.lua cannot decide it.
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

// Early reports whether more is used in a state than its bucket holds: the clock was set back.
func (f *Quick) Early(st stint.State, now stint.Instant) bool {
	return f.Per == 0 && st.T > int64(now)+f.Full
}

// State returns the state that the number of a key means at a time.
func (f *Quick) State(found int64, now stint.Instant) stint.State {
	if f.Per == 0 {
		return stint.State{T: found}
	}
	if found == 0 {
		return stint.State{}
	}
	return stint.State{T: int64(now) - int64(now)%f.Per, N: found}
}

// Word returns the number that a state is kept as.
func (f *Quick) Word(st stint.State) int64 {
	if f.Per > 0 {
		return st.N
	}
	return st.T
}
