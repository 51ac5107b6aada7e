package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/storetest/model"
)

// TestHistoriesMix: one history can contain everything in which stores and model once differed:
// changed numbers of a key, clocks that leap both ways, Independent takes, costs up to the limit
// and beyond, refunds under other numbers, takes that borrow.
func TestHistoriesMix(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	histories, together := 400, 0
	apart := map[string]int{}
	for range histories {
		has := mix(t, model.NewHistory(r, noon, false))
		whole := true
		for what, there := range has {
			whole = whole && there
			if there {
				apart[what]++
			}
		}
		if whole {
			together++
		}
	}
	t.Logf("%d of %d histories have all of it: %v", together, histories, apart)
	if together < histories/10 {
		t.Errorf("%d of %d histories have all of it, want %d; %v", together, histories, histories/10, apart)
	}
}

// mix returns what a history of a hundred calls contains.
func mix(t *testing.T, h *model.History) map[string]bool {
	t.Helper()
	has := map[string]bool{
		"changed numbers": false, "a leap ahead": false, "a leap back": false, "a step back": false, "apart": false, "together": false,
		"half a limit": false, "all of a limit": false, "more than a limit": false, "given back under other numbers": false, "borrows": false,
		"a candidate beside a denial": false, "a candidate whose limit denies": false,
	}
	note := func(what string, there bool) { has[what] = has[what] || there }
	model, known, last := tester{t, new(model.Store)}, map[transaction.ID]*stint.Limit{}, h.At
	for range 100 {
		call := h.Next(true)
		moved := call.At.Sub(last)
		last = call.At
		note("a leap ahead", moved > time.Hour+4*time.Minute)
		note("a leap back", moved < -time.Hour-4*time.Minute)
		note("a step back", moved < 0 && moved > -time.Hour)
		note("together", len(call.Takes) > 1 && !slices.ContainsFunc(call.Takes, func(t stint.Take) bool { return t.Independent }))
		for i := range call.Takes {
			take := &call.Takes[i]
			if take.Limit.Algorithm() == stint.Unlimited {
				continue
			}
			b := transaction.IDOf(take)
			before, cost, most := known[b], int64(take.Cost), take.Limit.Capacity()
			known[b] = take.Limit
			note("changed numbers", before != nil && before != take.Limit)
			note("apart", take.Independent)
			note("borrows", take.Borrows > 0)
			note("half a limit", most > 20 && cost == most/2)
			note("all of a limit", most > 3 && cost == most)
			note("more than a limit", most > 3 && cost == most+1)
			note("given back under other numbers", take.Undo != nil && before != nil && before != take.Limit)
		}
		if answer, err := ask(model, call); err == nil {
			h.Remember(call, answer)
			for i := range call.Takes {
				if of := call.Takes[i].InsteadOf(); of > 0 {
					beside := transaction.DeniedBeside(&stint.Call{Takes: call.Takes, Results: answer}, i)
					note("a candidate beside a denial", beside)
					note("a candidate whose limit denies", !beside && answer[i].Allowed && !answer[of-1].Allowed)
				}
			}
		}
	}
	return has
}
