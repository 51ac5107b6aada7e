package gossip_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// A node that lacks the counts of the others takes no units by its own counts, whatever the
// operation. It decides operations that give units back.
func TestAlone(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})
	for op, decides := range map[stint.Op]bool{
		stint.Ask: false, stint.AskAtMost: false, stint.Force: false, stint.Refund: true, stint.Reset: true,
	} {
		s := gossip.New(nil, gossip.StoreOptions{Alone: func() bool { return true }})
		call := stint.Call{Takes: []stint.Take{{Key: "k", Limit: limit, Cost: 3, Op: op}}}
		if err := s.Decide(t.Context(), &call); (err == nil) != decides {
			t.Errorf("operation %d: %v, %+v", op, err, call.Results)
		}
	}
}
