package response

import (
	"context"
	"errors"
	"time"

	"stint"
)

// Millis returns d in milliseconds, rounded up, and -1 for never.
func Millis(d time.Duration) int64 {
	if d == stint.Never {
		return -1
	}
	n := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}

// Undecided returns what a client is told about a store that could not decide. The cause is for logs and
// metrics only.
func Undecided(err error) (problem, hint string) {
	hint = "try again, or set on_store_failure in the rule for this case"
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "the store did not decide in time", hint
	}
	return "the store could not decide", hint
}
