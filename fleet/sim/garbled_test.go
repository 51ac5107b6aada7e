package sim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
	"stint/internal/testkit"
)

// TestGarbled: a key whose state the store cannot read for a while takes no other key with it,
// in no mode, and what was let pass of it is told once, also where messages are lost, come
// twice and overtake each other.
func TestGarbled(t *testing.T) {
	testkit.OneGoroutine(t)
	const nodes, keys, length = 5, 8, 20 * time.Second
	seeds := uint64(10)
	if testing.Short() {
		seeds = 2
	}
	for _, mode := range []sim.Mode{sim.Strict, sim.Leased, sim.Eventual} {
		for _, lost := range []float64{0, 0.2} {
			var undecodable int
			for seed := range seeds {
				o := sim.Options{
					Seed: seed, Mode: mode, Nodes: nodes, Keys: keys, Length: length,
					Network: sim.Network{Least: time.Millisecond, Most: 5 * time.Millisecond, Lost: lost, Twice: 0.5},
					Limit:   stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 50, Per: time.Second, Burst: 100}),
					Demand: func(r *rand.Rand, ask func(sim.Take)) {
						for at := time.Duration(0); at < length/2; at += time.Duration(r.ExpFloat64() * float64(2*time.Millisecond)) {
							ask(sim.Take{At: at, Node: r.IntN(nodes), Key: r.IntN(keys), Cost: 1, With: -1})
						}
					},
				}
				if seed%2 == 0 {
					o.Limit = stint.MustLimit(stint.Spec{Requests: 50, Per: time.Second, CarryDebt: mode == sim.Eventual})
				}
				well := sim.Run(o)
				o.Faults = []sim.Fault{{
					At: time.Duration(seed+1) * 200 * time.Millisecond, Kind: sim.Garble, Node: int(seed) % keys,
					For: time.Duration(seed+1) * 400 * time.Millisecond,
				}}
				res := sim.Run(o)
				undecodable += res.Seen.Undecodable
				most := int64(0)
				if mode == sim.Eventual {
					most = o.Bound(&res)
				}
				if res.Unreported > 0 || res.Twice > 0 || res.Over > most {
					t.Errorf("%v, %.0f %% lost, seed %d: %d units were never told and %d twice; E %d of %d", mode, 100*lost, seed, res.Unreported, res.Twice, res.Over, most)
				}
				if u, want := res.Utilisation(), well.Utilisation()-1.2/keys; u < want {
					t.Errorf("%v, %.0f %% lost, seed %d: %.1f %% of one bucket while one key of %d could not be read, want %.1f %% at least", mode, 100*lost, seed, 100*u, keys, 100*want)
				}
			}
			t.Logf("%v, %.0f %% lost: %d calls and messages could not be read in part", mode, 100*lost, undecodable)
			if undecodable < 10*int(seeds) {
				t.Errorf("%v: only %d calls and messages could not be read", mode, undecodable)
			}
		}
	}
}
