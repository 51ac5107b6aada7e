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

	// Guarded by the lock of the gate.
	at     int       // where in its flights
	seen   time.Time // when the gate first looked at the call; zero: it has not
	goods  uint64    // how many were answered before it began
	try    bool      // it tries whether the store is back
	judged bool      // it has been counted as a failure, and still goes on
}

// How a context ended.
const (
	running  = iota
	late     // the timeout is over
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

// Deadline returns when the call must have come back: the timeout from when that is
// first asked, which is when the call begins, or the caller's own deadline.
func (f *flight) Deadline() (time.Time, bool) {
	after := f.deadline.Load()
	if after == 0 {
		after = int64(time.Since(began) + f.timeout)
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
	case late:
		return context.DeadlineExceeded
	case deserted:
		return f.parent.Err()
	}
	return nil
}

// Value is part of context.Context.
func (f *flight) Value(key any) any { return f.parent.Value(key) }
