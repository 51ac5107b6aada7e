package stint_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Raising 10 to 1000 while blocked lets the next pass; lowering 1000 to 10 lets at
// most 10 more pass. Every algorithm, every amount used before.
func TestCarryRaiseAndLower(t *testing.T) {
	for a := range stint.Unlimited {
		for _, step := range []bool{false, true} {
			if step && a != stint.TokenBucket {
				continue
			}
			ofTen := stint.Spec{Algorithm: a, Requests: 10, Per: time.Minute, Step: step}
			ofThousand := stint.Spec{Algorithm: a, Requests: 1000, Per: time.Minute, Step: step}
			if a == stint.LeakyBucket {
				ofTen.Burst, ofThousand.Burst = 9, 999
			}
			few, many := stint.MustLimit(ofTen), stint.MustLimit(ofThousand)
			now := stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

			var st stint.State
			for few.Take(&st, now, 1).Allowed {
				now += stint.Instant(rand.IntN(1000))
			}
			many.ForStores().Migrate(&st, few, now)
			if d := many.Take(&st, now, 1); !d.Allowed || d.Remaining != 1000-10-1 {
				t.Errorf("%v raised while blocked: %+v", a, d)
			}

			for _, used := range []uint64{0, 1, 9, 10, 500, 1000} {
				st = stint.State{}
				many.Force(&st, now, used)
				few.ForStores().Migrate(&st, many, now)
				passed := uint64(0)
				for few.Take(&st, now, 1).Allowed {
					passed++
				}
				if passed != 10-min(10, used) {
					t.Errorf("%v lowered with %d used: %d more passed", a, used, passed)
				}
			}
		}
	}
}

// A limit that denied all, and one that will, keep nothing.
func TestCarryFromAndToNothing(t *testing.T) {
	for a := range stint.Unlimited {
		some := stint.MustLimit(stint.Spec{Algorithm: a, Requests: 10, Per: time.Minute})
		none := stint.MustLimit(stint.Spec{Algorithm: a, Per: time.Minute})
		var st stint.State
		some.Take(&st, zero, 1)
		none.ForStores().Migrate(&st, some, zero)
		if d := none.Take(&st, zero, 1); d.Allowed || d.RetryAfter != stint.Never {
			t.Errorf("%v lowered to nothing: %+v", a, d)
		}
		some.ForStores().Migrate(&st, none, zero)
		if d := some.Take(&st, zero, uint64(some.Capacity())); !d.Allowed {
			t.Errorf("%v raised from nothing: %+v", a, d)
		}
	}
}

// Limits count alike where a state of one can be read under the other: everything
// but how long to wait, what to do with refusals, and the text of defaults.
func TestSame(t *testing.T) {
	base := stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second}
	blocks := stint.Spec{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Second}
	full := blocks
	full.StartUsedUp = true
	zone := time.FixedZone("elsewhere", 3600)
	for _, test := range []struct {
		a, b stint.Spec
		want bool
	}{
		{base, base, true},
		{base, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Burst: 5}, true},
		{base, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Overdraw: true}, true},
		{base, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Burst: 6}, false},
		{base, stint.Spec{Algorithm: stint.TokenBucket, Requests: 6, Per: time.Second, Burst: 5}, false},
		{base, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Minute}, false},
		{base, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Step: true}, false},
		{base, stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second}, false},
		{blocks, full, false},
		{stint.Spec{Requests: 1, Calendar: stint.Day}, stint.Spec{Requests: 1, Calendar: stint.Day, Zone: time.UTC}, true},
		{stint.Spec{Requests: 1, Calendar: stint.Day}, stint.Spec{Requests: 1, Calendar: stint.Day, Zone: zone}, false},
		{stint.Spec{Requests: 1, Calendar: stint.Day}, stint.Spec{Requests: 1, Calendar: stint.Week}, false},
		{stint.Spec{Requests: 1, Per: time.Second}, stint.Spec{Requests: 1, Per: time.Second, FromFirst: true}, false},
	} {
		a, b := stint.MustLimit(test.a), stint.MustLimit(test.b)
		if a.ForStores().Same(b) != test.want || b.ForStores().Same(a) != test.want {
			t.Errorf("%+v and %+v: want same=%v", test.a, test.b, test.want)
		}
	}
}

// The largest debts stay debts under other numbers: no sum or product overflows, so the debt is not
// forgotten, and no retry time is too early.
func TestCarryLargestDebts(t *testing.T) {
	spec := func(requests uint32, per time.Duration) stint.Spec {
		return stint.Spec{Requests: requests, Per: per, Overdraw: true, RoundRate: true}
	}
	for a := range stint.Unlimited {
		if a == stint.LeakyBucket {
			continue // which has no debts
		}
		for _, numbers := range [][2]stint.Spec{
			{spec(1000, time.Second), spec(11, 24*time.Hour)},
			{spec(1000, time.Second), spec(1, 366*24*time.Hour)},
			{spec(1_000_000, time.Second), spec(1, time.Hour)},
			{spec(60, time.Minute), spec(3, 10*time.Millisecond)},
		} {
			numbers[0].Algorithm, numbers[1].Algorithm, numbers[1].Overdraw = a, a, false
			old, limit := stint.MustLimit(numbers[0]), stint.MustLimit(numbers[1])
			for _, cost := range []uint64{1e9, 2e9, stint.MaxCost} {
				r := new(transaction.Record)
				r.Take(old, zero, cost)
				for i := range 3 {
					r.Take(old, zero+stint.Instant(100*(i+1)), 1)
				}
				now := zero + 1000
				if d := r.Test(limit, now, 0); d.Remaining != 0 {
					t.Errorf("%v, %d under %d/%v: %d are left under %d/%v", a, cost,
						numbers[0].Requests, numbers[0].Per, d.Remaining, numbers[1].Requests, numbers[1].Per)
				}
				d := r.Take(limit, now, 1)
				if d.Allowed {
					t.Errorf("%v: a take passes: %+v", a, d)
				}
				if at := now.Add(d.RetryAfter); at < stint.MaxInstant && !r.Test(limit, at, 1).Allowed {
					t.Errorf("%v, %d: %+v, and then denied for %v more", a, cost, d, r.Test(limit, at, 1).RetryAfter)
				}
			}
		}
	}
}
