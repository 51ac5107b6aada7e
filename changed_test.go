package stint_test

import (
	"math/big"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
)

func tokens(requests uint32, per time.Duration, burst uint32) *stint.Limit {
	return stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: requests, Per: per, Burst: burst})
}

// What a denied caller is told after the numbers changed: it waits for the sooner of both ways,
// the old numbers' and the new ones', and is told no shorter ResetAfter.
func TestChangedNumbers(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		name         string
		was, is      *stint.Limit
		used         uint64
		after        time.Duration
		cost         uint64
		allowed      bool
		retry, reset time.Duration
	}{
		{"10/d used up, made 10/s", tokens(10, day, 0), tokens(10, time.Second, 0), 10, 0, 1, false, 100 * time.Millisecond, time.Second},
		{"1000/min half used, made 10/s", tokens(1000, time.Minute, 0), tokens(10, time.Second, 0), 500, 0, 1, false, 29460 * time.Millisecond, 30 * time.Second},
		{"10/d made 11/d shortly before the next token", tokens(10, day, 0), tokens(11, day, 0), 10, 8639 * time.Second, 2, false, 909091 * time.Microsecond, 70691818186 * time.Microsecond},
		{"half of 100,000/d made 1/s", tokens(100_000, day, 0), tokens(1, time.Second, 0), 50_000, 0, 1, false, 43200 * time.Second, 43200 * time.Second},
		{"10/s used up, 1,000,000/d asks", tokens(10, time.Second, 0), tokens(1_000_000, day, 0), 10, 0, 1, true, 0, 11 * 86400 * time.Microsecond},
		{"60/min used up, 2/s asks", tokens(60, time.Minute, 0), tokens(2, time.Second, 0), 60, 0, 1, false, 29500 * time.Millisecond, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r transaction.Record
			r.Force(test.was, zero, test.used)
			at := zero.Add(test.after)
			r.Take(test.is, at, 0) // a look changes nothing
			d := r.Take(test.is, at, test.cost)
			if d.Allowed != test.allowed || d.RetryAfter != test.retry || d.ResetAfter != test.reset {
				t.Fatalf("%+v", d)
			}
			if !d.Allowed && (r.Test(test.is, at.Add(d.RetryAfter)-1, test.cost).Allowed || !r.Take(test.is, at.Add(d.RetryAfter), test.cost).Allowed) {
				t.Error("the wait is not exact")
			}
		})
	}
}

// A look, a cost that never fits and a limit of nothing leave the state of other numbers alone;
// and so does a denied take that gains nothing.
func TestChangedNumbersStay(t *testing.T) {
	was, faster, none := tokens(10, time.Hour, 0), tokens(5, time.Second, 0), tokens(0, time.Hour, 1)
	var r transaction.Record
	r.Take(was, zero, 10)
	for _, ask := range []struct {
		limit *stint.Limit
		cost  uint64
	}{{faster, 0}, {faster, 6}, {none, 1}, {tokens(1, 24*time.Hour, 0), 1}} {
		r.Take(ask.limit, zero, ask.cost)
		if r.Limit != was {
			t.Errorf("cost %d under %+v wrote", ask.cost, ask.limit.Spec())
		}
	}
	if r.Take(faster, zero, 1); r.Limit != faster {
		t.Error("a denied take that passes sooner did not write")
	}
}

// While nodes with several sets of numbers ask for one key, a window of any length admits at most
// the largest capacity and what all sets refill in it; a steady bucket what the fastest does. Those
// who are denied try again and again.
func TestChangedNumbersBound(t *testing.T) {
	log := func(requests uint32, per time.Duration) *stint.Limit {
		return stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: requests, Per: per})
	}
	window := func(requests uint32, per time.Duration) *stint.Limit {
		return stint.MustLimit(stint.Spec{Requests: requests, Per: per})
	}
	for _, test := range []struct {
		name   string
		limits []*stint.Limit
	}{
		{"60/min, 1/s, 2/s", []*stint.Limit{tokens(60, time.Minute, 0), tokens(1, time.Second, 0), tokens(2, time.Second, 0)}},
		{"burst 10 and 5 of one rate", []*stint.Limit{tokens(1, time.Minute, 10), tokens(1, time.Minute, 5)}},
		{"10/s and 1,000,000/d", []*stint.Limit{tokens(10, time.Second, 0), tokens(1_000_000, 24*time.Hour, 0)}},
		{"windows", []*stint.Limit{window(20, time.Minute), window(5, 10*time.Second), window(50, time.Minute)}},
		{"logs", []*stint.Limit{log(20, time.Minute), log(5, 10*time.Second), log(50, time.Minute)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachHistory(t, nil, func(t *testing.T, h *history) {
				var r transaction.Record
				var takes []taken
				at := zero
				for range 200 {
					at += stint.Instant(h.Int64N(pick[int64](h.Rand, 1, 200_000, 2_000_000, 20_000_000)))
					cost := pick(h.Rand, 0, 1, 1, 3, 10)
					if r.Take(test.limits[h.IntN(len(test.limits))], at, uint64(cost)).Allowed && cost > 0 {
						takes = append(takes, taken{int64(at), int64(cost)})
					}
				}
				most(t, takes, func(from, to int64) int64 {
					capacity, refills, fastest := int64(0), int64(0), int64(0)
					for _, l := range test.limits {
						per, requests := l.Spec().Per.Microseconds(), int64(l.Spec().Requests)
						capacity = max(capacity, l.Capacity())
						fastest = max(fastest, (to-from)*requests/per+1)
						refills += requests * ((to-from)/per + 1)
					}
					if test.limits[0].Algorithm() == stint.TokenBucket {
						return capacity + fastest
					}
					return capacity + refills
				})
			})
		})
	}
}

