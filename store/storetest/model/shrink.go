package model

import (
	"slices"

	"stint"
)

// Without returns takes but number j. What stands for another take still does, and what stands for
// number j becomes a take like others.
func Without(takes []stint.Take, j int) []stint.Take {
	takes = slices.Delete(slices.Clone(takes), j, j+1)
	for i := range takes {
		t := &takes[i]
		switch of := t.InsteadOf(); {
		case of == uint32(j)+1:
			t.Handling = nil
		case of > uint32(j):
			handling := *t.Handling
			handling.InsteadOf--
			t.Handling = &handling
		}
	}
	return takes
}

// Shrink removes calls and takes from a history as long as it still fails.
func Shrink(calls []stint.Call, fails func([]stint.Call) bool) []stint.Call {
	for again := true; again; {
		again = false
		for i := len(calls) - 1; i >= 0; i-- {
			if fewer := slices.Delete(slices.Clone(calls), i, i+1); fails(fewer) {
				calls, again = fewer, true
				continue
			}
			for j := len(calls[i].Takes) - 1; j >= 0 && len(calls[i].Takes) > 1; j-- {
				fewer := slices.Clone(calls)
				fewer[i].Takes = Without(fewer[i].Takes, j)
				if fails(fewer) {
					calls, again = fewer, true
				}
			}
		}
	}
	return calls
}
