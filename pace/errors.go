package pace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
)

// The reasons why a [Pacer] refuses to wait or to reserve. They are wrapped in a [RefusedError].
// Any other error means that the store failed or that the caller's context ended.
var (
	// ErrTooLate means that the limit would allow it only after the caller's deadline, or after the
	// bound given to Reserve.
	ErrTooLate = errors.New("allowed too late")

	// ErrNever means that the cost exceeds the capacity of the limit.
	ErrNever = errors.New("more than the capacity of the limit")

	// ErrNoPromise means that the algorithm cannot predict when a take will pass, so nothing can be
	// reserved. Wait works with every algorithm.
	ErrNoPromise = errors.New("this algorithm cannot promise a time")
)

// RefusedError is a refusal; nothing was taken. Use errors.Is with the reasons above. An ErrTooLate
// is a context.DeadlineExceeded too.
type RefusedError struct {
	// Reason is one of the errors above.
	Reason error

	// Cost is the requested cost.
	Cost uint32

	// Wait is the minimum time after which the take may pass: stint.Never if it never does, 0 if
	// unknown.
	Wait time.Duration
}

// Error returns the reason with the cost and the wait.
func (e *RefusedError) Error() string {
	if e.Wait == 0 || e.Wait == stint.Never {
		return fmt.Sprintf("cost %d: %v", e.Cost, e.Reason)
	}
	return fmt.Sprintf("cost %d: %v: not before %v from now", e.Cost, e.Reason, e.Wait)
}

// Unwrap returns the reason, and the corresponding error of package context.
func (e *RefusedError) Unwrap() []error {
	if errors.Is(e.Reason, ErrTooLate) {
		return []error{e.Reason, context.DeadlineExceeded}
	}
	return []error{e.Reason}
}
