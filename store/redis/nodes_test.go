package redis_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// quotas are limits of 1,000 in a time that does not end during a test.
var quotas = []*stint.Limit{
	stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer}),
	stint.MustLimit(stint.Spec{Requests: 1000, Per: stint.MaxPer, FromFirst: true}),
	stint.MustLimit(stint.Spec{Requests: 1000, Calendar: stint.Year}),
	stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 1000, Per: stint.MaxPer}),
	stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1000, Per: stint.MaxPer, Blocks: 10}),
}

// Nodes whose clocks differ by minutes and more decide alike: the time is the server's.
func TestClocksOfNodesDiffer(t *testing.T) {
	server := testkit.StartRedis(t)
	offsets := []time.Duration{0, -time.Minute, time.Minute, -7 * time.Minute, 13 * time.Minute, time.Hour, -400 * 24 * time.Hour, 400 * 24 * time.Hour}
	nodes := make([]*redis.Store, len(offsets))
	for i, offset := range offsets {
		s, err := redis.Open(server.URL(), redis.Options{Namespace: "clocks", Clock: func() time.Time { return time.Now().Add(offset) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		nodes[i] = s
	}
	for i, limit := range quotas {
		key := stint.Key(fmt.Sprint("quota", i))
		var passed atomic.Int64
		var wg sync.WaitGroup
		for _, s := range nodes {
			for range 4 {
				wg.Go(func() {
					for range 50 {
						d, err := one(t, s, key, limit)
						if err != nil {
							t.Error(err)
							return
						}
						if d.Allowed {
							passed.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		if passed.Load() != 1000 {
			t.Errorf("%v: %d of 1600 passed, want 1000", limit, passed.Load())
		}
	}
}

func one(t testing.TB, s stint.Store, key stint.Key, limit *stint.Limit) (stint.Decision, error) {
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit, Cost: 1}}}
	if err := s.Decide(t.Context(), &call); err != nil {
		return stint.Decision{}, err
	}
	return call.Results[0], nil
}

// One unit is left and two services take it at once: one of them gets it, each time.
func TestLastUnit(t *testing.T) {
	server := testkit.StartRedis(t)
	services := []*redis.Store{openIn(t, server, "last"), openIn(t, server, "last")}
	rounds := 10_000
	if testing.Short() {
		rounds = 1000
	}
	won := [2]int{}
	for round := range rounds {
		key, limit := stint.Key(fmt.Sprint(round)), quotas[round%len(quotas)]
		take(t, services[0], key, limit, 999)
		var passed [2]bool
		var wg sync.WaitGroup
		for n := range services {
			i := (n + round) % 2
			wg.Go(func() {
				d, err := one(t, services[i], key, limit)
				if err != nil {
					t.Error(err)
				}
				passed[i] = d.Allowed
			})
		}
		wg.Wait()
		if passed[0] == passed[1] {
			t.Fatalf("round %d, %v: the last unit went to %v", round, limit, passed)
		}
		if passed[0] {
			won[0]++
		} else {
			won[1]++
		}
	}
	t.Logf("the first service got it %d times, the second %d times", won[0], won[1])
}
