package stint_test

import (
	"testing"
	"time"

	"stint"
)

// A limit answers as its algorithm's words say, counted with fractions over all
// that was ever taken: verdict, remaining, retry, reset and delay, to the
// microsecond. Debts, forced or overdrawn, count on.
func TestAgainstModel(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		reference := newReference(h.limit)
		for i := range h.tries {
			try := &h.tries[i]
			try.force = h.IntN(20) == 0
			answer := reference.take
			if try.force {
				answer = reference.force
			}
			if got, want := try.play(h.limit, &st), answer(try.at, try.cost); got != want {
				t.Fatalf("try %d: %+v\n got %+v\nwant %+v", i, *try, got, want)
			}
		}
	})
}

// 0 <= remaining <= limit, only a denial has a wait, and only an allowed take of a leaky bucket has
// a delay.
func TestNumbersInRange(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			d := try.play(h.limit, &st)
			if d.Remaining < 0 || d.Remaining > d.Limit || d.Limit != h.limit.Capacity() || d.At != try.at ||
				d.Allowed == (d.RetryAfter > 0) || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Delay < 0 ||
				d.Delay > 0 && (h.limit.Algorithm() != stint.LeakyBucket || !d.Allowed) {
				t.Fatalf("%+v: %+v", try, d)
			}
			if try.cost == 0 && !d.Allowed {
				t.Fatalf("a peek was refused: %+v", d)
			}
		}
	})
}

// Waiting exactly retry_after passes, and a microsecond less does not.
func TestRetryIsExact(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			d := try.play(h.limit, &st)
			if d.Allowed {
				continue
			}
			if d.RetryAfter == stint.Never {
				if try.cost <= uint64(h.limit.Capacity()) {
					t.Fatalf("%+v can never pass, though the limit is %d", try, h.limit.Capacity())
				}
				continue
			}
			later := try.at.Add(d.RetryAfter)
			if early := h.limit.Test(clone(t, &st), later-1, try.cost); early.Allowed {
				t.Fatalf("%+v was told to wait %v and passes a microsecond earlier", try, d.RetryAfter)
			}
			if again := h.limit.Take(clone(t, &st), later, try.cost); !again.Allowed {
				t.Fatalf("%+v waited %v in vain: %+v", try, d.RetryAfter, again)
			}
		}
	})
}

// Denials and peeks change nothing: later takes get the same decisions without them.
func TestRefusalsChangeNothing(t *testing.T) {
	only := func(s stint.Spec) bool { return !s.CountDenied && !s.Overdraw && !s.StartUsedUp }
	eachHistory(t, only, func(t *testing.T, h *history) {
		var with, without stint.State
		for _, try := range h.tries {
			if d := try.play(h.limit, &with); !d.Allowed || try.cost == 0 {
				continue
			}
			h.limit.Take(&without, try.at, try.cost)
			if a, b := h.limit.Test(&with, try.at, 0), h.limit.Test(&without, try.at, 0); a != b {
				t.Fatalf("%+v:\nwith refusals    %+v\nwithout refusals %+v", try, a, b)
			}
		}
	})
}

// A log that counts refusals never keeps more than requests units, however many try.
func TestCountDeniedIsBounded(t *testing.T) {
	only := func(s stint.Spec) bool { return s.CountDenied && !s.Overdraw }
	eachHistory(t, only, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			try.play(h.limit, &st)
			if units := st.Log.Units(); units > uint64(h.limit.Capacity()) {
				t.Fatalf("%+v: the log holds %d units of %d", try, units, h.limit.Capacity())
			}
		}
	})
}

// A larger cost never fares better: what passes for more passes for less, and less
// never waits longer.
func TestLargerCostNeverFaresBetter(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			small, large := h.cost(), h.cost()
			if small > large {
				small, large = large, small
			}
			less, more := h.limit.Test(&st, try.at, small), h.limit.Test(&st, try.at, large)
			if more.Allowed && !less.Allowed || less.RetryAfter > more.RetryAfter {
				t.Fatalf("at +%dµs cost %d: %+v\ncost %d: %+v", try.at-zero, small, less, large, more)
			}
			try.play(h.limit, &st)
		}
	})
}

