package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// Keys that are asked for all the time keep their slots, although their states expire in between. When
// they are no longer asked for, the memory is free again.
func TestBusyKeysKeepSlots(t *testing.T) {
	testkit.OneGoroutine(t)
	now := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := New(Options{Clock: func() stint.Instant { return now }})
	l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second})
	keys := make([]stint.Key, 20_000)
	for i := range keys {
		keys[i] = stint.Key(fmt.Sprint("key", i))
	}
	round := func() {
		for _, key := range keys {
			if !s.Take(key, l, 1).Allowed {
				t.Fatal("denied")
			}
			now = now.Add(10 * time.Microsecond) // a state expires after 1 ms, and comes again after 200 ms
		}
	}
	for range 30 {
		round()
	}
	dropped := s.Stats().Expired
	for range 30 {
		round()
	}
	if again := s.Stats().Expired; again != dropped {
		t.Errorf("%d states lost their slots", again-dropped)
	}
	now = now.Add(time.Hour)
	s.Sweep()
	if bytes := s.Stats().Bytes; bytes > int64(len(s.shards))*minSlots*slotBytes {
		t.Errorf("%d bytes remain", bytes)
	}
}

// The takes of a large call are decided as calls of one take each, in order.
func TestLargeCall(t *testing.T) {
	now := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	open := func() *Store { return New(Options{Clock: func() stint.Instant { return now }}) }
	whole, apart := open(), open()
	random := rand.New(rand.NewPCG(5, 6))
	var limits []*stint.Limit
	for _, spec := range specs {
		limits = append(limits, limit(t, spec))
		spec.Requests++
		limits = append(limits, limit(t, spec))
	}
	for range 50 {
		now = now.Add(time.Duration(random.Int64N(int64(time.Minute))))
		var call stint.Call
		for range 100 {
			take := stint.Take{Key: stint.Key(fmt.Sprint("key", random.IntN(40))), Limit: limits[random.IntN(len(limits))], Independent: true}
			if n := len(call.Takes); n > 0 && random.IntN(4) > 0 {
				take = call.Takes[n-1]
			}
			take.Cost, take.Op = random.Uint32N(5), stint.Ask
			if random.IntN(10) == 0 {
				take.Op = stint.Refund
			}
			call.Takes = append(call.Takes, take)
		}
		testkit.Must(t, whole.Decide(context.Background(), &call))
		for i := range call.Takes {
			one := stint.Call{Takes: call.Takes[i : i+1]}
			testkit.Must(t, apart.Decide(context.Background(), &one))
			if call.Results[i] != one.Results[0] {
				t.Fatalf("take %d: %+v, want %+v", i, call.Results[i], one.Results[0])
			}
		}
	}
}

// Of large calls for one key, by many goroutines, exactly the limit passes.
func TestLargeCallsOfOneKey(t *testing.T) {
	s := New(Options{})
	const most = 40_000
	for _, spec := range specs[:4] { // whose states are in the tables
		spec.Requests, spec.Per, spec.Burst = most, 366*24*time.Hour, 0
		if spec.Algorithm == stint.LeakyBucket {
			spec.Burst = most - 1
		}
		l := limit(t, spec)
		key := stint.Key(fmt.Sprintf("%+v", spec))
		var allowed atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				call := stint.Call{}
				for range 50 {
					call.Takes = append(call.Takes, stint.Take{Key: key, Limit: l, Cost: 1, Independent: true})
				}
				for range 2 * most / 50 / 8 {
					if err := s.Decide(context.Background(), &call); err != nil {
						t.Error(err)
					}
					for i := range call.Results {
						if call.Results[i].Allowed {
							allowed.Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		if n := allowed.Load(); n != most {
			t.Errorf("%s: %d passed", spec.Algorithm, n)
		}
	}
}
