package sim_test

import (
	"testing"

	"stint/fleet/sim"
	"stint/internal/testkit"
)

// TestIdle: nodes without takes for so long that they drop their keys, or that are cut off or
// frozen meanwhile, come back. No more passes than the bound. After all nodes have met again,
// gossip nodes have nearly all of the total debt, and count nothing as used that was not.
func TestIdle(t *testing.T) {
	testkit.OneGoroutine(t)
	n := max(1, *histories/4)
	if testing.Short() {
		n = max(1, n/20)
	}
	for mode, part := range map[sim.Mode]int{sim.Gossip: 1, sim.Asking: 5, sim.Eventual: 5} {
		n := n / part
		t.Run(mode.String(), func(t *testing.T) {
			var all sum
			each(t, n, func(i int) {
				o := sim.Idle(mode, *first+uint64(i))
				res := sim.Run(o)
				all.add(&res)
				if most := o.Bound(&res); res.Over > most {
					t.Errorf("E %d of %d in the history of seed %d: S %v, %d nodes, %+v, %+v, %+v", res.Over, most, o.Seed, res.Stale, o.Nodes, o.Limit.Spec(), o.Network, o.Faults)
				}
				if most := max(50, o.Limit.Capacity()) + res.Used/5; mode == sim.Gossip && res.Overestimated > most {
					t.Errorf("%d of %d units are imagined in the history of seed %d: %d nodes, %+v, %+v, %+v, looks %v", res.Overestimated, res.Used, o.Seed, o.Nodes, o.Limit.Spec(), o.Network, o.Faults, o.CompareAt)
				}
				all.mu.Lock()
				defer all.mu.Unlock()
				all.Used, all.Underestimated, all.Overestimated = all.Used+res.Used, all.Underestimated+res.Underestimated, all.Overestimated+res.Overestimated
			})
			t.Logf("%d histories from seed %d: %d takes; %d units passed; of %d owed after cuts %d were forgotten and %d imagined; %+v",
				n, *first, all.Asked, all.Admitted, all.Used, all.Underestimated, all.Overestimated, all.Seen)
			if n < 100 {
				return
			}
			if mode == sim.Gossip && (all.Underestimated*8 > all.Used || all.Overestimated*100 > all.Used) {
				t.Errorf("of %d owed %d were forgotten and %d imagined", all.Used, all.Underestimated, all.Overestimated)
			}
			if all.Seen.Idled < n/10 || mode != sim.Eventual && all.Seen.Returned < n/30 {
				t.Errorf("only %d parts idled and %d nodes came back with what others had forgotten", all.Seen.Idled, all.Seen.Returned)
			}
		})
	}
}
