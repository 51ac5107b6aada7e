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
