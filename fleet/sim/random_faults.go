package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"stint"
)

// RandomFaults returns a random history that depends on the seed only: nodes, a limit, a network,
// clients that request more than may pass, about so many takes, and so many faults.
func RandomFaults(mode Mode, seed uint64, takes int, faults int) Options {
	r := rand.New(rand.NewPCG(seed, 1))
	o := Options{
		Mode: mode, Seed: seed, Nodes: pick(r, 2, 2, 3, 5, 8, 13, 20, 50, 100), Keys: pick(r, 1, 1, 1, 2, 3),
		Length: time.Duration(pick(r, 1, 3, 10, 30)) * time.Second,
	}
	spec := stint.Spec{Algorithm: stint.TokenBucket, Per: time.Second}
	spec.Requests = uint32(pick(r, 1, 10, 100, 300, 1000))
	spec.Burst = uint32(pick(r, 8, 20, 100, 300, 1000))
	if r.IntN(4) == 0 {
		spec = stint.Spec{Requests: uint32(pick(r, 10, 100, 1000)), Per: time.Duration(pick(r, 100, 1000, 7000)) * time.Millisecond}
	}
	spec.CarryDebt = mode.alone() && spec.Algorithm == stint.FixedWindow
	o.Limit = stint.MustLimit(spec)
	o.Network = Network{Least: time.Duration(r.IntN(1000)) * time.Microsecond}
	o.Network.Most = o.Network.Least + time.Duration(pick(r, 0, 1, 5, 30))*time.Millisecond
	o.Network.Lost, o.Network.Twice = pick(r, 0, 0, 0.01, 0.2), pick(r, 0, 0.05, 0.3)
	if mode == Asking { // each take is a message to all other nodes
		o.Nodes = min(o.Nodes, 13)
	}
	if mode == Gossip { // messages grow with the square of the number of nodes
		o.Length = min(o.Length, 100*time.Second/time.Duration(o.Nodes))
	}
	o.Demand = func(r *rand.Rand, ask func(Take)) { adversary(&o, r, takes, ask) }
	for range faults {
		o.Faults = append(o.Faults, o.fault(r))
	}
	o.keepClockRunning()
	return o
}

// keepClockRunning removes the faults that set the wall clock of a node back while the node is paused. Otherwise both
// clocks of the node would stand still, and then E = 0 is not promised.
func (o *Options) keepClockRunning() {
	faults := slices.Clone(o.Faults)
	o.Faults = slices.DeleteFunc(o.Faults, func(set Fault) bool {
		return set.Kind == Set && set.For < 0 && slices.ContainsFunc(faults, func(f Fault) bool {
			return f.Kind == Pause && f.Node%o.Nodes == set.Node%o.Nodes && f.At <= set.At && set.At < f.At+f.For
		})
	})
}

// fault returns a random fault that the bound must withstand: any except jumps of the store's
// clock. In modes without a store it returns none of the store or the wall clock.
func (o *Options) fault(r *rand.Rand) Fault {
	kinds := []Kind{Cut, Pause, Stall, Kill, Set, Drift, Flush, Switch, Gone, Split, Garble}
	switch o.Mode {
	case Gossip, Asking:
		kinds = []Kind{Cut, Stall, Kill, Split, Pause, Drift}
	case Eventual:
		kinds = []Kind{Cut, Stall, Kill, Split, Gone, Flush, Switch, Garble, Pause, Drift}
	}
	if o.Mode.alone() && o.Limit.Algorithm() == stint.FixedWindow { // nodes with other clocks have other windows
		kinds = kinds[:len(kinds)-2]
	}
	f := Fault{At: time.Duration(r.Int64N(int64(o.Length))), Kind: pick(r, kinds...), Node: r.IntN(o.Nodes)}
	f.For = time.Duration(pick(r, 5, 50, 500, 3000, 8000)) * time.Millisecond
	f.Rate = pick(r, 0.9, 0.99, 1.01, 1.1)
	if f.Kind == Set && r.IntN(2) == 0 {
		f.For = -f.For
	}
	f.Ways = pick(r, 2, 2, 3, 5)
	switch f.Kind {
	case Switch:
		f.For = min(f.For, maxLag)
	case Gone:
		f.For = min(f.For, 500*time.Millisecond)
	case Kill:
		f.For *= time.Duration(r.IntN(2)) // half of them start again at once
	}
	return f
}

