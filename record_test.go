package stint_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/carry"
)

// others returns limits of the same algorithm with other numbers, that of the history first.
func (h *history) others() []*stint.Limit {
	all := []*stint.Limit{h.limit}
	for range 400 {
		if next := randomLimit(h.Rand); next.Algorithm() == h.limit.Algorithm() && len(all) < 3 {
			all = append(all, next)
		}
	}
	return all
}

// written is what a record would write down.
func written(t *testing.T, r *carry.Record) []byte {
	t.Helper()
	b, err := r.State.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// used is what counts as taken under the numbers that the record stands under.
func used(r *carry.Record, now stint.Instant) int64 {
	patient := r.Limit.Spec()
	if patient.MaxWait = 0; patient.StartFull && r.Limit.Fresh(&r.State, now) {
		return 0 // what it begins with was not taken
	}
	d := stint.MustLimit(patient).Test(&r.State, now, 0)
	return d.Limit - d.Remaining
}

// Whoever is denied or only looks changes nothing, whatever the numbers of its limit.
// What is carried over is never less than what was used, and what passes is charged.
func TestRecordForgetsNothing(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		limits, r := h.others(), new(carry.Record)
		untouched := written(t, r)
		for _, try := range h.tries {
			l := limits[h.IntN(len(limits))]
			if r.Limit == nil || bytes.Equal(written(t, r), untouched) {
				r.Limit = l // it stands under no numbers
			}
			before, state, under := used(r, try.at), written(t, r), r.Limit
			tested := r.Test(l, try.at, try.cost)
			if got := written(t, r); !bytes.Equal(got, state) || r.Limit != under && !r.Limit.Same(under) {
				t.Fatalf("at +%dµs a test of %+v changed the state", try.at-zero, l.Spec())
			}
			carried := clone(t, &r.State)
			l.Carry(carried, under, try.at)
			d, want := r.Take(l, try.at, try.cost), l.Test(carried, try.at, 0)
			if d.Allowed != tested.Allowed || d.Allowed && l.Spec().MaxWait == 0 && d.Remaining != max(0, want.Remaining-int64(try.cost)) {
				t.Fatalf("at +%dµs of cost %d under %+v, with %d used of %+v: tested %+v, took %+v",
					try.at-zero, try.cost, l.Spec(), before, under.Spec(), tested, d)
			}
			switch spec := l.Spec(); {
			case d.Allowed && try.cost > 0:
				if after := used(r, try.at); after < before+int64(try.cost) {
					t.Fatalf("at +%dµs cost %d under %+v: %d used, before %d under %+v", try.at-zero, try.cost, spec, after, before, under.Spec())
				}
			case spec.Overdraw, spec.CountDenied, spec.StartFull, l.Same(under):
			case !bytes.Equal(written(t, r), state) || r.Limit != under:
				t.Fatalf("at +%dµs a take of %d that was not charged under %+v changed the state", try.at-zero, try.cost, spec)
			}
		}
	})
}

// Who is denied passes after exactly RetryAfter, and not a microsecond before, also where
// the state was written under other numbers.
func TestRecordRetry(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		limits, r := h.others(), new(carry.Record)
		now := zero
		for _, try := range h.tries {
			now = try.at
			if try.cost > 0 && h.IntN(10) == 0 {
				r.Force(limits[0], now, try.cost)
				continue
			}
			r.Take(limits[0], now, try.cost)
		}
		for _, l := range limits[1:] {
			cost := h.cost() % (uint64(l.Most()) + 2)
			d := r.Test(l, now, cost)
			switch {
			case (d.RetryAfter == stint.Never) != (cost > uint64(l.Most())):
				t.Fatalf("cost %d: %+v", cost, d)
			case !d.Allowed && d.RetryAfter <= 0:
				t.Fatalf("denied, and nothing to wait for: %+v", d)
			case l.Spec().StartFull: // it takes a key of which nothing is left for one that begins
			case !d.Allowed && d.RetryAfter != stint.Never:
				at := now.Add(d.RetryAfter)
				if early, late := r.Test(l, at-1, cost), r.Test(l, at, cost); early.Allowed || !late.Allowed {
					t.Fatalf("cost %d under %+v of a state under %+v:\n%+v\n%v later %+v\na microsecond before %+v",
						cost, l.Spec(), r.Limit.Spec(), d, d.RetryAfter, late, early)
				}
			}
		}
	})
}

