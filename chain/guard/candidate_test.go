package guard

import (
	"context"
	"testing"
	"testing/synctest"

	"stint"
)

// candidate returns a candidate of take number of of a call; below 0: one that depends on no other take.
func candidate(key stint.Key, of int) stint.Take {
	t := allow(key)
	t.Independent, t.Handling = true, &stint.Handling{Candidate: true, InsteadOf: uint32(of + 1)}
	return t
}

// If the state of a candidate cannot be read, or the store decides only a part of its call, the candidate
// alone is not decided.
func TestCandidateThatNobodyDecides(t *testing.T) {
	for name, test := range map[string]struct {
		takes    []stint.Take
		degraded []bool
		allowed  []bool
	}{
		"its state":              {[]stint.Take{deny("good"), candidate("bad", -1)}, []bool{false, true}, []bool{true, true}},
		"its state, beside two":  {[]stint.Take{deny("good"), allow("fine"), candidate("bad", 0)}, []bool{false, false, true}, []bool{true, true, true}},
		"the state of its limit": {[]stint.Take{deny("bad"), allow("good"), candidate("tried", 0)}, []bool{true, false, true}, []bool{false, true, true}},
		"that of another limit":  {[]stint.Take{allow("good"), allow("bad"), candidate("tried", 0)}, []bool{false, true, true}, []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(decider(garbled()), Options{})
				call := stint.Call{Takes: test.takes}
				if err := s.Decide(t.Context(), &call); err != nil {
					t.Fatal(err)
				}
				for i := range call.Results {
					if d := call.Results[i]; d.Degraded != test.degraded[i] || d.Allowed != test.allowed[i] {
						t.Errorf("take %d: %+v", i, d)
					}
				}
			})
		})
	}
}

// decider is a store that is a function.
type decider func(context.Context, *stint.Call) error

// Decide implements stint.Store.
func (f decider) Decide(ctx context.Context, call *stint.Call) error { return f(ctx, call) }
