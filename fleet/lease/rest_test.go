package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/store/memory"
)

// A node without busy keys looks for work five times a second, and shows the store that it lives; one with a busy
// key looks forty times.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ticks atomic.Int64
		began := time.Now()
		s := lease.New(memory.New(memory.Options{}), lease.Options{Clock: func() lease.Moment {
			ticks.Add(1)
			return lease.Moment{Mono: int64(time.Since(began)), Wall: time.Now().UnixNano()}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		during := func(d time.Duration) int64 {
			before := ticks.Load()
			time.Sleep(d)
			synctest.Wait()
			return ticks.Load() - before
		}
		during(time.Second)
		for range 2 {
			if n := during(10 * time.Second); n > 70 {
				t.Errorf("%d ticks in 10 s of rest", n)
			}
			for s.Stats().Keys == 0 {
				testkit.Must(t, s.Decide(ctx, &stint.Call{Takes: []stint.Take{take("busy", thousand, 1)}}))
			}
			if n := during(100 * time.Millisecond); n < 4 {
				t.Errorf("%d ticks in 100 ms with a busy key", n)
			}
			during(5 * time.Second)
			if n := s.Stats().Keys; n != 0 {
				t.Fatalf("%d keys are still busy", n)
			}
		}
		cancel()
		<-ended
	})
}
