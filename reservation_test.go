package stint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint"
)

// holdModel is the simplest model of the bucket: the used units fall with time, but never below the
// reserved ones. Nothing else is stored. Its clock only goes forward.
type holdModel struct {
	charge, full int64
	used         int64 // microseconds
	last         int64
	open         []holdTake
}

type holdTake struct{ at, cost int64 }

func (m *holdModel) clone() *holdModel {
	c := *m
	c.open = slices.Clone(m.open)
	return &c
}

func (m *holdModel) reserved() (n int64) {
	for _, t := range m.open {
		n += t.cost
	}
	return n
}

// to moves the model to a time, past each reservation that becomes too old.
func (m *holdModel) to(now int64) {
	for len(m.open) > 0 && m.open[0].at+stint.MaxReservation.Microseconds() <= now {
		m.sink(m.open[0].at + stint.MaxReservation.Microseconds())
		m.open = m.open[1:]
	}
	m.sink(now)
}

func (m *holdModel) sink(now int64) {
	m.used = max(m.used-(now-m.last), m.reserved()*m.charge)
	m.last = now
}

func (m *holdModel) take(now, cost int64) bool {
	m.to(now)
	if m.used+cost*m.charge > m.full {
		return false
	}
	m.used += cost * m.charge
	if cost > 0 {
		m.open = append(m.open, holdTake{now, cost})
	}
	return true
}

// end settles the reservation of that time, or gives it back.
func (m *holdModel) end(now int64, t holdTake, back bool) {
	m.to(now)
	for i := range m.open {
		if m.open[i] == t {
			m.open = append(m.open[:i:i], m.open[i+1:]...)
			if back {
				m.used -= t.cost * m.charge
			}
			return
		}
	}
}

var holdSpec = stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Burst: 8, Reserve: true}

// A bucket with reservations gives the same decisions as the model, whatever is settled, given back
// or forgotten in between.
func TestHoldModel(t *testing.T) {
	limit := stint.MustLimit(holdSpec)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var st stint.State
		m := holdModel{charge: 200_000, full: 1_600_000, last: int64(zero)}
		var open []holdTake
		undo := map[holdTake]stint.Decision{}
		now := int64(zero)
		for step := range 80 {
			now += pick(r, 1, 1000, 200_000, 200_001, 199_999, 1_600_000, r.Int64N(3_000_000)+1)
			if r.IntN(25) == 0 {
				now += stint.MaxReservation.Microseconds() - r.Int64N(4_000_000)
			}
			var d stint.Decision
			if len(open) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(open))
				take, back := open[i], r.IntN(2) == 0
				u := undo[take]
				if back {
					d = limit.Refund(&st, stint.Instant(now), uint64(take.cost), &u)
				} else {
					d = limit.Settle(&st, stint.Instant(now), uint64(take.cost), &u)
				}
				m.end(now, take, back)
				if r.IntN(4) > 0 { // else it is ended once more, later
					open = append(open[:i], open[i+1:]...)
				}
			} else {
				take := holdTake{now, r.Int64N(5)}
				d = limit.Take(&st, stint.Instant(now), uint64(take.cost))
				alone := m.clone()
				if passed := m.take(now, take.cost); d.Allowed != passed {
					t.Fatalf("seed %d step %d: %+v, the model says %v", seed, step, d, passed)
				}
				if then := now + d.RetryAfter.Microseconds(); !d.Allowed {
					if alone.clone().take(then-1, take.cost) || !alone.clone().take(then, take.cost) {
						t.Fatalf("seed %d step %d: %+v, but in the model it does not pass first then", seed, step, d)
					}
					if d.ResetAfter < d.RetryAfter {
						t.Fatalf("seed %d step %d: %+v resets before it may be tried again", seed, step, d)
					}
					d.ResetAfter = time.Duration(max(0, m.used)) * time.Microsecond // as allowed ones say
				}
				if d.Allowed && take.cost > 0 {
					open = append(open, take)
					undo[take] = d
				}
			}
			m.to(now)
			if want := (m.full - m.used) / m.charge; d.Remaining != want || d.ResetAfter != time.Duration(m.used)*time.Microsecond {
				t.Fatalf("seed %d step %d: %+v, want %d remaining and reset in %dµs", seed, step, d, want, m.used)
			}
			if limit.Untouched(&st, stint.Instant(now)) != (m.used == 0) {
				t.Fatalf("seed %d step %d: fresh is %v with %dµs used and %d reserved", seed, step, m.used != 0, m.used, m.reserved())
			}
		}
	}
}

