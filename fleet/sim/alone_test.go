package sim_test

import (
	"testing"

	"stint/fleet/sim"
	"stint/internal/testkit"
)

// TestAlone: when nodes decide alone, whatever happens to nodes, messages and clocks, no more
// passes than the bound for the messages and the takes of that history.
func TestAlone(t *testing.T) {
	testkit.OneGoroutine(t)
	n := max(1, *histories/8)
	if testing.Short() {
		n = max(1, n/15)
	}
	for mode, never := range map[sim.Mode][]string{
		sim.Gossip:   {"Jumped", "Emptied", "Forgot", "Away", "Undecodable", "Idled", "Returned"}, // there is no store, and so nobody reads its clock
		sim.Asking:   {"Jumped", "Emptied", "Forgot", "Away", "Undecodable", "Idled", "Returned"},
		sim.Eventual: {"Jumped", "Idled", "Returned"},
	} {
		n := n
		if mode == sim.Asking { // each of its takes is many messages
			n = max(1, n/5)
		}
		t.Run(mode.String(), func(t *testing.T) {
			var all sum
			over, bound := int64(0), int64(0)
			each(t, n, func(i int) {
				seed := *first + uint64(i)
				o := sim.RandomFaults(mode, seed, *takes, int(seed%7))
				res := sim.Run(o)
				all.add(&res)
				most := o.Bound(&res)
				if res.Over > most {
					t.Errorf("E %d of %d in the history of seed %d (-args -sim.seed=%d -sim.histories=1): S %v, %d asked meanwhile, %d nodes, %+v, %+v, %+v",
						res.Over, most, o.Seed, o.Seed, res.Stale, res.Surge, o.Nodes, o.Limit.Spec(), o.Network, o.Faults)
				}
				all.mu.Lock()
				defer all.mu.Unlock()
				over, bound = over+res.Over, bound+most
			})
			t.Logf("%d histories from seed %d: %d takes; %d units passed, %d would have passed one bucket; E %d of %d; %+v",
				n, *first, all.Asked, all.Admitted, all.Central, over, bound, all.Seen)
			if *histories >= 2000 && !testing.Short() {
				atLeast(t, &all.Seen, max(1, n/100), never...)
			}
		})
	}
}
