package sim_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
	"stint/internal/testkit"
)

// TestOneClockRuns: no random history of leases sets the wall clock of a node back while the node is paused.
func TestOneClockRuns(t *testing.T) {
	var paused, set int
	for seed := range uint64(2000) {
		o := sim.RandomFaults(sim.Leased, seed, 0, 6)
		if seed%3 == 0 && seed < 600 {
			o = sim.AttackLeases(seed, 4000)
		} else if seed%2 == 1 {
			o, _ = sim.Divided(seed, 100, 6)
		}
		for _, pause := range o.Faults {
			if pause.Kind != sim.Pause {
				continue
			}
			paused++
			for _, f := range o.Faults {
				if f.Kind != sim.Set || f.Node%o.Nodes != pause.Node%o.Nodes || f.For > 0 {
					continue
				}
				set++
				if f.At >= pause.At && f.At < pause.At+pause.For {
					t.Errorf("seed %d: %+v while %+v", seed, f, pause)
				}
			}
		}
	}
	if paused < 500 || set < 500 {
		t.Errorf("%d pauses, and %d times a clock that is set back on such a node", paused, set)
	}
}

// TestClocksApart: clocks that differ let nodes of gossip begin windows apart. That shifts what
// counts where: who is ahead begins a window early, and who is behind ends one late, so two
// limits at most pass too much by it, once, however many nodes and windows there are. Of a
// bucket it changes nothing.
func TestClocksApart(t *testing.T) {
	testkit.OneGoroutine(t)
	const nodes = 10
	for _, spec := range []stint.Spec{
		{Requests: 300, Per: time.Second, CarryDebt: true},
		{Requests: 1000, Per: 10 * time.Second, CarryDebt: true},
		{Requests: 1000, Per: time.Minute, CarryDebt: true},
		{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 1000},
	} {
		if testing.Short() && spec.Per != 10*time.Second {
			continue
		}
		length := max(20*time.Second, 4*spec.Per)
		rate := 20 * float64(spec.Requests) / spec.Per.Seconds()
		o := sim.Options{
			Seed: 1, Mode: sim.Gossip, Nodes: nodes, Keys: 1, Length: length, Limit: stint.MustLimit(spec), Demand: steady(nodes, rate, length, 0),
			Network: sim.Network{Least: time.Millisecond, Most: 5 * time.Millisecond},
		}
		right := sim.Run(o)
		for _, apart := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second} {
			o.Clocks = []time.Duration{0, apart, apart / 2, -apart, -apart / 2, apart / 4, apart / 3, -apart / 3}
			res := sim.Run(o)
			most := right.Over
			if spec.Algorithm == stint.FixedWindow {
				most += 2 * o.Limit.Capacity()
			}
			t.Logf("%v %d per %v, clocks up to %v off: E %d, %d with clocks that agree; %d passed, %d; in one bucket %d",
				spec.Algorithm, spec.Requests, spec.Per, apart, res.Over, right.Over, res.Admitted, right.Admitted, res.Central)
			if res.Over > most || res.Unreported > 0 || res.Twice > 0 {
				t.Errorf("%v %d per %v, clocks up to %v off: E %d, want at most %d", spec.Algorithm, spec.Requests, spec.Per, apart, res.Over, most)
			}
		}
	}
}
