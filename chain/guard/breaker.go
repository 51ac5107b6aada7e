package guard

import (
	"math/rand/v2"
	"time"
)

// lateFailures is how many timeouts in a row open the breaker. Each takes so long that fewer are
// enough than of errors that come at once.
const lateFailures = 3

// breaker decides whether calls may be sent to the store. It has no lock and no timer of its own:
// its gate has.
type breaker struct {
	failures    int           // number of errors in a row that open it
	least, most time.Duration // bounds of the pause between tries

	open    bool
	ready   bool          // open, and the next call may try
	trying  bool          // open, and a call tries
	pausing bool          // open, and a timer runs until ready
	pause   time.Duration // the last pause
	waited  int           // number of pauses without a try because of overdue calls

	overdue int       // number of calls whose context has ended and that have not returned
	streak  int       // number of errors since the last answer
	lates   int       // number of timeouts among those errors
	first   time.Time // time of the first of those errors
	since   time.Time // time of the last change of open
	err     error     // the last error

	timeouts, errors, spared, undecodable uint64
	failed, undecodableErr                error // last errors counted by errors and undecodable
}

// admit reports whether a call may be sent to the store, and whether it is a try.
func (b *breaker) admit() (try, ok bool) {
	if !b.open {
		return false, true
	}
	if b.ready {
		b.ready, b.trying = false, true
		return true, true
	}
	b.spared++
	return false, false
}

// succeeded counts a call that was answered.
func (b *breaker) succeeded(f *flight) {
	b.streak, b.lates = 0, 0
	if f.try {
		b.open, b.trying = false, false
		b.since = time.Now()
	}
}

// countUndecodable counts a call about a state that cannot be read.
func (b *breaker) countUndecodable(err error) {
	b.undecodable++
	b.undecodableErr = err
}

// inconclusive lets another call try if f was a try whose result does not count.
func (b *breaker) inconclusive(f *flight) {
	if f.try {
		b.trying, b.ready = false, true
	}
}

// suspendedTimeout counts a timeout while the process was suspended: the answer may have come when
// the process could not read it.
func (b *breaker) suspendedTimeout(f *flight) {
	b.timeouts++
	b.inconclusive(f)
}

// failedCall counts a call that failed. late means that it was a timeout.
func (b *breaker) failedCall(f *flight, err error, late bool) {
	b.err = err
	now := time.Now()
	if b.streak++; b.streak == 1 {
		b.first = now
	}
	if late {
		b.timeouts++
		b.lates++
	} else {
		b.errors++
		b.failed = err
	}
	switch {
	case f.try:
		b.trying = false
		b.pause = min(2*b.pause, b.most)
	case b.open:
	case (b.lates >= lateFailures || b.streak >= b.failures) && now.Sub(b.first) >= b.least:
		b.trip(now)
	}
}

// trip opens the breaker. The first pause is short, unless the store only just came back.
func (b *breaker) trip(now time.Time) {
	if !b.since.IsZero() && now.Sub(b.since) < b.most {
		b.pause = min(2*b.pause, b.most)
	} else {
		b.pause = b.least
	}
	b.open, b.since = true, now
}

// mustPause reports whether a pause must begin: no call may try, and no timer runs.
func (b *breaker) mustPause() bool { return b.open && !b.ready && !b.trying && !b.pausing }

// wait returns the time until the next try: the pause, plus or minus up to half of it.
func (b *breaker) wait() time.Duration { return b.pause/2 + rand.N(b.pause+1) }

// rested ends a pause, and reports whether another must follow: the more calls are overdue, the
// rarer the tries are.
func (b *breaker) rested() (again bool) {
	if b.waited < b.overdue {
		b.waited++
		return true
	}
	b.pausing, b.ready, b.waited = false, b.open, 0
	return false
}
