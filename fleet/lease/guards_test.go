package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
)

// script is a history of two nodes, written by hand. Node 0 gets units of the first key at second
// one. Times are milliseconds after that.
type script struct {
	sim.Options
	list []sim.Take
}

func newScript(spec stint.Spec) *script {
	const oneWay = 500 * time.Microsecond
	s := &script{Options: sim.Options{
		Seed: 1, Nodes: 2, Limit: stint.MustLimit(spec), Keys: 2, AlwaysBorrow: true,
		Network: sim.Network{Least: oneWay, Most: oneWay, Timeout: 10 * time.Millisecond},
	}}
	s.ask(1, -900, 1) // so that node 1 knows the epoch
	if spec.Requests/uint32(spec.Per/time.Second) < 400 {
		s.take(0, -980, -20, 40)
		s.ask(0, 0, 30) // more than it has, so that it asks for many, and gets 50
	} else {
		s.take(0, -980, -20, 60)
		s.ask(0, 0, 130) // and gets 125
	}
	return s
}

func (s *script) ask(node int, at float64, cost int64) *sim.Take {
	s.list = append(s.list, sim.Take{At: time.Second + time.Duration(at*float64(time.Millisecond)), Node: node, With: -1, Cost: uint32(cost)})
	return &s.list[len(s.list)-1]
}

// take requests single units, at a rate.
func (s *script) take(node int, from, to, rate float64) {
	for at := from; at <= to; at += 1000 / rate {
		s.ask(node, at, 1)
	}
}

// spend requests all units that node 0 may hold.
func (s *script) spend(at float64) {
	for i := range 50 {
		s.ask(0, at+float64(i)/100, 1)
	}
	for i := range 100 {
		s.ask(0, at+0.5+float64(i)/1000, 5)
		s.ask(0, at+0.5+float64(i)/1000, 1)
	}
}

// spendLater lets node 0 stand still from a time on, and then request all that it may hold at once,
// before anything else.
func (s *script) spendLater(from, to float64) {
	s.fault(sim.Stall, from, to)
	s.spend(from + 0.1)
}

// drain requests all units that the store may have, on node 1.
func (s *script) drain(at float64) {
	for cost := s.Limit.Capacity(); cost > 0; cost /= 2 {
		s.ask(1, at, cost)
		s.ask(1, at, cost)
	}
}

func (s *script) fault(kind sim.Kind, from, to float64) *sim.Fault {
	s.Faults = append(s.Faults, sim.Fault{Kind: kind, At: time.Second + time.Duration(from*float64(time.Millisecond)), For: time.Duration((to - from) * float64(time.Millisecond))})
	return &s.Faults[len(s.Faults)-1]
}

// TestGuards: histories that pass too much if one guard of the proof is missing, at the moment at
// which it counts. TestGuardsRemoved removes the guards.
func TestGuards(t *testing.T) {
	slow := stint.Spec{Algorithm: stint.TokenBucket, Requests: 40, Per: time.Second, Burst: 400}
	fast := stint.Spec{Algorithm: stint.TokenBucket, Requests: 400, Per: time.Second, Burst: 1000}
	faster := stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000}
	window := stint.Spec{Requests: 400, Per: 3 * time.Second}
	for _, test := range []struct {
		name  string
		spec  stint.Spec
		write func(s *script)
	}{
		{"units are spent while the store has them lent", slow, func(s *script) {
			s.drain(1500)
			s.spendLater(3, 1502)
		}},
		{"units are spent shortly before the end of the lease", slow, func(s *script) {
			s.fault(sim.Cut, 3, 9000)
			s.spendLater(3, 1850)
			s.drain(2520)
		}},
		{"a slow clock spends units after the lease", slow, func(s *script) {
			s.fault(sim.Drift, -990, 0).Rate = 0.85
			s.fault(sim.Cut, 3, 9000)
			s.spendLater(3, 2600)
			s.drain(2590)
		}},
		{"a machine sleeps for longer than the lease", slow, func(s *script) {
			s.fault(sim.Pause, 3, 3100)
			s.spend(3.1)
			s.drain(3099)
		}},
		{"the wall clock is set back while a node stands still", slow, func(s *script) {
			s.spendLater(3, 3100)
			s.fault(sim.Set, 3003, 3)
			s.drain(3099)
		}},
		{"an answer is late", slow, func(s *script) {
			s.Network.Timeout = 5 * time.Second
			s.fault(sim.Stall, 0.2, 2600)
			s.spend(1.1)
			s.drain(2590)
		}},
		{"a request is repeated", slow, func(s *script) {
			s.fault(sim.Cut, 0.7, 1480)
			s.take(0, 20, 1540, 40)
			s.spendLater(1550, 2600)
			s.drain(2595)
		}},
		{"a whole machine stands still after it repeated a request", slow, func(s *script) {
			s.fault(sim.Cut, 0.7, 1480)
			s.take(0, 20, 1540, 40)
			s.fault(sim.Pause, 1550, 2600)
			s.fault(sim.Set, 2600, 1550)
			s.spend(1550.1)
			s.drain(2595)
		}},
		{"a node holds units that the store forgot", faster, func(s *script) {
			s.fault(sim.Flush, 10, 10)
			s.ask(1, 12, 1)
			s.spendLater(3, 1600)
			s.drain(1595)
		}},
		{"the store forgets what was used", slow, func(s *script) {
			s.ask(1, 5, 300)
			s.fault(sim.Flush, 10, 10)
			s.drain(20)
		}},
		{"a replica forgets what was used", slow, func(s *script) {
			s.ask(1, 5, 300)
			s.fault(sim.Switch, 10, 18)
			s.drain(20)
		}},
		{"the store forgets what was used of a window", window, func(s *script) {
			s.ask(1, 5, 300)
			s.fault(sim.Flush, 10, 10)
			s.drain(20)
		}},
		{"a node renews units that the store forgot", faster, func(s *script) {
			s.fault(sim.Flush, 10, 10)
			s.ask(1, 12, 1)
			s.take(0, 20, 1540, 48)
			s.spendLater(1550, 2900)
			s.drain(2895)
		}},
		{"a node renews units after the store wrote them off", fast, func(s *script) {
			s.fault(sim.Cut, 1300, 2550)
			s.take(0, 20, 2570, 48)
			s.spendLater(2580, 2900)
			s.drain(2895)
		}},
		{"units of a window come back in the next", window, func(s *script) {
			s.fault(sim.Cut, 1950, 2050)
			s.take(0, 20, 1990, 40)
			s.drain(2001)
			s.drain(2100)
			s.drain(2500)
		}},
		{"units of a window are spent in the next", window, func(s *script) {
			s.take(0, 20, 1890, 40)
			s.ask(0, 1900, 60)
			s.fault(sim.Cut, 1903, 9000)
			s.spendLater(1903, 2020)
			s.drain(2001)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript(test.spec)
			test.write(s)
			for _, take := range s.list {
				s.Length = max(s.Length, take.At)
			}
			s.Demand = func(_ *rand.Rand, ask func(sim.Take)) {
				for _, take := range s.list {
					ask(take)
				}
			}
			for seed := range uint64(4) { // the nodes tick at other times
				s.Seed = seed + 1
				res := sim.Run(s.Options)
				if res.Over > 0 || res.Local == 0 || res.UnseenLosses > 0 {
					t.Errorf("seed %d: E %d, %d takes decided by nodes, %d losses that no node saw", s.Seed, res.Over, res.Local, res.UnseenLosses)
				}
			}
		})
	}
}
