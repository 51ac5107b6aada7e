package lease

import (
	"sync"
	"time"

	"stint"
)

// experience is what a node learned about a key: whether borrowing units of it saves calls.
type experience struct {
	strict    Moment        // the store decides every take until then
	strictFor time.Duration // length of that time
	strictAt  float64       // rate at its start, if lending did not pay; 0: it may
	savings   float64       // mean number of takes that the node decided for each report
}

// noExperience is that of a key that was never busy.
var noExperience = experience{savings: 2 * stint.LeaseSavings}

// experiences keep what a node learned about keys that are no longer busy, so that a key that is
// busy again and again for a moment is not lent as often. It has room for a fixed number of keys: two
// keys in the same place replace each other. It is safe for concurrent use.
type experiences struct {
	mu    sync.Mutex // guards places
	place [1 << 10]struct {
		fp uint64
		experience
	}
}

// keep stores the experience with a key, unless it says nothing.
func (x *experiences) keep(fp uint64, e experience) {
	if e.strictFor == 0 && e.savings >= noExperience.savings {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := &x.place[fp>>54]
	p.fp, p.experience = fp, e
}

// of returns the experience with a key.
func (x *experiences) of(fp uint64) experience {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := &x.place[fp>>54]; p.fp == fp && p.savings > 0 {
		return p.experience
	}
	return noExperience
}

// forget removes all experiences, as limits have other numbers.
func (x *experiences) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.place[:])
}
