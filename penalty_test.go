package stint_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
)

var ladder = stint.MustLimit(stint.Spec{
	Algorithm: stint.Penalty, Requests: 3, Per: time.Minute, Ladder: "1m 10m 1h 24h", Decay: 24 * time.Hour, Jitter: 100_000,
})

// TestPenaltyBounds: in any history, also of clocks that leap, a denied ask passes after its wait, no
// step lasts longer than its own length and jitter (and the five seconds by which clocks differ), a
// small leap back ends none early, and numbers stay in range.
func TestPenaltyBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lengths := []time.Duration{0, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
	steps := 0
	for range 300 {
		var st stint.State
		now := zero
		for range 200 {
			now += stint.Instant(r.Int64N([]int64{10, 1e6, 60e6, 3600e6, 100 * 3600e6}[r.IntN(5)]))
			if r.IntN(10) == 0 {
				now = max(zero, now-stint.Instant(r.Int64N([]int64{5e6, 3600e6, 50 * 3600e6}[r.IntN(3)])))
			}
			if r.IntN(2) == 0 {
				ladder.Force(&st, now, uint64(r.IntN(5)))
			}
			d := ladder.Take(&st, now, 1)
			if d.Limit != 4 || d.Remaining < 0 || d.Remaining > 4 || d.Debt > 4 || d.Allowed != (d.Remaining > 0) || d.ResetAfter < d.RetryAfter {
				t.Fatalf("%+v", d)
			}
			if d.Allowed {
				continue
			}
			steps++
			if most := lengths[d.Debt] + lengths[d.Debt]/10 + 5*time.Second; d.RetryAfter > most {
				t.Fatalf("a step of level %d lasts %v", d.Debt, d.RetryAfter)
			}
			back := max(now-stint.Instant(r.Int64N(5e6)), st.Written-5e6)
			if early := ladder.Test(&st, back, 1); early.Allowed || early.RetryAfter < d.RetryAfter {
				t.Fatalf("set back by %v it waits %v instead of %v", now.Sub(back), early.RetryAfter, d.RetryAfter)
			}
			if almost := ladder.Test(&st, now.Add(d.RetryAfter-time.Microsecond), 1); almost.Allowed {
				t.Fatalf("it passes before %v are over", d.RetryAfter)
			}
			if after := ladder.Test(&st, now.Add(d.RetryAfter), 1); !after.Allowed {
				t.Fatalf("after %v: %+v", d.RetryAfter, after)
			}
			if gone := now.Add(d.ResetAfter); !ladder.Untouched(&st, gone) || ladder.Untouched(&st, gone-1) {
				t.Fatalf("untouched after %v: %v", d.ResetAfter, ladder.Untouched(&st, gone))
			}
		}
	}
	if steps < 1000 {
		t.Errorf("%d steps prove little", steps)
	}
}

// TestPenaltyFromTheFuture: after a clock that ran ahead is corrected, a step lasts no longer than it
// would have, however often a client asks meanwhile, and the correction is written.
func TestPenaltyFromTheFuture(t *testing.T) {
	var st stint.State
	ladder.Force(&st, zero.Add(1000*time.Hour), 4)
	wait := ladder.Take(&st, zero, 1).RetryAfter
	if wait < time.Minute || wait > 66*time.Second {
		t.Fatalf("the step lasts %v more", wait)
	}
	for at := zero; at < zero.Add(wait); at = at.Add(time.Second) {
		if d := ladder.Take(&st, at, 1); d.Allowed || at.Add(d.RetryAfter) != zero.Add(wait) {
			t.Fatalf("after %v: %+v", at.Sub(zero), d)
		}
	}
	if d := ladder.Take(&st, zero.Add(wait), 1); !d.Allowed || d.Debt != 1 {
		t.Errorf("%+v", d)
	}
}

// TestPenaltyOfOtherNumbers: a step that runs ends when it was to end, and the level and the tries are
// read by the new numbers.
func TestPenaltyOfOtherNumbers(t *testing.T) {
	var st stint.State
	for range 3 {
		ladder.Force(&st, zero, 4)
		st.T = int64(zero) // the end of the step
	}
	ladder.Force(&st, zero, 4)
	d := ladder.Test(&st, zero, 1)
	short := stint.MustLimit(stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: time.Second, Ladder: "1s 2s", Decay: time.Hour})
	short.ForStores().Migrate(&st, ladder, zero)
	if got := short.Test(&st, zero, 1); got.Allowed || got.RetryAfter != d.RetryAfter || got.Debt != 2 || d.Debt != 4 {
		t.Errorf("a step of %v on level %d became one of %v on level %d", d.RetryAfter, d.Debt, got.RetryAfter, got.Debt)
	}
	if !short.ForStores().Reads(ladder) || short.ForStores().Same(ladder) {
		t.Error("the numbers are the same, or the state is not read")
	}
}

// TestPenaltyIsNoSource: nobody borrows from a penalty, and none is asked for at most a cost.
func TestPenaltyIsNoSource(t *testing.T) {
	plain := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second})
	for want, takes := range map[error][]stint.Take{
		stint.ErrAtMost: {{Key: "a", Limit: ladder, Cost: 1, Op: stint.AskAtMost}},
		stint.ErrSource: {{Key: "a", Limit: plain, Cost: 1, Borrows: 1}, {Key: "b", Limit: ladder, Cost: 1}},
	} {
		if err := (&stint.Call{Takes: takes}).Check(); err != want { //nolint:errorlint // they are not wrapped
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := (&stint.Call{Takes: []stint.Take{{Key: "a", Limit: ladder, Cost: 1, Borrows: 1}, {Key: "b", Limit: plain, Cost: 1}}}).Check(); err != stint.ErrSource { //nolint:errorlint // it is not wrapped
		t.Error(err)
	}
}
