package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// flight is one call in flight, and the context that the store gets. It has the values of the
// caller's context, and ends after the timeout or when that ends. A later call uses it again unless
// it has ended.
type flight struct {
	parent  context.Context
	timeout time.Duration
	done    chan struct{}

	ended    atomic.Uint32 // how the context ended, see below
	deadline atomic.Int64  // time since began, set by the first call of Deadline; 0: not set
	latest   atomic.Int64  // latest possible deadline since began; 0: not known yet

	// Guarded by the lock of the gate.
	at      int       // index in gate.flights
	seen    time.Time // time of the gate's first check of the call; zero: none yet
	try     bool      // it tries a store that is away
	several bool      // it uses other servers too
	judged  bool      // it counts as a failure already, and has not returned
}

// How a context ended.
const (
	running  = iota
	overdue  // the timeout is over
	deserted // the caller's context ended
)

// began is the zero of deadlines.
var began = time.Now()

var _ context.Context = (*flight)(nil)

func newFlight(timeout time.Duration) *flight {
	return &flight{timeout: timeout, done: make(chan struct{})}
}

// end ends the context, once.
func (f *flight) end(how uint32) {
	f.ended.Store(how)
	close(f.done)
}

// see stores the time of the gate's first check.
func (f *flight) see(now time.Time) {
	f.seen = now
	f.latest.Store(int64(now.Sub(began) + f.timeout + f.timeout/2))
}

// left returns how much time the call has left: before it is sent, the timeout from the first
// check; afterwards, the time until its deadline.
func (f *flight) left(now time.Time) time.Duration {
	if after := f.deadline.Load(); after != 0 {
		return time.Duration(after) - now.Sub(began)
	}
	return f.seen.Add(f.timeout).Sub(now)
}

// extend gives the call more time.
func (f *flight) extend(by time.Duration) {
	if !f.seen.IsZero() {
		f.see(f.seen.Add(by))
	}
	if after := f.deadline.Load(); after != 0 {
		f.deadline.Store(after + int64(by))
	}
}

// begun returns when the call was sent to the server, or the time of the first check.
func (f *flight) begun() time.Time {
	if after := f.deadline.Load(); after != 0 {
		return began.Add(time.Duration(after) - f.timeout)
	}
	return f.seen
}

// Deadline returns the time by which the call must return: the timeout from the first call of
// Deadline, at which the store sends the call, but at most one and a half timeouts after the gate's
// first check; or the caller's own deadline if that is earlier.
func (f *flight) Deadline() (time.Time, bool) {
	after := f.deadline.Load()
	if after == 0 {
		after = int64(time.Since(began) + f.timeout)
		if latest := f.latest.Load(); latest != 0 {
			after = min(after, latest)
		}
		if !f.deadline.CompareAndSwap(0, after) {
			after = f.deadline.Load()
		}
	}
	own := began.Add(time.Duration(after))
	if callers, ok := f.parent.Deadline(); ok && callers.Before(own) {
		return callers, true
	}
	return own, true
}

// Done implements context.Context.
func (f *flight) Done() <-chan struct{} { return f.done }

// Err implements context.Context.
func (f *flight) Err() error {
	switch f.ended.Load() {
	case overdue:
		return context.DeadlineExceeded
	case deserted:
		return f.parent.Err()
	}
	return nil
}

// Value implements context.Context.
func (f *flight) Value(key any) any { return f.parent.Value(key) }
