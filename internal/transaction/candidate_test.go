package transaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/memory"
)

var tenAnHour = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})

func candidateOf(key stint.Key, of int) stint.Take {
	return stint.Take{Key: key, Limit: tenAnHour, Cost: 4, Independent: true, Handling: &stint.Handling{Candidate: true, InsteadOf: uint32(of + 1)}}
}

// Apart decides a call like a store that decides all of it at once.
func TestApart(t *testing.T) {
	at := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	parts, whole := memory.New(memory.Options{}), memory.New(memory.Options{})
	a, b := stint.Take{Key: "a", Limit: tenAnHour, Cost: 6}, stint.Take{Key: "b", Limit: tenAnHour, Cost: 4}
	calls := [][]stint.Take{
		{a, b, candidateOf("c", 0)}, {a, b, candidateOf("c", 0)}, // a denies the second, and its candidate is charged
		{a, b, candidateOf("d", 1)}, // not that of b
		{b, candidateOf("c", 0), candidateOf("d", 0)}, {b, candidateOf("e", 0), b}, {a, a, b, candidateOf("f", 1)},
	}
	for i, takes := range calls {
		one, other := stint.Call{At: at, Takes: takes}, stint.Call{At: at, Takes: takes}
		divided := 0
		err := transaction.Apart(context.Background(), &one, func(ctx context.Context, part *stint.Call) error {
			divided++
			if transaction.Depends(part) {
				t.Errorf("call %d: a part has a candidate that depends on others", i)
			}
			return parts.Decide(ctx, part)
		})
		if wholeErr := whole.Decide(context.Background(), &other); err != nil || wholeErr != nil || divided != 2 {
			t.Fatalf("call %d: %v in %d parts, %v", i, err, divided, wholeErr)
		}
		for n := range takes {
			if one.Results[n] != other.Results[n] {
				t.Errorf("call %d: take %d: %+v in parts, %+v at once", i, n, one.Results[n], other.Results[n])
			}
		}
	}
}

// An unlimited limit is answered without a store, as if the candidate was charged.
func TestUncharged(t *testing.T) {
	take := stint.Take{Key: "a", Limit: stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}), Cost: 4, Op: stint.AskAtMost}
	d := stint.Decision{Allowed: true, Charged: 4, Limit: stint.NoLimit, Remaining: stint.NoLimit}
	if transaction.Uncharged(&take, &d); !d.Allowed || d.Charged != 0 {
		t.Errorf("%+v, want it allowed and nothing charged", d)
	}
}

// An error about the candidates fails nothing else, and one about the others is that of the call.
func TestApartWithErrors(t *testing.T) {
	failed := errors.New("failed")
	for _, at := range []int{1, 2} {
		calls := 0
		call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: tenAnHour, Cost: 1}, {Key: "b", Limit: tenAnHour, Cost: 1}, candidateOf("c", 0)}}
		err := transaction.Apart(context.Background(), &call, func(ctx context.Context, part *stint.Call) error {
			if calls++; calls == at {
				return failed
			}
			return memory.New(memory.Options{}).Decide(ctx, part)
		})
		switch at {
		case 1:
			if !errors.Is(err, failed) || calls != 1 {
				t.Errorf("%v after %d calls", err, calls)
			}
		default:
			if d := call.Results[2]; err != nil || !call.Results[0].Allowed || !d.Degraded || !d.Allowed {
				t.Errorf("%v, %+v", err, call.Results)
			}
		}
	}
}