// Time that runs backwards gives no tokens: a take that is denied now is denied at any earlier time
// too, and no more units remain there. This is so for as long as a key that was used up then stays
// used up.
func TestTimeRunningBackwards(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		newest, latest := stint.Instant(0), stint.Instant(0) // time of the last take that passed, and of all that asked
		for _, try := range h.tries {
			if h.IntN(4) == 0 {
				try.at -= stint.Instant(h.Int64N(2 * h.limit.Spec().Per.Microseconds()))
			}
			if d := try.play(h.limit, &st); d.Allowed && try.cost > 0 {
				newest = max(newest, try.at)
			}
			latest = max(latest, try.at)
			if newest == 0 {
				continue
			}
			back := newest - stint.Instant(h.Int64N(3*h.limit.Spec().Per.Microseconds()))
			cost := max(1, h.cost())
			then, now := h.limit.Test(&st, back, cost), h.limit.Test(&st, newest, cost)
			forgotten := h.limit.Spec().StartUsedUp && now.ResetAfter == 0 // which is a full one
			if !forgotten && (then.Allowed && !now.Allowed || then.Remaining > now.Remaining) {
				t.Fatalf("cost %d at +%dµs: %+v\nback at +%dµs: %+v", cost, newest-zero, now, back-zero, then)
			}
			full := h.limit.Force(new(stint.State), back, uint64(h.limit.Capacity())).ResetAfter
			if h.limit.Algorithm() != stint.FixedWindow && then.ResetAfter < min(full, h.limit.Test(&st, latest, 0).ResetAfter) {
				t.Fatalf("back at +%dµs the key is forgotten sooner: %+v, before %+v", back-zero, then, now)
			}
		}
	})
}

// Remaining is exact: that many units can be taken now, at once or one by one, and not one more.
// The minimum interval of a log is left out, and a queue with a maximum wait may deny single takes
// earlier.
func TestRemainingIsTrue(t *testing.T) {
	only := func(s stint.Spec) bool { return s.MinInterval == 0 }
	eachHistory(t, only, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			left := try.play(h.limit, &st).Remaining
			if d := h.limit.Take(clone(t, &st), try.at, uint64(left)); !d.Allowed || d.Remaining != 0 && left > 0 {
				t.Fatalf("%+v leaves %d, and all at once: %+v", try, left, d)
			}
			if d := h.limit.Take(clone(t, &st), try.at, uint64(left)+1); d.Allowed {
				t.Fatalf("%+v leaves %d, and one more passes: %+v", try, left, d)
			}
			if h.limit.Spec().MaxWait > 0 {
				continue
			}
			copied := clone(t, &st)
			for i := range left {
				if d := h.limit.Take(copied, try.at, 1); !d.Allowed || d.Remaining != left-i-1 {
					t.Fatalf("%+v leaves %d, and the next after %d: %+v", try, left, i, d)
				}
			}
		}
	})
}

// After exactly reset_after a key answers as one that was never touched, and not a
// microsecond earlier; Expiry and Untouched say the same.
func TestResetIsTrue(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			d := try.play(h.limit, &st)
			end := try.at.Add(d.ResetAfter)
			if h.limit.Algorithm() == stint.FixedWindow && h.limit.Untouched(&st, try.at) {
				continue // reports the end of a window in which nothing was taken
			}
			if d.ResetAfter > 0 && (h.limit.ForStores().Expiry(&st) != end || h.limit.Untouched(&st, end-1)) {
				t.Fatalf("%+v: reset in %v, but expiry at +%dµs", try, d.ResetAfter, h.limit.ForStores().Expiry(&st)-zero)
			}
			if !h.limit.Untouched(&st, end) {
				t.Fatalf("%+v: not fresh after %v", try, d.ResetAfter)
			}
			for _, cost := range []uint64{0, 1, uint64(h.limit.Capacity()), uint64(h.limit.Capacity()) + 1} {
				got, want := h.limit.Take(clone(t, &st), end, cost), h.limit.Take(new(stint.State), end, cost)
				if got != want {
					t.Fatalf("%+v, cost %d after the reset:\n got %+v\nwant %+v", try, cost, got, want)
				}
			}
		}
	})
}

