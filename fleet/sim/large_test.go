package sim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
)

// TestLarge: of limits of many millions, such as bytes, nodes hold millions each: none of them
// is lost, and none passes twice.
func TestLarge(t *testing.T) {
	const nodes, length, last = 3, 8 * time.Second, 2 * time.Second
	for _, spec := range []stint.Spec{
		{Requests: 100_000_000}, {Requests: 4_000_000_000}, {Algorithm: stint.TokenBucket, Requests: 100_000_000, Burst: 100_000_000},
	} {
		spec.Per = time.Hour
		o := sim.Options{
			Seed: 1, Nodes: nodes, Limit: stint.MustLimit(spec), Keys: 1, Length: length,
			Network: sim.Network{Least: time.Millisecond, Most: 3 * time.Millisecond},
			Demand: func(r *rand.Rand, ask func(sim.Take)) { // twice the limit, then the rest, by ever smaller takes
				for at := time.Duration(0); at < length-last; at += time.Millisecond {
					ask(sim.Take{At: at, Node: r.IntN(nodes), Cost: 1 + r.Uint32N(spec.Requests/1500), With: -1})
				}
				for at := length - last; at < length; at += 5 * time.Millisecond {
					for node := range nodes {
						ask(sim.Take{At: at, Node: node, Cost: 1 << (26 * (length - at) / last), With: -1})
					}
				}
			},
		}
		t.Run(fmt.Sprint(spec.Requests, " ", spec.Algorithm), func(t *testing.T) {
			res := sim.Run(o)
			t.Logf("%d of %d passed, E %d; %.2f %% left the node", res.Admitted, res.Central, res.Over, 100*res.StoreShare())
			least := res.Central
			if spec.Burst > 0 { // what refilled since the last asks of the nodes is left
				least -= nodes * int64(stint.LeasePause) * int64(spec.Requests) / int64(spec.Per)
			}
			if res.Over > 0 || res.Admitted < least {
				t.Errorf("%d of %d passed, want %d at least; E %d", res.Admitted, res.Central, least, res.Over)
			}
		})
	}
}
