package sim

import (
	"testing"
	"time"

	"stint"
)

// What is above a bucket is found also where its units times microseconds are more than 64
// bits hold.
func TestOverBucket(t *testing.T) {
	const many = 3_000_000_000
	for _, test := range []struct {
		requests uint32
		per      time.Duration
		burst    uint32
		list     []admission
		want     int64
	}{
		{10, time.Second, 10, []admission{{at: 0, cost: 10}}, 0},
		{10, time.Second, 10, []admission{{at: 0, cost: 10}, {at: 0, cost: 3}}, 3},
		{10, time.Second, 10, []admission{{at: 0, cost: 10}, {at: 99 * time.Millisecond, cost: 1}}, 1},
		{10, time.Second, 10, []admission{{at: 0, cost: 10}, {at: 100 * time.Millisecond, cost: 1}}, 0},
		{10, time.Second, 10, []admission{{at: 0, cost: 10}, {at: time.Hour, cost: 11}}, 1},
		{many, time.Hour, many, []admission{{at: 0, cost: many}}, 0},
		{many, time.Hour, many, []admission{{at: 0, cost: many}, {at: 0, cost: 7}}, 7},
		{many, time.Hour, many, []admission{{at: 0, cost: many}, {at: time.Hour, cost: many}, {at: time.Hour, cost: 2}}, 2},
		{many, stint.MaxPer, many, []admission{{at: 0, cost: many}, {at: 0, cost: many}}, many},
		{many, stint.MaxPer, many, []admission{{at: 0, cost: many}, {at: stint.MaxPer / 2, cost: many}}, many / 2},
		{many, stint.MaxPer, 1, []admission{{at: 0, cost: 1}, {at: 8 * time.Hour, cost: 2}}, 1},
	} {
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: test.requests, Per: test.per, Burst: test.burst, RoundRate: true})
		if got := overBucket(limit, test.list); got != test.want {
			t.Errorf("%d per %v, burst %d, %+v: %d too much, want %d", test.requests, test.per, test.burst, test.list, got, test.want)
		}
	}
}