// Test answers as Take does and takes nothing; a packed word answers as the state.
func TestTestAndPackAgreeWithTake(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var st stint.State
		var word uint64
		for _, try := range h.tries {
			tested, peeked := h.limit.Test(&st, try.at, try.cost), h.limit.Test(&st, try.at, 0)
			d := h.limit.Take(&st, try.at, try.cost)
			if tested.Allowed != d.Allowed || tested.Allowed && tested != peeked {
				t.Fatalf("%+v:\ntest %+v\npeek %+v\ntake %+v", try, tested, peeked, d)
			}
			if !h.limit.ForStores().Packed() {
				continue
			}
			var packed stint.Decision
			if word = h.limit.ForStores().TakeWord(word, try.at, try.cost, &packed); packed != d {
				t.Fatalf("%+v:\n word %+v\nstate %+v", try, packed, d)
			}
			if st.Written != 0 { // which does not fit into a word
				if word>>52 == 0 || h.limit.ForStores().Pack(&st) != word {
					t.Fatalf("%+v: word %x, state %+v", try, word, st)
				}
				return
			}
			if unpacked := h.limit.ForStores().Unpack(word); h.limit.ForStores().Pack(&unpacked) != word || word>>52 != 0 || h.limit.ForStores().Pack(&st) != word {
				t.Fatalf("%+v: word %x, unpacked %+v, state %+v", try, word, unpacked, st)
			}
		}
	})
}

// A state survives being written and read at any point of its life.
func TestStateSurvivesEncoding(t *testing.T) {
	eachHistory(t, nil, func(t *testing.T, h *history) {
		var kept stint.State
		written := new(stint.State)
		for _, try := range h.tries {
			try.force = h.IntN(10) == 0
			a, b := try.play(h.limit, &kept), try.play(h.limit, written)
			if a != b {
				t.Fatalf("%+v:\n kept %+v\n read %+v", try, a, b)
			}
			written = clone(t, written)
		}
	})
}

// An unlimited limit passes everything and keeps nothing; one of 0 requests passes
// peeks alone.
func TestNothingAndEverything(t *testing.T) {
	var st stint.State
	everything := stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	for _, cost := range []uint64{0, 1, stint.MaxCost} {
		for _, d := range []stint.Decision{everything.Take(&st, zero, cost), everything.Force(&st, zero, cost), everything.Refund(&st, zero, cost, nil)} {
			if !d.Allowed || d.Remaining != stint.NoLimit || d.Limit != stint.NoLimit || st != (stint.State{}) {
				t.Errorf("unlimited, cost %d: %+v, state %+v", cost, d, st)
			}
		}
	}
	for a := range stint.Unlimited {
		nothing := stint.MustLimit(stint.Spec{Algorithm: a, Per: time.Minute})
		if d := nothing.Take(&st, zero, 0); !d.Allowed || d.Remaining != 0 || d.Limit != 0 {
			t.Errorf("%v, 0 requests, peek: %+v", a, d)
		}
		for _, cost := range []uint64{1, stint.MaxCost} {
			nothing.Force(&st, zero, cost)
			if d := nothing.Take(&st, zero, cost); d.Allowed || d.RetryAfter != stint.Never || st != (stint.State{}) {
				t.Errorf("%v, 0 requests, cost %d: %+v, state %+v", a, cost, d, st)
			}
		}
	}
}
