package stint_test

import (
	"errors"
	"testing"
	"time"

	"stint"
)

// A take of at most n is a take of the largest cost up to n that passes, in every field. If not even
// 1 unit passes it is a denied take of 1.
func TestTakeAtMost(t *testing.T) {
	only := func(s stint.Spec) bool { return !s.Overdraw }
	eachHistory(t, only, func(t *testing.T, h *history) {
		var st stint.State
		for _, try := range h.tries {
			most, fits := try.cost, uint64(0)
			for n := min(most, uint64(h.limit.Capacity())); n > 0 && fits == 0; n-- {
				if h.limit.Test(&st, try.at, n).Allowed {
					fits = n
				}
			}
			want := h.limit.Take(clone(t, &st), try.at, max(fits, min(most, 1)))
			want.Charged = uint32(fits)
			if got := h.limit.TakeAtMost(&st, try.at, most); got != want || got.Allowed != (fits > 0 || most == 0) {
				t.Fatalf("%+v:\n got %+v\nwant %+v", try, got, want)
			}
		}
	})
}

// An unlimited limit is charged all of it.
func TestTakeAtMostUnlimited(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	if d := limit.TakeAtMost(new(stint.State), zero, stint.MaxCost); !d.Allowed || d.Charged != stint.MaxCost {
		t.Errorf("%+v", d)
	}
}

// A limit that overdraws is debited whatever is there, so nothing can be taken from it at most.
func TestCheckAtMost(t *testing.T) {
	overdraws := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Minute, Overdraw: true})
	plain := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Minute})
	take := func(limit *stint.Limit, borrows uint8) stint.Take {
		return stint.Take{Key: "a", Limit: limit, Cost: 3, Op: stint.AskAtMost, Borrows: borrows}
	}
	source := take(plain, 0)
	source.Op = stint.Ask
	for name, test := range map[string]struct {
		takes []stint.Take
		want  error
	}{
		"plain":       {[]stint.Take{take(plain, 0)}, nil},
		"overdraws":   {[]stint.Take{take(overdraws, 0)}, stint.ErrAtMost},
		"no limit":    {[]stint.Take{take(nil, 0)}, stint.ErrNoLimit},
		"borrows":     {[]stint.Take{take(plain, 1), source}, stint.ErrSource},
		"is a source": {[]stint.Take{{Key: "b", Limit: plain, Cost: 3, Borrows: 1}, take(plain, 0)}, stint.ErrSource},
	} {
		call := stint.Call{Takes: test.takes}
		if err := call.Check(); !errors.Is(err, test.want) || test.want != nil && !errors.Is(err, stint.ErrWrongCall) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// The combined decision of a call has the smallest number of units that a take was charged.
func TestCombineCharged(t *testing.T) {
	charged := func(n ...uint32) (list []stint.Decision) {
		for _, n := range n {
			list = append(list, stint.Decision{Allowed: true, Remaining: int64(n), Charged: n})
		}
		return list
	}
	for _, test := range []struct {
		results []stint.Decision
		want    uint32
	}{
		{charged(3), 3},
		{charged(0, 4, 3, 7), 3}, // 0: another operation
		{append(charged(3), stint.Decision{}), 0},
	} {
		if d, _ := stint.Combine(test.results); d.Charged != test.want {
			t.Errorf("%+v: %d charged, want %d", test.results, d.Charged, test.want)
		}
	}
}
