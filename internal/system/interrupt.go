package system

import (
	"context"
	"os"
	"os/signal"
)

// UntilInterrupted returns a context that ends at an interrupt. A second interrupt ends the program at once.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
