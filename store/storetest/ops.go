package storetest

import (
	"testing"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// ops: forced takes leave debts, refunds give back exactly what was taken and never more, resets
// make keys untouched; all of them also as part of a call.
func ops(t *testing.T, o Options) {
	eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
		do := func(op stint.Op, cost uint32, undo *stint.Decision) stint.Decision {
			s.Helper()
			d := s.decide(noon, stint.Take{Key: "a", Limit: limit, Cost: cost, Op: op, Undo: undo})[0]
			if op != stint.Ask && (!d.Allowed || d.RetryAfter != 0) {
				s.Fatalf("op %d was refused: %+v", op, d)
			}
			return d
		}
		left := func(want int64) {
			s.Helper()
			if d := s.peek(noon, "a", limit); d.Remaining != want {
				s.Fatalf("%+v, want %d remaining", d, want)
			}
		}
		do(stint.Refund, 5, nil) // nothing was taken
		left(10)
		first := do(stint.Ask, 3, nil)
		do(stint.Refund, 3, &first)
		left(10)
		do(stint.Force, 4, nil)
		left(6)
		do(stint.Force, 26, nil)
		left(0)
		if d := do(stint.Ask, 1, nil); d.Allowed || d.RetryAfter <= 0 || d.RetryAfter == stint.Never {
			s.Fatalf("in debt: %+v", d)
		} else if again := s.peek(noon.Add(d.RetryAfter), "b", limit); !again.Allowed {
			s.Fatalf("another key: %+v", again)
		}
		do(stint.Refund, 25, nil)
		left(5)
		do(stint.Refund, 4_000_000_000, nil)
		left(10)
		do(stint.Ask, 10, nil)
		do(stint.Reset, 0, nil)
		left(10)
		do(stint.Force, 0, nil)
		do(stint.Refund, 0, nil)
		left(10)
	})
	t.Run("in a call", opsInCall(o))
	t.Run("undo what is gone", undoGone(o))
	t.Run("unlimited", func(t *testing.T) {
		s, limit := start(t, o), stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
		for op := range stint.AskAtMost + 1 {
			d := s.decide(noon, stint.Take{Key: "a", Limit: limit, Cost: stint.MaxCost, Op: op, Undo: new(stint.Decision)})[0]
			if !d.Allowed || d.Limit != stint.NoLimit || d.Remaining != stint.NoLimit {
				t.Errorf("op %d: %+v", op, d)
			}
		}
	})
}

// opsInCall: operations that change keys are done only if the call passes.
func opsInCall(o Options) func(*testing.T) {
	return func(t *testing.T) {
		s, limit := start(t, o), model.Variants(10)[0]
		s.take(noon, "back", limit, 5)
		s.take(noon, "gone", limit, 5)
		call := func(cost uint32) []stint.Decision {
			return s.decide(noon,
				stint.Take{Key: "asked", Limit: limit, Cost: cost},
				stint.Take{Key: "forced", Limit: limit, Cost: 12, Op: stint.Force},
				stint.Take{Key: "back", Limit: limit, Cost: 2, Op: stint.Refund},
				stint.Take{Key: "gone", Limit: limit, Op: stint.Reset})
		}
		for _, step := range []struct {
			cost uint32
			want []int64
		}{{11, []int64{10, 10, 5, 5}}, {4, []int64{6, 0, 7, 10}}} {
			for i, d := range call(step.cost) {
				if d.Allowed != (step.cost < 11 || i > 0) || d.Remaining != step.want[i] {
					t.Fatalf("cost %d, take %d: %+v, want %d remaining", step.cost, i, d, step.want[i])
				}
			}
		}
	}
}

// undoGone: undoing a take whose window or block is over, whose units have been refilled, or behind
// whose place others queue, changes nothing.
func undoGone(o Options) func(*testing.T) {
	return func(t *testing.T) {
		for _, limit := range model.Variants(10) {
			s, later := start(t, o), noon.Add(3*31*24*time.Hour)
			first := s.take(noon, "a", limit, 4)
			second := s.take(later, "a", limit, 4)
			undo := func(d *stint.Decision, want int64) {
				t.Helper()
				got := s.decide(later, stint.Take{Key: "a", Limit: limit, Cost: 4, Op: stint.Refund, Undo: d})[0]
				if got.Remaining != want {
					t.Fatalf("%s: %+v, want %d remaining", model.Name(limit), got, want)
				}
			}
			undo(&first, 6)
			if limit.Algorithm() == stint.LeakyBucket {
				s.take(later, "a", limit, 1)
				undo(&second, 5)
				continue
			}
			undo(&second, 10)
		}
	}
}
