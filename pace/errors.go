package pace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
)

// Why a [Pacer] refuses to wait or to reserve. They come wrapped in a
// [RefusedError]; any other error means that the store could not decide, or that the
// caller's context ended.
var (
	// ErrTooLate says that the limit allows it only after the caller's deadline, or
	// after the bound given to Reserve.
	ErrTooLate = errors.New("allowed too late")

	// ErrNever says that the cost is more than the limit can ever hold.
	ErrNever = errors.New("more than the limit can ever hold")

	// ErrNoPromise says that the algorithm cannot tell now when a take will pass
	// later, so nothing can be reserved. Wait works with every algorithm.
	ErrNoPromise = errors.New("this algorithm cannot promise a time")
)

// RefusedError is a refusal: nothing was taken. Use errors.Is with the reasons above;
// one that is ErrTooLate is a context.DeadlineExceeded too.
type RefusedError struct {
	// Reason is one of the errors above.
	Reason error

	// Cost is what was asked for.
	Cost uint32

	// Wait is the least time after which it may pass, stint.Never where it never does
	// and 0 where that is not known.
	Wait time.Duration
}

// Error returns the reason with its numbers.
func (e *RefusedError) Error() string {
	if e.Wait == 0 || e.Wait == stint.Never {
		return fmt.Sprintf("cost %d: %v", e.Cost, e.Reason)
	}
	return fmt.Sprintf("cost %d: %v: not before %v from now", e.Cost, e.Reason, e.Wait)
}

// Unwrap returns the reason, and what it amounts to in the words of package context.
func (e *RefusedError) Unwrap() []error {
	if errors.Is(e.Reason, ErrTooLate) {
		return []error{e.Reason, context.DeadlineExceeded}
	}
	return []error{e.Reason}
}
