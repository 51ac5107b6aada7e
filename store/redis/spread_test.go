package redis

import (
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/store/redis/script"
)

// TestDetachGrants: what a call gives back after its caller has gone names the grants that the caller brought,
// also if the caller has used the memory for the next client meanwhile.
func TestDetachGrants(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	grants := []limits.Grant{{ID: "own", Units: 5, Priority: 1, Until: 1 << 50}}
	take := stint.Take{Key: "a", Limit: limit, Cost: 4, Handling: &stint.Handling{Meter: &limits.Meter{Grants: grants}}}
	var s Store
	w := &spread{store: &s, parts: []part{{Form: s.forms.Of(limit), meter: script.NewMeter("n", "n:", &take)}, {Form: s.forms.Of(limit)}}}
	by, _ := w.Detach()
	later := by.(*spread)
	grants[0] = limits.Grant{ID: "another client's", Units: 7, Priority: 1, Until: 1 << 51}
	p := &later.parts[0]
	if args := p.meter.AppendGrants(nil, p.Form, 4, 1, &stint.Decision{}); !slices.Contains(args, "own") || later.parts[1].meter != nil {
		t.Errorf("arguments %q, and a meter %v for a take without", args, later.parts[1].meter)
	}
}
