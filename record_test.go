package stint_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
)

// others returns limits of the same algorithm with other numbers, the limit of the history first.
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
func written(t *testing.T, r *transaction.Record) []byte {
	t.Helper()
	b, err := r.State.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A peek changes nothing, whatever the numbers of its limit. A denied take writes only a state that
// passes sooner and expires no later. A take that passes is charged, and nothing is forgotten.
func TestRecordForgetsNothing(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		limits, r := h.others(), new(transaction.Record)
		untouched := written(t, r)
		for _, try := range h.tries {
			l := limits[h.IntN(len(limits))]
			if r.Limit == nil || bytes.Equal(written(t, r), untouched) {
				r.Limit = l // it stands under no numbers
			}
			state, under := written(t, r), r.Limit
			before, gone := under.ForStores().Used(&r.State, try.at), under.Test(&r.State, try.at, 0).ResetAfter
			if under.Spec().StartUsedUp && under.Untouched(&r.State, try.at) {
				before = 0 // what it begins with was not taken
			}
			tested := r.Test(l, try.at, try.cost)
			if got := written(t, r); !bytes.Equal(got, state) || r.Limit != under && !r.Limit.ForStores().Same(under) {
				t.Fatalf("at +%dµs a test of %+v changed the state", try.at-zero, l.Spec())
			}
			carried := clone(t, &r.State)
			l.ForStores().Migrate(carried, under, try.at)
			d, want := r.Take(l, try.at, try.cost), l.Test(carried, try.at, 0)
			if d.Allowed != tested.Allowed || d.Allowed && l.Spec().MaxWait == 0 && d.Remaining != max(0, want.Remaining-int64(try.cost)) {
				t.Fatalf("at +%dµs of cost %d under %+v, with %d used of %+v: tested %+v, took %+v",
					try.at-zero, try.cost, l.Spec(), before, under.Spec(), tested, d)
			}
			spec, after := l.Spec(), r.Limit.ForStores().Used(&r.State, try.at)
			changed := !bytes.Equal(written(t, r), state) || r.Limit != under
			plain := !spec.Overdraw && !spec.CountDenied && !spec.StartUsedUp && !l.ForStores().Same(under)
			switch {
			case try.cost == 0 && changed && !l.ForStores().Same(under):
				t.Fatalf("at +%dµs a look under %+v changed the state", try.at-zero, spec)
			case d.Allowed && try.cost > 0 && after < l.Capacity()-want.Remaining+int64(try.cost) && !spec.StartUsedUp:
				t.Fatalf("at +%dµs cost %d under %+v: %d used, before %d under %+v", try.at-zero, try.cost, spec, after, before, under.Spec())
			case d.Allowed || !plain || !changed:
			case d.RetryAfter == stint.Never, l.ForStores().Reads(under), after != before, d.ResetAfter > gone, d.RetryAfter >= l.ForStores().WaitFor(stateOf(t, state), under, try.at, try.cost):
				t.Fatalf("at +%dµs a denied take of %d under %+v wrote: %+v\n%d used, before %d, gone in %v", try.at-zero, try.cost, spec, d, after, before, gone)
			}
		}
	})
}

func stateOf(t *testing.T, b []byte) *stint.State {
	t.Helper()
	st := new(stint.State)
	if err := st.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	return st
}

// Who is denied passes after exactly RetryAfter, and not a microsecond before, also where
// the state was written under other numbers. By ResetAfter the key is untouched.
func TestRecordRetry(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		limits, r := h.others(), new(transaction.Record)
		for _, try := range h.tries {
			l := limits[h.IntN(len(limits))]
			if try.cost > 0 && h.IntN(10) == 0 {
				r.Force(l, try.at, try.cost)
				continue
			}
			if h.IntN(4) > 0 {
				r.Take(l, try.at, try.cost)
				continue
			}
			// From here on one caller is alone.
			cost := h.cost() % (uint64(l.Capacity()) + 2)
			under, before := r.Limit, r.State
			alone := &transaction.Record{State: *clone(t, &before), Limit: under}
			tested := alone.Test(l, try.at, cost)
			d := alone.Take(l, try.at, cost)
			switch {
			case (d.RetryAfter == stint.Never) != (cost > uint64(l.Capacity())):
				t.Fatalf("cost %d: %+v", cost, d)
			case !d.Allowed && d.RetryAfter <= 0:
				t.Fatalf("denied, and nothing to wait for: %+v", d)
			case l.Spec().StartUsedUp: // it takes a key of which nothing is left for one that begins
			case !d.Allowed && d.RetryAfter != stint.Never:
				if !l.ForStores().Overdraws() && !l.Spec().CountDenied && tested != d {
					t.Fatalf("tested %+v, took %+v", tested, d)
				}
				at := try.at.Add(d.RetryAfter)
				early, late, untouched := alone.Test(l, at-1, cost), alone.Test(l, at, cost), alone.Test(l, try.at.Add(d.ResetAfter), 0)
				if early.Allowed || !late.Allowed || d.RetryAfter > d.ResetAfter || untouched.Remaining != l.Capacity() {
					t.Fatalf("cost %d at +%dµs under %+v of a state under %+v:\n%+v\n%v later %+v\na microsecond before %+v\nat last %+v",
						cost, try.at-zero, l.Spec(), under.Spec(), d, d.RetryAfter, late, early, untouched)
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
				burst, requests, per := h.limit.Capacity(), int64(h.limit.Spec().Requests), spec.Per.Microseconds()
				var r transaction.Record
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
				var r transaction.Record
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
						if d = r.DebitCapped(small, zero, 1); !d.Over {
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

// If a key is in the largest debt, DebitCapped debits nothing. Then the state stays under its old
// numbers.
func TestRecordOwesNoMore(t *testing.T) {
	large := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Hour})
	small := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute})
	var r transaction.Record
	r.Take(large, zero, 900)
	if d := r.DebitCapped(small, zero, 1); !d.Over || r.Limit != large {
		t.Errorf("%+v under %+v", d, r.Limit.Spec())
	}
}

// A limit is lowered while a key has used more than the new limit: nothing passes until the use has
// fallen to the new limit, and then the new rate applies.
func TestRecordLowered(t *testing.T) {
	large := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: 1000 * time.Second})
	small := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: 1000 * time.Second})
	var r transaction.Record
	r.Take(large, zero, 50)
	for _, step := range []struct {
		after       time.Duration
		allowed     bool
		left        int64
		retry, back time.Duration
	}{
		{0, false, 0, 41 * time.Second, 50 * time.Second},
		{40 * time.Second, false, 0, time.Second, 10 * time.Second},
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
