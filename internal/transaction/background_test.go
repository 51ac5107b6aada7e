package transaction_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"stint/internal/transaction"
)

// TestBackground closes a Background beside calls that use it: all work that was taken has run when Close returns,
// and none runs later.
func TestBackground(t *testing.T) {
	for range 1000 {
		var b transaction.Background
		var callers sync.WaitGroup
		var taken, ran atomic.Int64
		for range 4 {
			callers.Go(func() {
				for b.Go(func() { ran.Add(1) }) {
					taken.Add(1)
				}
			})
		}
		callers.Go(b.Close)
		b.Close()
		done := ran.Load()
		callers.Wait()
		if now := ran.Load(); now != done || now != taken.Load() {
			t.Fatalf("%d ran of %d, %d when Close returned", now, taken.Load(), done)
		}
	}
}

// TestRevertClosed undoes what a call charged also if its caller has gone and the store is closed: then the call
// itself does it.
func TestRevertClosed(t *testing.T) {
	var b transaction.Background
	b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	undone, failed := false, errors.New("failed")
	later, err := transaction.Revert(ctx, nil, func() (func(context.Context) error, *transaction.Background) {
		return func(ctx context.Context) error {
			undone = ctx.Err() == nil
			return failed
		}, &b
	})
	if later || !undone || !errors.Is(err, failed) {
		t.Errorf("later %v, undone %v, %v", later, undone, err)
	}
}
