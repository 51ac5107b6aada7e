package sim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
)

// TestEdge is the worst case for nodes that decide alone: each spends as much as possible before it
// receives any count: for a bucket the burst and the refill, for windows one limit on either side
// of an edge. That is the bound, and the test nearly reaches it.
func TestEdge(t *testing.T) {
	const nodes = 10
	for _, mode := range []sim.Mode{sim.Gossip, sim.Eventual} {
		for _, limit := range []*stint.Limit{
			stint.MustLimit(stint.Spec{Requests: 100, Per: time.Second, CarryDebt: true}),
			stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100}),
		} {
			o := sim.Options{
				Seed: 1, Mode: mode, Nodes: nodes, Keys: 1, Length: 4 * time.Second, Limit: limit,
				Network: sim.Network{Least: time.Millisecond, Most: 3 * time.Millisecond},
				Demand: func(_ *rand.Rand, ask func(sim.Take)) { // all know the key; then all want all of it
					for node := range nodes {
						ask(sim.Take{At: time.Duration(node+1) * time.Millisecond, Node: node, With: -1})
						for i := range 400 {
							at := 3*time.Second + time.Duration(i-200)*100*time.Microsecond
							ask(sim.Take{At: at, Node: node, With: -1, Cost: 1})
						}
					}
				},
			}
			res := sim.Run(o)
			most := o.Bound(&res)
			t.Logf("%v, %v: E %d of %d, S %v", mode, limit.Algorithm(), res.Over, most, res.Stale)
			if res.Over > most || res.Over < most/2 {
				t.Errorf("%v, %v: E %d, want at most %d, and at least half of it", mode, limit.Algorithm(), res.Over, most)
			}
		}
	}
}
