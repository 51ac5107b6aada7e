package logging

import (
	"log/slog"
	"sync"
	"time"
)

// FailureLog logs failures that may come with every request: the first one of a minute, with how many
// there were in the minute before that had any. It is safe for concurrent use.
type FailureLog struct {
	// Log gets the lines. Event is their text, and Hint what to do.
	Log         *slog.Logger
	Event, Hint string

	// Now returns the time; nil: the clock of this machine.
	Now func() time.Time

	mu     sync.Mutex // guards the fields below
	minute minute
	count  uint64 // failures of the minute
}

// Report logs a failure.
func (f *FailureLog) Report(err error) {
	f.mu.Lock()
	news, before := f.minute.begins(f.Now), f.count
	if news {
		f.count = 0
	}
	f.count++
	f.mu.Unlock()
	if news {
		f.Log.Error(f.Event, "error", err, "before", before, "hint", f.Hint)
	}
}
