package sim

import (
	"math/rand/v2"
	"time"

	"stint"
)

// Idle returns a random history, by its seed, that attacks what nodes that decide alone forget.
// Nodes take units of a few keys. Then some nodes get no requests for so long that they start a
// new count of a key or remove it. Meanwhile or afterwards the network splits, or they stand
// still. Then clients request all units, in each part of the network and again after the parts
// are connected.
func Idle(mode Mode, seed uint64) Options {
	r := rand.New(rand.NewPCG(seed, 4))
	i := &idle{r: r}
	i.Options = Options{Mode: mode, Seed: seed, Nodes: pick(r, 2, 2, 2, 3, 4, 5), Keys: pick(r, 1, 1, 2)}
	spec := stint.Spec{Algorithm: stint.TokenBucket, Requests: uint32(pick(r, 50, 100, 300)), Per: time.Second}
	spec.Burst = spec.Requests * uint32(pick(r, 1, 2)) / uint32(pick(r, 1, 5))
	if r.IntN(3) == 0 {
		spec = stint.Spec{Requests: uint32(pick(r, 20, 100)), Per: time.Duration(pick(r, 500, 1000, 3000)) * time.Millisecond, CarryDebt: true}
	}
	i.Limit = stint.MustLimit(spec)
	i.rate = float64(spec.Requests) / spec.Per.Seconds()
	i.Network = Network{Least: time.Duration(r.IntN(1000)) * time.Microsecond, Lost: pick(r, 0, 0, 0.01), Twice: pick(r, 0, 0.3)}
	i.Network.Most = i.Network.Least + time.Duration(pick(r, 1, 5, 30))*time.Millisecond
	i.now = time.Second
	i.phases = pick(r, 1, 2)
	for range i.phases {
		i.idlePhase()
	}
	i.Length = i.now
	i.Demand = func(_ *rand.Rand, ask func(Take)) {
		for _, t := range i.list {
			ask(t)
		}
	}
	return i.Options
}

// idle builds a history.
type idle struct {
	Options
	r      *rand.Rand
	rate   float64 // units per second that may pass
	now    time.Duration
	phases int
	list   []Take
}

// nodesOf returns the nodes of one side; below 0: of both.
func (i *idle) nodesOf(of int) (list []int) {
	for node := range i.Nodes {
		if of < 0 || node%2 == of {
			list = append(list, node)
		}
	}
	return list
}

// idlePhase adds a phase in which one side idles and is cut off.
func (i *idle) idlePhase() {
	var (
		sleepy   = i.r.IntN(2)
		rest     = time.Duration(10_000+i.r.IntN(6000)) * time.Millisecond
		together = time.Duration(pick(i.r, 0, 300, 1500)) * time.Millisecond
		apart    = time.Duration(pick(i.r, 300, 2000, 5000)) * time.Millisecond
		busy     = pick(i.r, 0, 0.7, 1.5) // rate of the other side meanwhile, relative to the limit
	)
	if i.r.IntN(3) == 0 { // so long that gossip nodes remove keys while others are missing
		rest += 65 * time.Second
	}
	i.demand(together, pick(i.r, 0.5, 1.5), i.nodesOf(-1))
	begun := i.now
	switch i.r.IntN(4) {
	case 0: // the rest is before the partition
		i.demand(rest, busy, i.nodesOf(1-sleepy))
		i.Faults = append(i.Faults, Fault{At: i.now, Kind: Split, For: apart, Ways: 2})
	case 1, 2: // the rest is during the partition
		i.demand(rest, busy, i.nodesOf(1-sleepy))
		i.Faults = append(i.Faults, Fault{At: begun, Kind: Split, For: rest + apart, Ways: 2})
	default: // they stand still and return with their old counts
		rest += 10 * time.Second
		for _, node := range i.nodesOf(sleepy) {
			i.Faults = append(i.Faults, Fault{At: begun, Kind: pick(i.r, Stall, Cut), Node: node, For: rest})
		}
		i.demand(rest, busy, i.nodesOf(1-sleepy))
	}
	begun = i.now
	i.demand(apart, pick(i.r, 0.3, 0.8, 3), i.nodesOf(sleepy))
	over := i.now
	i.now = begun
	i.demand(apart, pick(i.r, 0.3, 0.8, 3), i.nodesOf(1-sleepy))
	i.now = over + time.Duration(pick(i.r, 2500, 3500))*time.Millisecond // time until the parts have exchanged their counts
	i.CompareAt = append(i.CompareAt, i.now)
	i.demand(300*time.Millisecond, 3, i.nodesOf(-1))
	i.now += time.Duration(pick(i.r, 0, 500, 8000)) * time.Millisecond
}

// demand sends takes to nodes at a fraction of the rate, all together.
func (i *idle) demand(d time.Duration, part float64, nodes []int) {
	end := i.now + d
	if part > 0 {
		gap := float64(time.Second) / i.rate / part
		for i.now += time.Duration(i.r.ExpFloat64() * gap); i.now < end; i.now += time.Duration(i.r.ExpFloat64() * gap) {
			i.list = append(i.list, Take{At: i.now, Node: pick(i.r, nodes...), Key: i.r.IntN(i.Keys), With: -1, Cost: 1})
		}
	}
	i.now = end
}