// A reservation that is given back leaves the bucket as if it had never been taken,
// however long it lasted and whatever came in between.
func TestHoldGiveBack(t *testing.T) {
	for _, step := range []bool{false, true} {
		spec := holdSpec
		spec.Step = step
		limit := stint.MustLimit(spec)
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 2))
			var with, without stint.State
			undone := limit.Take(&with, zero, 3)
			now := zero
			for range r.IntN(30) {
				now += stint.Instant(1 + r.Int64N(600_000))
				cost := uint64(1 + r.IntN(3))
				if d := limit.Take(&with, now, cost); d.Allowed {
					limit.Take(&without, now, cost)
					if r.IntN(2) == 0 {
						later := now + stint.Instant(r.Int64N(300_000))
						limit.Settle(&with, later, cost, &d)
						limit.Settle(&without, later, cost, &d)
						now = later
					}
				}
			}
			limit.Refund(&with, now, 3, &undone)
			same(t, limit, &with, &without, now)
			same(t, limit, &with, &without, now+stint.Instant(r.Int64N(2_000_000)))
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// Decisions of a bucket with reservations, step by step.
func TestReserve(t *testing.T) {
	limit := stint.MustLimit(holdSpec) // 8, and one each 200 ms
	var st stint.State
	at := func(d time.Duration) stint.Instant { return zero.Add(d) }
	expect := func(what string, d stint.Decision, allowed bool, remaining int64, retry time.Duration) {
		t.Helper()
		if d.Allowed != allowed || d.Remaining != remaining || d.RetryAfter != retry {
			t.Errorf("%s: %+v, want allowed %v, %d remaining, retry after %v", what, d, allowed, remaining, retry)
		}
	}
	first := limit.Take(&st, at(0), 5)
	expect("the first", first, true, 3, 0)
	second := limit.Take(&st, at(time.Microsecond), 3)
	expect("the second", second, true, 0, 0)
	expect("all is reserved, for long", limit.Take(&st, at(time.Minute), 1), false, 0, stint.MaxReservation-time.Minute+200*time.Millisecond)
	expect("more than ever", limit.Take(&st, at(time.Minute), 9), false, 0, stint.Never)
	expect("one is settled", limit.Settle(&st, at(time.Minute), 3, &second), true, 0, 0)
	expect("and refills", limit.Take(&st, at(time.Minute+400*time.Millisecond), 0), true, 2, 0)
	expect("up to what is reserved", limit.Take(&st, at(2*time.Minute), 0), true, 3, 0)
	expect("settled twice", limit.Settle(&st, at(2*time.Minute), 3, &second), true, 3, 0)
	expect("the other comes back", limit.Refund(&st, at(2*time.Minute), 5, &first), true, 8, 0)
	expect("not twice", limit.Refund(&st, at(2*time.Minute), 5, &first), true, 8, 0)

	third := limit.Take(&st, at(3*time.Minute), 8)
	expect("a clock is a little behind", limit.Take(&st, at(3*time.Minute-5*time.Second), 1), false, 0, 5*time.Second+stint.MaxReservation+200*time.Millisecond)
	corrected := limit.Test(&st, at(2*time.Minute), 1)
	expect("a clock was corrected", corrected, false, 0, stint.MaxReservation+200*time.Millisecond)
	expect("not heard of", limit.Take(&st, at(3*time.Minute+stint.MaxReservation), 0), true, 0, 0)
	expect("counts as settled", limit.Take(&st, at(3*time.Minute+stint.MaxReservation+time.Second), 0), true, 5, 0)
	expect("and stays charged", limit.Refund(&st, at(3*time.Minute+stint.MaxReservation+time.Second), 8, &third), true, 5, 0)
	if fresh := limit.ForStores().Expiry(&st); fresh != at(3*time.Minute+stint.MaxReservation+1600*time.Millisecond) {
		t.Errorf("full again at %v", fresh.Sub(zero))
	}
	expect("a forced take is none", limit.Force(&st, at(time.Hour), 10), true, 0, 0)
	expect("and refills", limit.Take(&st, at(time.Hour+time.Second), 0), true, 3, 0)
	expect("used is given back", limit.Refund(&st, at(time.Hour+time.Second), 2, nil), true, 5, 0)
}

// A state is migrated from a limit with reservations to one without, and back.
func TestHoldCarry(t *testing.T) {
	held := stint.MustLimit(holdSpec)
	plain := holdSpec
	plain.Reserve = false
	limit := stint.MustLimit(plain)
	var st stint.State
	d := held.Take(&st, zero, 6)
	limit.ForStores().Migrate(&st, held, zero.Add(time.Minute))
	if left := limit.Test(&st, zero.Add(time.Minute), 0).Remaining; left != 2 {
		t.Errorf("%d remaining, want 2", left)
	}
	held.ForStores().Migrate(&st, limit, zero.Add(time.Minute))
	if left := held.Refund(&st, zero.Add(time.Minute), 6, &d).Remaining; left != 2 {
		t.Errorf("%d remaining after a take of another limit came back, want 2", left)
	}
}

// DebitCapped debits up to one limit of debt, and reports whether that was less than the cost.
func TestOwe(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour},
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour, Reserve: true},
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour, Step: true},
		{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Hour, Burst: 9},
		{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour},
		{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Hour},
		{Algorithm: stint.SlidingWindow, Requests: 10, Per: time.Hour},
	} {
		t.Run(fmt.Sprint(spec.Algorithm, spec.Step, spec.Reserve), func(t *testing.T) {
			limit := stint.MustLimit(spec)
			var st stint.State
			now := zero.Add(time.Minute)
			for i, want := range []struct {
				cost      uint64
				remaining int64
				cut       bool
			}{{4, 6, false}, {8, 0, false}, {8, 0, false}, {1, 0, true}, {0, 0, false}} {
				if d := limit.ForStores().DebitCapped(&st, now, want.cost); !d.Allowed || d.Remaining != want.remaining || d.Over != want.cut {
					t.Errorf("debit %d: %+v, want %+v", i, d, want)
				}
			}
			if d := limit.Refund(&st, now, 10, nil); d.Remaining != 0 {
				t.Errorf("after 10 of a debt of 10 came back: %+v", d)
			}
			if d := limit.Refund(&st, now, 3, nil); d.Remaining != 3 {
				t.Errorf("after 3 more: %+v", d)
			}
		})
	}
}
