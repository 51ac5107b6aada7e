package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// flight is one call on its way, and the context that the store gets: it has what the
// caller's has, and ends after the timeout or when that ends. It is used again for a
// later call unless it did end.
type flight struct {
	parent  context.Context
	timeout time.Duration
	done    chan struct{}

	ended    atomic.Uint32 // how the context ended, see below
	deadline atomic.Int64  // since began, once somebody asked; else 0
	latest   atomic.Int64  // that the deadline may be, since began; 0: not known yet

	// Guarded by the lock of the gate.
	at      int       // where in its flights
	seen    time.Time // when the gate first looked at the call; zero: it has not
	try     bool      // it tries whether the store is back
	several bool      // it asks other servers too
	judged  bool      // it has been counted as a failure, and still goes on
}

// How a context ended.
const (
	running  = iota
	overdue  // the timeout is over
	deserted // the caller's context ended
)

// began is what deadlines are counted from.
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

// see notes when the gate first looked at the call.
func (f *flight) see(now time.Time) {
	f.seen = now
	f.latest.Store(int64(now.Sub(began) + f.timeout + f.timeout/2))
}

// left returns how much of its time the call has left: for what waits before it leaves for
// the server the timeout since it was seen, and the time until its deadline afterwards.
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

// begun returns when the call left for the server, or when it was first seen.
func (f *flight) begun() time.Time {
	if after := f.deadline.Load(); after != 0 {
		return began.Add(time.Duration(after) - f.timeout)
	}
	return f.seen
}

// Deadline returns when the call must have come back: the timeout from when that is first
// asked, which is when the call leaves for the server, but no later than one and a half
// timeouts after the gate first saw the call; or the caller's own deadline.
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

// Done is part of context.Context.
func (f *flight) Done() <-chan struct{} { return f.done }

// Err is part of context.Context.
func (f *flight) Err() error {
	switch f.ended.Load() {
	case overdue:
		return context.DeadlineExceeded
	case deserted:
		return f.parent.Err()
	}
	return nil
}

// Value is part of context.Context.
func (f *flight) Value(key any) any { return f.parent.Value(key) }
