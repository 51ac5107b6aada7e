package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
)

// TestMoods: a store that works, is slow, frozen and down in turn, under callers of whom some give
// up: every call is decided, or ends with its caller, and in the end no flight is left.
func TestMoods(t *testing.T) {
	b := newBench(t, Options{Timeout: 2 * time.Millisecond, Pause: 4 * time.Millisecond})
	moods := []func(context.Context, *stint.Call) error{well(), slow(time.Millisecond), frozen, refused}
	var stop atomic.Bool
	var callers sync.WaitGroup
	var decided, left atomic.Int64
	for range 8 {
		callers.Go(func() {
			for !stop.Load() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20))*time.Millisecond/2)
				_, _, err := b.one(ctx)
				switch {
				case err == nil:
					decided.Add(1)
				case errors.Is(err, ctx.Err()):
					left.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	for range 5 {
		for _, mood := range moods {
			b.fake.be(mood)
			time.Sleep(10 * time.Millisecond) // length of a mood; the race detector watches
		}
	}
	b.fake.be(well())
	for began := time.Now(); b.Status().Away; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("still away")
		}
		time.Sleep(time.Millisecond) // real timers: wait until a caller has tried
	}
	stop.Store(true)
	callers.Wait()
	b.gate.mu.Lock()
	active, overdue := b.gate.active, b.gate.breaker.overdue
	b.gate.mu.Unlock()
	if s := b.Status(); active != 0 || overdue != 0 || decided.Load() == 0 {
		t.Errorf("%d under way, %d overdue, %d decided, %d left: %+v", active, overdue, decided.Load(), left.Load(), s)
	}
	for i, away := range b.changes {
		if away != (i%2 == 0) {
			t.Fatalf("changes %v", b.changes)
		}
	}
}
