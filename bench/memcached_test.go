package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memcached"
	"stint/store/redis"
)

// BenchmarkMemcached compares decisions on memcached with the same on Redis, in turns: how many times as
// long a decision takes, with 1 and with 64 callers, of 1,000 keys and of one.
func BenchmarkMemcached(b *testing.B) {
	onRedis, err := redis.Open(testkit.StartRedis(b).URL(), redis.Options{})
	must(b, err)
	b.Cleanup(onRedis.Close)
	onMemcached, err := memcached.Open(testkit.StartMemcached(b).URL(), memcached.Options{})
	must(b, err)
	b.Cleanup(onMemcached.Close)
	for _, algorithm := range []stint.Algorithm{stint.FixedWindow, stint.SlidingWindow, stint.TokenBucket} {
		limit := stint.MustLimit(stint.Spec{Algorithm: algorithm, Requests: 1_000_000, Per: time.Minute})
		for _, callers := range []int{1, 64} {
			for _, keys := range []int{1000, 1} {
				b.Run(fmt.Sprintf("%v/%d callers/%d keys", algorithm, callers, keys), func(b *testing.B) {
					var times []float64
					for round := 0; b.Loop(); round++ {
						var took [2]time.Duration
						for n := range took {
							i := (round + n) % 2
							took[i] = timeDecisions(b, []stint.Store{onRedis, onMemcached}[i], limit, callers, keys)
						}
						times = append(times, float64(took[1])/float64(took[0]))
					}
					slices.Sort(times)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(times[len(times)/2], "times-redis")
				})
			}
		}
	}
}

// timeDecisions returns how long callers take for 2,000 decisions in all.
func timeDecisions(b *testing.B, store stint.Store, limit *stint.Limit, callers, keys int) time.Duration {
	b.Helper()
	var wg sync.WaitGroup
	began := time.Now()
	for c := range callers {
		wg.Go(func() {
			call := stint.Call{Takes: []stint.Take{{Limit: limit, Cost: 1}}}
			for n := range 2000 / callers {
				call.Takes[0].Key = stint.Key(fmt.Sprint("user", (n*callers+c)%keys))
				if err := store.Decide(context.Background(), &call); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}
