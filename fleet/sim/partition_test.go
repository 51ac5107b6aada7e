package sim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
	"stint/internal/testkit"
)

// TestStale measures S: for nodes that report to each other, an interval and a message; for nodes
// that report to the store, an interval until the store has the report and one more until the other
// node asks, and both exchanges. Lost messages make it longer.
func TestStale(t *testing.T) {
	testkit.OneGoroutine(t)
	const nodes, length, interval = 10, 20 * time.Second, 100 * time.Millisecond
	network := sim.Network{Least: time.Millisecond, Most: 5 * time.Millisecond}
	for _, row := range []struct {
		mode sim.Mode
		lost float64
		most time.Duration
	}{
		{sim.Gossip, 0, interval + network.Most},
		{sim.Gossip, 0.01, 15 * interval},
		{sim.Gossip, 0.2, 60 * interval},
		{sim.Eventual, 0, 2*interval + 4*network.Most},
		{sim.Eventual, 0.01, 5 * interval},
		{sim.Eventual, 0.2, 10 * interval},
	} {
		o := sim.Options{
			Seed: 1, Mode: row.mode, Nodes: nodes, Keys: 1, Length: length, Interval: interval, Network: network,
			Limit:  stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 100}),
			Demand: steady(nodes, 1500, length/2, 0),
		}
		o.Network.Lost, o.Network.Twice = row.lost, 0.5
		res := sim.Run(o)
		t.Logf("%v, %.0f %% lost: S %v, E %d of %d, %.1f %% of one bucket", row.mode, 100*row.lost, res.Stale, res.Over, o.Bound(&res), 100*res.Utilisation())
		if res.Unreported > 0 || res.Twice > 0 {
			t.Errorf("%v, %.0f %% lost: %d units were never told and %d twice", row.mode, 100*row.lost, res.Unreported, res.Twice)
		}
		if res.Stale > row.most || res.Stale < interval/2 || res.Over > o.Bound(&res) || res.Utilisation() < 0.97 {
			t.Errorf("%v, %.0f %% lost: S %v, want at most %v; E %d of %d; %.1f %% of one bucket", row.mode, 100*row.lost, res.Stale, row.most, res.Over, o.Bound(&res), 100*res.Utilisation())
		}
	}
}

// TestSplit: a network that falls into k parts lets pass k-1 bursts more, and k-1 times the
// rate for as long; and when it is whole again nothing is forgotten: what passed too much is
// paid back before anything else passes.
func TestSplit(t *testing.T) {
	testkit.OneGoroutine(t)
	const length, at, apart = 14 * time.Second, 2 * time.Second, 3 * time.Second
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 200, Per: time.Second, Burst: 500})
	for _, ways := range []int64{2, 3, 5} {
		o := sim.Options{
			Seed: 1, Mode: sim.Gossip, Nodes: 10, Keys: 1, Length: length, Limit: limit,
			Network: sim.Network{Least: time.Millisecond, Most: 3 * time.Millisecond},
			Demand: func(r *rand.Rand, ask func(sim.Take)) { // all have met, then there is a flood
				steady(10, 50, at, 0)(r, ask)
				steady(10, 3000, length-at, 0)(r, func(t sim.Take) { t.At += at; ask(t) })
			},
		}
		spread := sim.Run(o).Over // what passes too much because news take their time
		o.Faults = []sim.Fault{{At: at, Kind: sim.Split, For: apart, Ways: int(ways)}}
		res := sim.Run(o)
		part := int64(500 + apart.Seconds()*200)
		least, most := (ways-1)*part*9/10, (ways-1)*part+ways*spread
		central := int64((length-at).Seconds()*200) + 500 + 100
		all := max(central, ways*part+100) + ways*spread
		t.Logf("%d parts for %v: E %d of %d (%d without); %d passed in all, %d in one bucket", ways, apart, res.Over, most, spread, res.Admitted, central)
		if res.Over > most || res.Over < least {
			t.Errorf("%d parts: E %d, want %d to %d", ways, res.Over, least, most)
		}
		if res.Admitted > all {
			t.Errorf("%d parts: %d units passed in all, want at most %d: the debt was forgotten", ways, res.Admitted, all)
		}
	}
}

// TestStoreAway: while the store is away nodes decide alone for three intervals, and then by the
// rule's failure policy, which is deny here.
func TestStoreAway(t *testing.T) {
	const length, nodes = 10 * time.Second, 4
	o := sim.Options{
		Seed: 1, Mode: sim.Eventual, Nodes: nodes, Keys: 1, Length: length, Demand: steady(nodes, 4000, length, 0),
		Limit:   stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 100}),
		Network: sim.Network{Least: time.Millisecond, Most: 3 * time.Millisecond},
		Faults:  []sim.Fault{{At: time.Second, Kind: sim.Gone, For: 8 * time.Second}},
	}
	res := sim.Run(o)
	there := int64(2*1000 + 100)
	alone := int64(nodes * 450) // each with the whole rate, for three intervals and the one under way
	t.Logf("%d units passed while the store was there for 2 s and away for 8", res.Admitted)
	if res.Admitted < 2000 || res.Admitted > there+alone || res.Over > o.Bound(&res) {
		t.Errorf("%d units passed, want %d at most; E %d of %d", res.Admitted, there+alone, res.Over, o.Bound(&res))
	}
}
