package transaction

import (
	"context"
	"time"

	"stint"
)

// undoTimeout bounds the undoing of what a call charged, which goes on when the caller has stopped
// waiting.
const undoTimeout = time.Second

// UndoContext returns a context for undoing what a call charged. It does not end with ctx.
func UndoContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
}

// DecideAfter decides a call that follows another, such as one that gives back what that charged. It does so even
// if ctx has ended, and takes a second at most.
func DecideAfter(ctx context.Context, by stint.Store, call *stint.Call) error {
	ctx, cancel := UndoContext(ctx)
	defer cancel()
	return by.Decide(ctx, call)
}

// Revert calls undo, which undoes what a call charged. If ctx is done the caller has stopped waiting:
// then Revert returns true, and the function that detach returns undoes it in the Background. If that is
// closed the caller waits for it all the same.
func Revert(ctx context.Context, undo func(context.Context) error, detach func() (func(context.Context) error, *Background)) (later bool, err error) {
	own, cancel := UndoContext(ctx)
	if ctx.Err() == nil {
		defer cancel()
		return false, undo(own)
	}
	undo, background := detach()
	later = background.Go(func() {
		defer cancel()
		_ = undo(own) // the caller learns that the outcome is unknown
	})
	if !later {
		defer cancel()
		err = undo(own)
	}
	return later, err
}