// The use of a steady bucket is exact under all numbers, rounded up by at most a microsecond
// with each carry.
func TestChangedNumbersExact(t *testing.T) {
	only := func(s stint.Spec) bool { return s.Algorithm == stint.TokenBucket && !s.Step && !s.Overdraw }
	eachHistory(t, only, func(t *testing.T, h *history) {
		limits := []*stint.Limit{h.limit}
		for len(limits) < 3 {
			if l := randomLimit(h.Rand); only(l.Spec()) {
				limits = append(limits, l)
			}
		}
		charge := func(l *stint.Limit) int64 { return ceilDiv(l.Spec().Per.Microseconds(), int64(l.Spec().Requests)) }
		level, last, under, slack := new(big.Rat), zero, limits[0], new(big.Rat)
		var r transaction.Record
		for _, try := range h.tries {
			l := limits[h.IntN(len(limits))]
			level.Sub(level, big.NewRat(int64(try.at-last), charge(under)))
			if level.Sign() < 0 { // what the state has above it drains too
				if slack.Add(slack, level); slack.Sign() < 0 {
					slack.SetInt64(0)
				}
				level.SetInt64(0)
			}
			last = try.at
			if d := r.Take(l, try.at, try.cost); d.Allowed && try.cost > 0 {
				level.Add(level, new(big.Rat).SetUint64(try.cost))
				if level.Cmp(new(big.Rat).SetInt64(l.Capacity())) > 0 {
					t.Fatalf("%s units are used of %+v", level.FloatString(6), l.Spec())
				}
			}
			if r.Limit != nil && r.Limit != under {
				slack.Add(slack, big.NewRat(1, charge(r.Limit)))
				under = r.Limit
			}
			if r.Limit == nil {
				continue
			}
			held := big.NewRat(max(0, r.State.T-int64(try.at)), charge(under))
			if over := new(big.Rat).Sub(held, level); over.Sign() < 0 || over.Cmp(slack) > 0 {
				t.Fatalf("+%dµs: %s units are used, the state says %s under %+v", try.at-zero, level.FloatString(9), held.FloatString(9), under.Spec())
			}
		}
	})
}

// A debt under small numbers does not cut what was used under numbers more than 64 times as
// large, which is how many times its limit a window counts up to.
func TestChangedNumbersOverdrawn(t *testing.T) {
	large := stint.MustLimit(stint.Spec{Requests: 999, Per: 7 * time.Second, Overdraw: true})
	small := stint.MustLimit(stint.Spec{Requests: 12, Per: 7 * time.Second, Overdraw: true})
	var r transaction.Record
	r.Take(large, zero, 999)
	r.Take(small, zero, 1) // denied, and debited
	if d := r.Take(large, zero, 1); d.Allowed {
		t.Errorf("a unit passed beyond the limit: %+v", d)
	}
}

// What exceeds the requests of a window or a log counts as taken one window later, and so on.
func TestChangedNumbersLater(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Requests: 10, Per: time.Minute},
		{Requests: 10, Per: time.Minute, FromFirst: true},
		{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Minute},
	} {
		old := spec
		old.Requests, old.Per = 100, time.Hour
		was, is := stint.MustLimit(old), stint.MustLimit(spec)
		at := stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		var r transaction.Record
		r.Take(was, at, 25)
		if d := r.Take(is, at, 7); d.Allowed || d.RetryAfter != 3*time.Minute || d.ResetAfter < 3*time.Minute {
			t.Errorf("%v: %+v", spec.Algorithm, d)
		}
		for i, left := range []int64{0, 0, 5, 10} {
			if d := r.Test(is, at.Add(time.Duration(i)*time.Minute), 0); d.Remaining != left {
				t.Errorf("%v, after %d windows: %d left, want %d", spec.Algorithm, i, d.Remaining, left)
			}
		}
	}
}

// After a clock that ran ahead is corrected a key that was used up is denied no longer than a
// full one, and so is one in debt, less what it had worked off.
func TestClockCorrected(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute, Overdraw: true},
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute, Step: true},
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute, Reserve: true},
		{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Minute, Burst: 9},
		{Requests: 10, Per: time.Minute},
		{Requests: 10, Per: time.Minute, FromFirst: true},
		{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Minute},
		{Algorithm: stint.SlidingWindow, Requests: 10, Per: time.Minute, Blocks: 6},
	} {
		l, now := stint.MustLimit(spec), zero
		for _, debt := range []uint64{0, 20} {
			if debt > 0 && l.Algorithm() != stint.TokenBucket {
				continue
			}
			var st stint.State
			ahead := now.Add(24 * time.Hour)
			l.Take(&st, ahead, 10)
			l.Force(&st, ahead, debt)
			wait := time.Duration(0)
			for at, d := now, l.Take(&st, now, 10); !d.Allowed; d = l.Take(&st, at, 10) {
				wait, at = wait+d.RetryAfter, at.Add(d.RetryAfter)
			}
			most := time.Duration(10+debt)*6*time.Second + spec.Per
			if spec.Reserve { // nobody ends what was reserved
				most += stint.MaxReservation
			}
			if wait == 0 || wait > most {
				t.Errorf("%+v with %d more: denied for %v, at most %v", spec, debt, wait, most)
			}
		}
	}
}
