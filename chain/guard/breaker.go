package guard

import (
	"math/rand/v2"
	"time"
)

// lateFailures is how many calls in a row must have waited in vain to open the breaker. They
// wait so long that the store is given up sooner than after errors that come at once.
const lateFailures = 3

// breaker decides whether the store is asked. It knows neither locks nor timers: its
// gate does.
type breaker struct {
	failures    int           // errors in a row that open it
	least, most time.Duration // of the pauses between tries

	open    bool
	ready   bool          // open, and the next call may try
	trying  bool          // open, and a call tries
	resting bool          // open, and a timer runs until ready
	pause   time.Duration // the last one
	waited  int           // pauses in which nobody could try because of overdue calls

	overdue int       // calls that were told to end and have not
	streak  int       // errors since a call was last answered
	lates   int       // of those, calls that waited in vain
	first   time.Time // when the first of those errors came
	since   time.Time // of the last change
	err     error     // the last one

	timeouts, errors, spared, undecodable uint64
	failed, undecodableErr                error // the last of errors and of undecodable
}

// admit says whether a call may ask the store, and whether it is a try.
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

// good counts a call that was answered.
func (b *breaker) good(f *flight) {
	b.streak, b.lates = 0, 0
	if f.try {
		b.open, b.trying = false, false
		b.since = time.Now()
	}
}

// unreadable counts a call about a state that cannot be read.
func (b *breaker) unreadable(err error) {
	b.undecodable++
	b.undecodableErr = err
}

// neither lets another call try where this one was to and told nothing of the store.
func (b *breaker) neither(f *flight) {
	if f.try {
		b.trying, b.ready = false, true
	}
}

// excused counts a call that waited in vain while the process stood still: the answer may have
// come when nobody could read it.
func (b *breaker) excused(f *flight) {
	b.timeouts++
	b.neither(f)
}

// bad counts a call that failed; late, after it waited.
func (b *breaker) bad(f *flight, err error, late bool) {
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

// trip opens the breaker. The store is tried soon, unless it only just came back.
func (b *breaker) trip(now time.Time) {
	if !b.since.IsZero() && now.Sub(b.since) < b.most {
		b.pause = min(2*b.pause, b.most)
	} else {
		b.pause = b.least
	}
	b.open, b.since = true, now
}

// rests says whether the store is left alone for now, and nobody has seen to the end
// of that.
func (b *breaker) rests() bool { return b.open && !b.ready && !b.trying && !b.resting }

// wait returns how long until the next try: the pause, half of it more or less.
func (b *breaker) wait() time.Duration { return b.pause/2 + rand.N(b.pause+1) }

// rested ends a pause, and says whether another has to follow: a store that holds
// calls beyond their time is tried the less often the more it holds.
func (b *breaker) rested() (again bool) {
	if b.waited < b.overdue {
		b.waited++
		return true
	}
	b.resting, b.ready, b.waited = false, b.open, 0
	return false
}
