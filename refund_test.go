package stint_test

import (
	"testing"
	"time"

	"stint"
)

// same fails where two states are answered differently at now.
func same(t *testing.T, limit *stint.Limit, a, b *stint.State, now stint.Instant) {
	t.Helper()
	for _, cost := range []uint64{0, 1, 2, uint64(limit.Capacity())} {
		if got, want := limit.Test(a, now, cost), limit.Test(b, now, cost); got != want {
			t.Fatalf("cost %d at +%dµs:\n got %+v\nwant %+v", cost, now-zero, got, want)
		}
	}
}

// Giving a take back at once undoes it: the key answers ever after as if the take
// had never been, also where it was forced or overdrew. Only a log that is in debt
// may stay stricter, as it moves old entries together, and the first take of a window
// that starts used up has begun it.
func TestRefundAtOnceUndoes(t *testing.T) {
	only := func(s stint.Spec) bool { return !s.CountDenied }
	eachHistory(t, only, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			try.force = h.IntN(10) == 0
			undone := clone(t, &st)
			if h.limit.Spec().StartUsedUp && h.limit.Untouched(&st, try.at) {
				continue
			}
			if left := h.limit.Test(&st, try.at, 0).Remaining; h.limit.Algorithm() == stint.SlidingLog && uint64(left) < try.cost {
				continue
			}
			d := try.play(h.limit, undone)
			if d.Allowed || h.limit.ForStores().Overdraws() {
				h.limit.Refund(undone, try.at, try.cost, &d)
			}
			for _, later := range []stint.Instant{0, 1, stint.Instant(h.Int64N(2 * h.limit.Spec().Per.Microseconds()))} {
				same(t, h.limit, undone, &st, try.at+later)
			}
			try.play(h.limit, &st)
		}
	})
}

// A take that is given back after others came never leaves more than if it had
// never been; in windows, logs and blocks it leaves exactly that, and nothing at
// all once its window or block is gone.
func TestRefundLater(t *testing.T) {
	only := func(s stint.Spec) bool {
		return !s.CountDenied && !(s.Algorithm == stint.FixedWindow && s.FromFirst) && (!s.Overdraw || s.Algorithm != stint.SlidingLog) &&
			!s.StartUsedUp // when a window began is not undone
	}
	eachHistory(t, only, func(t *testing.T, h *history) {
		var with, without stint.State
		var undo *stint.Decision
		gone := h.IntN(len(h.tries))
		until := gone + h.IntN(len(h.tries)-gone)
		exact := h.limit.Algorithm() != stint.TokenBucket && h.limit.Algorithm() != stint.LeakyBucket
		for i, try := range h.tries {
			d := try.play(h.limit, &with)
			took := d.Allowed || h.limit.ForStores().Overdraws()
			if i == gone && took {
				undo = &d
			} else if took {
				h.limit.Force(&without, try.at, try.cost)
			}
			if i != until || undo == nil {
				continue
			}
			h.limit.Refund(&with, try.at, h.tries[gone].cost, undo)
			if exact {
				same(t, h.limit, &with, &without, try.at)
			}
			a, b := h.limit.Test(&with, try.at, 0), h.limit.Test(&without, try.at, 0)
			if a.Remaining > b.Remaining || a.ResetAfter < b.ResetAfter {
				t.Fatalf("try %d was given back after try %d:\n has %+v\nnever taken: %+v", gone, i, a, b)
			}
			return
		}
	})
}

// A refund without undo lowers the used units by exactly its cost, never below zero.
func TestRefundOfWhatIsUsed(t *testing.T) {
	only := func(s stint.Spec) bool {
		return !s.Overdraw && s.MaxWait == 0 && s.Algorithm != stint.SlidingWindow
	}
	eachHistory(t, only, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			left := try.play(h.limit, &st).Remaining
			cost := h.cost()
			d := h.limit.Refund(clone(t, &st), try.at, cost, nil)
			if want := min(h.limit.Capacity(), left+int64(cost)); d.Remaining != want {
				t.Fatalf("%d of %d remaining, %d given back: %+v", left, h.limit.Capacity(), cost, d)
			}
		}
	})
}

func TestRefund(t *testing.T) {
	type step struct {
		at        time.Duration
		cost      uint64
		refund    int // give back the step with this number; -1: units used now, 0: take
		remaining int64
	}
	for _, test := range []struct {
		name  string
		spec  stint.Spec
		steps []step
	}{
		{"a window that is gone", stint.Spec{Requests: 5, Per: time.Minute}, []step{
			{50 * time.Second, 3, 0, 2}, {70 * time.Second, 2, 0, 3}, {71 * time.Second, 3, 1, 3}, {72 * time.Second, 2, 2, 5},
		}},
		{"a first window that is gone", stint.Spec{Requests: 5, Per: time.Minute, FromFirst: true}, []step{
			{50 * time.Second, 3, 0, 2}, {110 * time.Second, 2, 0, 3}, {111 * time.Second, 3, 1, 3}, {112 * time.Second, 2, 2, 5},
		}},
		{"a block that is gone", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Minute, Blocks: 6}, []step{
			{0, 3, 0, 2}, {75 * time.Second, 2, 0, 3}, {75 * time.Second, 3, 1, 3}, {75 * time.Second, 2, 2, 5},
		}},
		{"an entry that is gone", stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Minute}, []step{
			{0, 3, 0, 2}, {time.Minute, 2, 0, 3}, {time.Minute, 3, 1, 3}, {time.Minute, 2, 2, 5},
		}},
		{"a clock that went back", stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Minute}, []step{
			{time.Minute, 1, 0, 4}, {time.Second, 2, 0, 2}, {time.Second, 2, 2, 4},
		}},
		{"a bucket that filled up since", stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second}, []step{
			{0, 1, 0, 4}, {200 * time.Millisecond, 5, 0, 0}, {200 * time.Millisecond, 1, 1, 0},
		}},
		{"a bucket that did not", stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second}, []step{
			{0, 2, 0, 3}, {0, 2, 0, 1}, {100 * time.Millisecond, 2, 1, 3},
		}},
		{"steps of another minute", stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Minute, Step: true}, []step{
			{0, 2, 0, 3}, {time.Minute, 5, 0, 0}, {time.Minute, 2, 1, 0}, {time.Minute, 5, 2, 5},
		}},
		{"a place with others behind it", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Second, Burst: 4}, []step{
			{0, 1, 0, 4}, {0, 1, 0, 3}, {0, 1, 1, 3}, {0, 1, 2, 4},
		}},
		{"part of the last place", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Second, Burst: 4}, []step{
			{0, 3, 0, 2}, {0, 1, 1, 3},
		}},
		{"more than there is", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Minute}, []step{
			{0, 3, 0, 2}, {0, 9, -1, 5}, {0, 5, 0, 0},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			limit := stint.MustLimit(test.spec)
			base := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			var st stint.State
			answers := make([]stint.Decision, len(test.steps)+1)
			for i, s := range test.steps {
				var d stint.Decision
				switch now := base.Add(s.at); s.refund {
				case 0:
					d = limit.Take(&st, now, s.cost)
				case -1:
					d = limit.Refund(&st, now, s.cost, nil)
				default:
					d = limit.Refund(&st, now, s.cost, &answers[s.refund])
				}
				answers[i+1] = d
				if !d.Allowed || d.Remaining != s.remaining {
					t.Fatalf("step %d: %+v, want %d remaining", i+1, d, s.remaining)
				}
			}
		})
	}
}