// adversary sends takes in waves: to all nodes at once or to one after the other, single ones and
// floods, with pauses in which buckets fill up and leases end.
func adversary(o *Options, r *rand.Rand, takes int, ask func(Take)) {
	at, node := time.Duration(0), 0
	spread, gap := false, time.Duration(0)
	for i := range takes {
		if i%50 == 0 {
			spread = r.IntN(3) == 0
			gap = time.Duration(r.Int64N(int64(o.Length)/int64(takes)*pick[int64](r, 1, 1, 2)) + 1)
			at += time.Duration(pick(r, 0, 0, 1, 20, 200, 1000)) * time.Millisecond * time.Duration(r.IntN(2))
			node = r.IntN(o.Nodes)
		}
		if spread {
			node = r.IntN(o.Nodes)
		}
		if at >= o.Length {
			at = time.Duration(r.Int64N(int64(o.Length)))
		}
		t := Take{At: at, Node: node, Key: r.IntN(o.Keys), With: -1, Cost: 1}
		switch r.IntN(30) {
		case 0:
			t.Cost = 1 + r.Uint32N(uint32(o.Limit.Capacity()))
		case 1, 2:
			t.Cost = 1 + r.Uint32N(5)
		case 3:
			t.With = r.IntN(o.Keys)
		case 4:
			t.Cost = 0
		}
		ask(t)
		at += gap
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// Divided returns a history in which each node has a share of the limit, the largest allowed
// number of nodes run, and some are cut off for their whole life. It also returns how many units
// more than the limit may pass in a window: shares are counted by the nodes' clocks, so a fast
// clock gives out more, and nothing else does.
func Divided(seed uint64, takes int, faults int) (o Options, fast int64) {
	r := rand.New(rand.NewPCG(seed, 3))
	if seed%3 == 0 {
		o = AttackLeases(seed, takes)
	} else {
		o = RandomFaults(Leased, seed, takes, faults)
		o.Nodes = pick(r, 2, 3, 5, 8, 13)
		spec := o.Limit.Spec()
		spec.Requests = max(spec.Requests, uint32(pick(r, 50, 100, 300)))
		if spec.Algorithm == stint.TokenBucket {
			spec.Burst = max(spec.Burst, uint32(pick(r, 50, 100, 300)))
		}
		o.Limit = stint.MustLimit(spec)
		o.Demand = func(r *rand.Rand, ask func(Take)) { adversary(&o, r, takes, ask) }
	}
	spec, parts := o.Limit.Spec(), uint32(o.Nodes)*uint32(pick(r, 2, 4, 10))
	spec.Requests = max(1, spec.Requests/parts)
	if spec.Algorithm == stint.TokenBucket {
		spec.Burst = max(1, spec.Burst/parts)
	}
	o.keepClockRunning() // of fewer nodes
	if o.Share = stint.MustLimit(spec); o.Share.Capacity()*int64(o.Nodes) >= o.Limit.Capacity() {
		o.Share = nil
		return o, 0
	}
	for range pick(r, 0, 1, o.Nodes) {
		o.Faults = append(o.Faults, Fault{At: time.Duration(r.Int64N(int64(o.Length))), Kind: Cut, Node: r.IntN(o.Nodes), For: o.Length})
	}
	for _, f := range o.Faults {
		switch {
		case f.Kind != Drift || f.Rate <= 1:
		case spec.Algorithm == stint.FixedWindow:
			fast += o.Share.Capacity()
		default:
			fast += 1 + int64((f.Rate-1)*float64(spec.Requests)*float64(o.Length)/float64(spec.Per))
		}
	}
	return o, fast
}
