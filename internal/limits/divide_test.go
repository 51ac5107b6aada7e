package limits_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
)

// apart returns the time between two units of a bucket, in whole microseconds.
func apart(l *stint.Limit) int64 {
	s := l.Spec()
	return (s.Per.Microseconds() + int64(s.Requests) - 1) / int64(s.Requests)
}

// However a bucket is divided, all parts together have no more units than the bucket, and refill no
// faster; only the rounding to microseconds is lost.
func TestDivideBucket(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	divided := 0
	for range 20_000 {
		spec := stint.Spec{
			Algorithm: stint.TokenBucket, Requests: 1 + r.Uint32N(pick(r, uint32(10), 1000, 100_000)),
			Per: pick(r, 100*time.Millisecond, time.Second, time.Minute, 24*time.Hour), Burst: 8 + r.Uint32N(10_000),
		}
		whole, err := stint.NewLimit(spec)
		if err != nil {
			continue
		}
		nodes := 1 + r.Uint32N(20)
		part := nodes * pick(r, uint32(1), 2, 10, 100)
		spec.Requests, spec.Burst = spec.Requests/part, spec.Burst/part
		if spec.Requests == 0 || spec.Burst == 0 {
			continue
		}
		share := stint.MustLimit(spec)
		own, rest := limits.Divide(whole, share, nodes)
		if own == nil {
			if part > nodes {
				t.Fatalf("%+v over %d nodes of %+v leaves nothing", share.Spec(), nodes, whole.Spec())
			}
			continue
		}
		divided++
		if sum := int64(nodes)*own.Capacity() + rest.Capacity(); sum != whole.Capacity() {
			t.Fatalf("%d at once of %d", sum, whole.Capacity())
		}
		given := big.NewRat(int64(whole.Spec().Requests), whole.Spec().Per.Microseconds())
		parts := big.NewRat(int64(nodes), apart(own))
		if new(big.Rat).Add(parts, big.NewRat(1, apart(rest))).Cmp(given) > 0 {
			t.Fatalf("%+v over %d nodes and %+v refill faster than %+v", own.Spec(), nodes, rest.Spec(), whole.Spec())
		}
		if apart(rest) > 1 && new(big.Rat).Add(parts, big.NewRat(1, apart(rest)-1)).Cmp(given) <= 0 {
			t.Fatalf("the rest %+v of %+v could be a microsecond faster", rest.Spec(), whole.Spec())
		}
	}
	if divided < 1000 {
		t.Errorf("only %d were divided", divided)
	}
}

// A window is divided into logs as long as the longest such window, and a window of the same kind.
func TestDivideWindow(t *testing.T) {
	for _, test := range []struct {
		spec stint.Spec
		per  time.Duration
	}{
		{stint.Spec{Requests: 100, Per: time.Minute}, time.Minute},
		{stint.Spec{Requests: 100, Per: time.Minute, FromFirst: true}, time.Minute},
		{stint.Spec{Requests: 100, Calendar: stint.Day}, 25 * time.Hour},
		{stint.Spec{Requests: 100, Calendar: stint.Week}, 169 * time.Hour},
		{stint.Spec{Requests: 100, Calendar: stint.Month}, (31*24 + 1) * time.Hour},
		{stint.Spec{Requests: 100, Calendar: stint.Year}, 366 * 24 * time.Hour},
	} {
		whole := stint.MustLimit(test.spec)
		share := test.spec
		share.Requests = 3
		own, rest := limits.Divide(whole, stint.MustLimit(share), 4)
		left := test.spec
		left.Requests = 88
		if want := (stint.Spec{Algorithm: stint.SlidingLog, Requests: 3, Per: test.per}); own.Spec() != want || rest.Spec() != left {
			t.Errorf("%+v: %+v and %+v", test.spec, own.Spec(), rest.Spec())
		}
		if own, rest := limits.Divide(whole, stint.MustLimit(share), 34); own != nil || rest != nil {
			t.Errorf("%+v: 34 times 3 of 100 leave %+v", test.spec, rest.Spec())
		}
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
