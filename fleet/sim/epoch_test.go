package sim

import (
	"testing"

	"stint"
)

// Epochs begin when the store is new, forgets, or is another one.
func TestNextEpoch(t *testing.T) {
	old, lost := stint.Epoch{Began: 100}, stint.Epoch{Began: 100, Lost: true}
	for _, step := range []struct {
		name  string
		e     stint.Epoch
		same  bool
		known stint.Instant
		want  stint.Epoch
	}{
		{"nobody knows one", stint.Epoch{}, true, 0, stint.Epoch{Began: 200}},
		{"somebody knows one", stint.Epoch{}, true, 100, stint.Epoch{Began: 200, Lost: true}},
		{"the same", old, true, 100, old},
		{"a new node", old, true, 0, old},
		{"another server", old, false, 0, stint.Epoch{Began: 200, Lost: true}},
		{"began anew before an old node came", old, true, 50, stint.Epoch{Began: 200, Lost: true}},
		{"an old node comes after the loss", lost, true, 50, lost},
		{"the store went back", lost, true, 150, stint.Epoch{Began: 200, Lost: true}},
	} {
		if got := nextEpoch(step.e, 200, step.same, step.known); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
		}
	}
}
