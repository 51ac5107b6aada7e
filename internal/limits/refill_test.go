package limits_test

import (
	"math"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
)

func TestRefillTime(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		spec stint.Spec
		want time.Duration
	}{
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 600, Per: time.Minute, Burst: 400}, 40 * time.Second},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 7, Per: time.Minute, Burst: 7}, time.Minute},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: year, Burst: 50}, 50 * year},
		{stint.Spec{Algorithm: stint.TokenBucket, Per: time.Minute}, time.Minute},
		{stint.Spec{Requests: 5, Per: time.Hour}, time.Hour},
		{stint.Spec{Requests: 5, Calendar: stint.Day}, 25 * time.Hour},
	} {
		if got := limits.RefillTime(stint.MustLimit(test.spec)); got != test.want {
			t.Errorf("%+v: %v, want %v", test.spec, got, test.want)
		}
	}
}

func TestSharedBy(t *testing.T) {
	for _, test := range []struct {
		spec  stint.Spec
		cost  uint32
		nodes int
		pause time.Duration
	}{
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100}, 1, 12, 250 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 64}, 1, 8, 16 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 600, Per: time.Minute, Burst: 600}, 1, 0, 250 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 32, Per: time.Second, Burst: 32}, 1, 4, 250 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 31, Per: time.Second, Burst: 31}, 1, 0, 250 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 160, Per: time.Second, Burst: 123}, 1, 15, 192187 * time.Microsecond}, // what a store tells
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100}, 3, 12, 250 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100}, 4, 0, 250 * time.Millisecond},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100}, math.MaxUint32, 0, 250 * time.Millisecond},
		{stint.Spec{Requests: 100, Per: time.Second}, 1, 0, 0},
	} {
		if nodes, pause := limits.SharedBy(stint.MustLimit(test.spec), test.cost); nodes != test.nodes || pause != test.pause {
			t.Errorf("%+v, cost %d: %d nodes and %v, want %d and %v", test.spec, test.cost, nodes, pause, test.nodes, test.pause)
		}
	}
}
