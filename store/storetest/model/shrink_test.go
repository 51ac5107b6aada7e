package model_test

import (
	"testing"

	"stint"
	"stint/store/storetest/model"
)

// A take that is removed from a failing call leaves nothing that stands for a take that is not there.
func TestWithout(t *testing.T) {
	of := func(n uint32) stint.Take { return stint.Take{Handling: &stint.Handling{Candidate: true, InsteadOf: n}} }
	takes := []stint.Take{{}, {}, {}, of(1), of(2), of(3)}
	left := model.Without(takes, 1)
	for i, want := range []uint32{0, 0, 1, 0, 2} {
		if got := left[i].InsteadOf(); got != want {
			t.Errorf("take %d stands for %d, want %d", i, got, want)
		}
	}
	if takes[5].InsteadOf() != 3 {
		t.Error("the call itself has changed")
	}
}
