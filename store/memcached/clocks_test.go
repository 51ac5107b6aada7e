package memcached_test

import (
	"strconv"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memcached"
)

// Nodes whose clocks differ admit no more than one node: the node behind does not move the state of a key
// back, where the node ahead would find it refilled.
func TestClocksApart(t *testing.T) {
	server := testkit.StartMemcached(t)
	began := time.Now()
	for _, apart := range []time.Duration{300 * time.Millisecond, time.Hour} {
		clocks := [2]time.Time{began, began.Add(apart)}
		var nodes [2]*memcached.Store
		for i := range nodes {
			s, err := memcached.Open("memcached://"+server.Addr, memcached.Options{Clock: func() time.Time { return clocks[i] }})
			testkit.Must(t, err)
			t.Cleanup(s.Close)
			nodes[i] = s
		}
		for n, spec := range []stint.Spec{
			{Algorithm: stint.TokenBucket, Requests: 50, Per: time.Second, Burst: 5},
			{Algorithm: stint.TokenBucket, Requests: 5, Per: 100 * time.Millisecond, Step: true},
			{Algorithm: stint.TokenBucket, Requests: 50, Per: time.Second, Burst: 5, Overdraw: true},
			{Algorithm: stint.LeakyBucket, Requests: 50, Per: time.Second, Burst: 4},
			{Algorithm: stint.SlidingLog, Requests: 5, Per: 100 * time.Millisecond},
			{Algorithm: stint.FixedWindow, Requests: 5, Per: 100 * time.Millisecond, FromFirst: true},
		} {
			limit := stint.MustLimit(spec)
			take := stint.Take{Key: stint.Key(apart.String() + strconv.Itoa(n)), Limit: limit, Cost: 1}
			admitted, reset := 0, time.Duration(0)
			for range 6 {
				for _, i := range []int{1, 0} {
					d, err := decide(t, nodes[i], 10*time.Second, take)
					testkit.Must(t, err)
					if d[0].Allowed {
						admitted++
					} else if i == 0 && d[0].RetryAfter <= min(apart, 15*time.Second) {
						t.Errorf("%+v: the node behind by %v is told to retry after %v, before the clock ahead is now", spec, apart, d[0].RetryAfter)
					}
					if i == 0 && apart == time.Hour && d[0].RetryAfter > time.Minute {
						t.Errorf("%+v: retry after %v, though the item expires", spec, d[0].RetryAfter)
					}
					reset = d[0].ResetAfter
				}
			}
			if apart == time.Hour { // an item that tries write would never expire
				for range 3 {
					d, err := decide(t, nodes[0], 10*time.Second, take)
					testkit.Must(t, err)
					if d[0].Allowed || d[0].ResetAfter != reset {
						t.Errorf("%+v: a denied try moves the reset from %v to %v", spec, reset, d[0].ResetAfter)
					}
				}
			}
			take.Cost = 6
			if d, err := decide(t, nodes[0], 10*time.Second, take); err != nil || d[0].RetryAfter != stint.Never {
				t.Errorf("%+v: a cost that never fits: %+v, %v", spec, d, err)
			}
			if admitted != 5 {
				t.Errorf("%+v, clocks %v apart: %d admitted, want 5", spec, apart, admitted)
			}
		}
	}
}
