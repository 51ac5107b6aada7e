package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The time between two lines of a RetryLog about failures doubles from the first of these to the last.
const (
	retryFirst = 10 * time.Second
	retryLast  = time.Hour
)

// RetryLog logs the tries of something that is tried again while it fails: the first failure, others at intervals that
// grow from 10 seconds to an hour, and that it works again. It is safe for concurrent use.
type RetryLog struct {
	// Log gets the lines. Event is the text about a failure, and Hint what to do. Again is the text of the line when it
	// works again. About are attributes of both.
	Log                *slog.Logger
	Event, Hint, Again string
	About              []any

	// Now returns the time; nil: the clock of this machine.
	Now func() time.Time

	mu     sync.Mutex // guards the fields below
	failed uint64     // tries since it worked last
	next   time.Time  // when the next failure is logged
	pause  time.Duration
}

// Report logs the result of a try; nil: it worked. With always it logs a failure in any case.
func (r *RetryLog) Report(err error, always bool) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		if r.failed > 0 {
			r.write(slog.LevelInfo, r.Again, "failures", r.failed)
		}
		r.failed = 0
		return
	}
	at := now()
	if r.failed++; r.failed == 1 {
		r.pause = retryFirst
	} else if at.Before(r.next) && !always {
		return
	} else {
		r.pause = min(2*r.pause, retryLast)
	}
	r.next = at.Add(r.pause)
	r.write(slog.LevelError, r.Event, "error", err, "failures", r.failed, "hint", r.Hint)
}

// write writes a line.
func (r *RetryLog) write(level slog.Level, event string, more ...any) {
	r.Log.Log(context.Background(), level, event, append(append([]any{}, r.About...), more...)...)
}