// While nodes with two sets of numbers ask for one key, no more passes than the larger
// numbers promise.
func TestRecordBound(t *testing.T) {
	for _, algorithm := range []stint.Algorithm{stint.TokenBucket, stint.FixedWindow, stint.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			eachHistory(t, func(s stint.Spec) bool { return s.Algorithm == algorithm && !s.Step && !s.FromFirst }, func(t *testing.T, h *history) {
				spec := h.limit.Spec()
				spec.Requests = uint32(1 + h.IntN(int(spec.Requests)))
				limits := []*stint.Limit{h.limit, stint.MustLimit(spec)}
				burst, requests, per := h.limit.Most(), int64(h.limit.Spec().Requests), spec.Per.Microseconds()
				var r carry.Record
				var takes []taken
				for _, try := range h.tries {
					if r.Take(limits[h.IntN(2)], try.at, try.cost).Allowed && try.cost > 0 {
						takes = append(takes, taken{int64(try.at), int64(try.cost)})
					}
				}
				most(t, takes, func(from, to int64) int64 {
					if algorithm == stint.TokenBucket {
						return burst + (to-from)*requests/per
					}
					if algorithm == stint.SlidingLog {
						return requests * (1 + (to-from)/per)
					}
					return requests * (1 + to/per - from/per)
				})
			})
		})
	}
}

// A fleet that raises a limit from 100 to 1000, and one that lowers it: the old node is
// denied again and again, or pushes what it has charged by itself, and no unit is forgotten.
func TestRecordRollingReload(t *testing.T) {
	for a := range stint.Unlimited {
		for _, op := range []string{"take", "peek", "force", "owe", "refund", "overdraw"} {
			if a == stint.LeakyBucket && op == "overdraw" {
				continue // it has none
			}
			t.Run(fmt.Sprint(a, " ", op), func(t *testing.T) {
				spec := stint.Spec{Algorithm: a, Requests: 1000, Per: time.Hour}
				low := stint.Spec{Algorithm: a, Requests: 100, Per: time.Hour}
				if a == stint.LeakyBucket {
					spec.Burst, low.Burst = 999, 99
				}
				low.Overdraw = op == "overdraw"
				large, small := stint.MustLimit(spec), stint.MustLimit(low)
				var r carry.Record
				r.Take(large, zero, 900)
				for range 10 {
					var d stint.Decision
					switch op {
					case "take", "overdraw":
						d = r.Take(small, zero, 1)
						if d.Allowed {
							t.Fatalf("passed: %+v", d)
						}
					case "peek":
						d = r.Take(small, zero, 0)
					case "force":
						d = r.Force(small, zero, 1)
					case "owe":
						if d = r.Owe(small, zero, 1); !d.Over {
							t.Fatalf("debited: %+v", d)
						}
					case "refund":
						d = r.Refund(small, zero, 1, nil)
					}
					if d.Remaining != 0 || d.Limit != 100 {
						t.Fatalf("%+v", d)
					}
				}
				want := map[string]int64{"force": 90, "overdraw": 90, "refund": 110}[op]
				if want == 0 {
					want = 100
				}
				if d := r.Take(large, zero, 0); d.Remaining != want {
					t.Errorf("%d remain under the larger numbers, want %d", d.Remaining, want)
				}
			})
		}
	}
}

// A limit is lowered everywhere while a key has used more than it holds: nothing passes
// until that has sunk to what it holds, and from then on as much as it promises.
func TestRecordLowered(t *testing.T) {
	large := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: 1000 * time.Second})
	small := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: 1000 * time.Second})
	var r carry.Record
	r.Take(large, zero, 50)
	for _, step := range []struct {
		after       time.Duration
		allowed     bool
		left        int64
		retry, back time.Duration
	}{
		{0, false, 0, 41 * time.Second, 1000 * time.Second},
		{40 * time.Second, false, 0, time.Second, 1000 * time.Second},
		{41 * time.Second, true, 0, 0, 1000 * time.Second},
		{42 * time.Second, false, 0, 99 * time.Second, 999 * time.Second},
		{141 * time.Second, true, 0, 0, 1000 * time.Second},
	} {
		d := r.Take(small, zero.Add(step.after), 1)
		if d.Allowed != step.allowed || d.Remaining != step.left || d.RetryAfter != step.retry || d.ResetAfter != step.back {
			t.Errorf("after %v: %+v", step.after, d)
		}
	}
}
