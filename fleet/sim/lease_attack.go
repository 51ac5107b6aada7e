package sim

import (
	"math/rand/v2"
	"time"

	"stint"
)

// AttackLeases returns a random history, by its seed, that attacks leases. Again and again some
// nodes get fewer requests than may pass, so that they hold units while the store is nearly full.
// Then a fault hits them, for about the length of a lease or for a moment. Then clients request
// all units at once, on these nodes and at the store. A unit that was counted twice is then
// admitted twice. Some histories have a second key, which the same calls take from.
func AttackLeases(seed uint64, takes int) Options {
	h := &leaseAttack{r: rand.New(rand.NewPCG(seed, 2))}
	h.Options = Options{Seed: seed, AlwaysBorrow: h.r.IntN(8) > 0, Nodes: pick(h.r, 2, 3, 5, 8, 20), Keys: pick(h.r, 1, 2)}
	spec := stint.Spec{Algorithm: stint.TokenBucket, Per: time.Second}
	spec.Requests = uint32(pick(h.r, 50, 100, 300, 1000))
	spec.Burst = uint32(pick(h.r, 70, 100, 300))
	if h.r.IntN(4) == 0 {
		spec = stint.Spec{Requests: uint32(pick(h.r, 100, 300)), Per: pick(h.r, 500*time.Millisecond, 3*time.Second)}
	}
	h.Limit = stint.MustLimit(spec)
	h.Network = Network{Least: time.Duration(h.r.IntN(1000)) * time.Microsecond}
	h.Network.Most = h.Network.Least + time.Duration(pick(h.r, 0, 1, 5, 30, 200))*time.Millisecond
	h.Network.Timeout = time.Duration(pick(h.r, 10, 300)) * time.Millisecond
	h.Network.Lost, h.Network.Twice = pick(h.r, 0, 0.01, 0.2), pick(h.r, 0, 0.3, 0.9)
	rate := 0.8 * float64(spec.Requests) / spec.Per.Seconds()
	for node := range h.Nodes { // so that all of them notice when the store loses its data
		h.ask(node, 1)
		h.now += time.Millisecond
	}
	for len(h.list) < takes {
		h.warmUp(rate)
		if h.Keys > 1 && h.r.IntN(2) == 0 {
			h.pairs()
		} else {
			h.injectFault()
		}
		h.drain()
	}
	h.Length = h.now
	h.keepClockRunning()
	h.Demand = func(_ *rand.Rand, ask func(Take)) {
		for _, t := range h.list {
			ask(t)
		}
	}
	return h.Options
}

// leaseAttack builds a history.
type leaseAttack struct {
	Options
	r       *rand.Rand
	now     time.Duration
	targets []int // nodes that hold units
	others  []int // other nodes that have asked the store
	list    []Take
}

func (h *leaseAttack) ask(node int, cost int64) {
	h.list = append(h.list, Take{At: h.now, Node: node, With: -1, Cost: uint32(max(1, cost))})
}

// askOther sends a take of the second key.
func (h *leaseAttack) askOther(node int, cost int64) {
	h.ask(node, cost)
	h.list[len(h.list)-1].Key = 1
}

// askBoth sends a take of both keys, all or none.
func (h *leaseAttack) askBoth(node int, cost int64) {
	h.ask(node, cost)
	h.list[len(h.list)-1].With = 1
}

// warmUp sends some nodes takes at a little less than the rate, without pauses or with pauses in
// which they return idle units.
func (h *leaseAttack) warmUp(rate float64) {
	h.targets = h.r.Perm(h.Nodes)[:1+h.r.IntN(min(4, h.Nodes-1))]
	gap := time.Duration(float64(time.Second) / rate)
	pause := time.Duration(pick(h.r, 0, 60, 90)) * time.Millisecond
	next := h.now + 100*time.Millisecond
	for end := h.now + min(time.Duration(pick(h.r, 250, 400, 800))*time.Millisecond, 200*gap); h.now < end; h.now += gap {
		if h.now > next {
			h.now += pause
			next = h.now + 100*time.Millisecond
		}
		h.ask(pick(h.r, h.targets...), 1)
	}
	if h.r.IntN(3) == 0 { // slower, so that they return what they do not need
		for range 20 {
			h.now += 8 * gap
			h.ask(pick(h.r, h.targets...), 1)
		}
	}
}

// injectFault adds a fault of the target nodes.
func (h *leaseAttack) injectFault() {
	long := time.Duration(1800+h.r.IntN(1600)) * time.Millisecond
	short := time.Duration(1+h.r.IntN(pick(h.r, 10, 200))) * time.Millisecond
	fault := func(kind Kind, d time.Duration) {
		for _, node := range h.targets {
			h.Faults = append(h.Faults, Fault{At: h.now, Kind: kind, Node: node, For: d})
		}
	}
	switch h.r.IntN(15) {
	case 0, 1:
		fault(Pause, long)
		h.now += long
	case 2, 3:
		fault(Stall, long)
		fault(Set, -long)
		h.now += long
	case 4:
		fault(Cut, long)
		h.now += long
	case 5:
		fault(Kill, long*time.Duration(h.r.IntN(2)))
		h.now += short
	case 6:
		h.Faults = append(h.Faults, Fault{At: h.now, Kind: pick(h.r, Flush, Switch, Gone), For: short})
		h.now += short
		h.notice()
	case 7:
		fault(Drift, 0)
		for i := range h.targets {
			h.Faults[len(h.Faults)-1-i].Rate = pick(h.r, 0.85, 1.15)
		}
	case 8, 9: // the store loses its data while nodes that hold units do not hear of it
		if len(h.others) == 0 {
			break
		}
		kind := pick(h.r, Cut, Cut, Stall, Pause)
		fault(kind, long)
		h.Faults = append(h.Faults, Fault{At: h.now + short/2, Kind: pick(h.r, Flush, Flush, Switch), For: short})
		h.now += short
		h.notice()
		h.now += min(h.whole()*time.Duration(1+h.r.IntN(4))/4, 1500*time.Millisecond)
	case 10: // what a node reports arrives late
		long = time.Duration(900+h.r.IntN(1800)) * time.Millisecond
		fault(Cut, long)
		for end := h.now + long; h.now < end; h.now += 40 * time.Millisecond {
			for _, node := range h.targets {
				h.ask(node, 1)
			}
		}
	case 11, 12: // units are spent at the end of the lease, and the store takes them for unspent
		fault(Cut, 3200*time.Millisecond)
		if h.r.IntN(2) == 0 {
			fault(Drift, 0)
			for i := range h.targets {
				h.Faults[len(h.Faults)-1-i].Rate = pick(h.r, 0.85, 0.95)
			}
		}
		spend := h.now + time.Duration(1300+h.r.IntN(1000))*time.Millisecond
		written := h.now + stint.LeaseTime + stint.LeaseMargin + time.Duration(h.r.IntN(200))*time.Millisecond
		h.now = spend
		h.spend()
		h.now = max(h.now, written)
	default:
		h.now += short
	}
}

// spend requests all units that the target nodes hold.
func (h *leaseAttack) spend() {
	for range 30 {
		for _, node := range h.targets {
			h.ask(node, pick[int64](h.r, 1, 1, 1, 3, h.Limit.Capacity()/32))
		}
		h.now += time.Duration(h.r.IntN(400)) * time.Microsecond
	}
}

// notice lets nodes call the store that remember what it may have lost.
func (h *leaseAttack) notice() {
	for range 3 {
		if len(h.others) > 0 {
			h.ask(pick(h.r, h.others...), 1)
			h.now += h.Network.Most
		}
	}
}

// whole returns the time until the full limit is available again.
func (h *leaseAttack) whole() time.Duration {
	spec := h.Limit.Spec()
	return time.Duration(float64(h.Limit.Capacity()) / float64(spec.Requests) * float64(spec.Per))
}

// pairs sends takes of both keys to nodes that hold units of the first, while the second is used
// up, so that what was charged is given back. Meanwhile larger takes make the nodes report.
func (h *leaseAttack) pairs() {
	other := h.r.IntN(h.Nodes)
	for cost := h.Limit.Capacity(); cost > 0; cost /= 2 {
		h.askOther(other, cost)
	}
	h.now += time.Duration(h.r.IntN(3)) * time.Millisecond
	for range 40 {
		for _, node := range h.targets {
			h.askBoth(node, pick[int64](h.r, 1, 2, 5))
			if h.r.IntN(4) == 0 {
				h.ask(node, pick(h.r, 1, h.Limit.Capacity()/16, h.Limit.Capacity()/6))
			}
		}
		h.askOther(other, 1)
		h.now += time.Duration(h.r.IntN(3000)) * time.Microsecond
	}
}

// drain requests all units at once, and then lets the bucket fill again.
func (h *leaseAttack) drain() {
	other := h.r.IntN(h.Nodes)
	if len(h.others) > 0 && h.r.IntN(2) == 0 {
		other = pick(h.r, h.others...)
	}
	h.spend()
	for cost := h.Limit.Capacity(); cost > 0; cost /= 2 {
		h.ask(other, cost)
		h.now += time.Duration(h.r.IntN(3)) * time.Millisecond
	}
	for range 5 {
		h.ask(other, 1)
	}
	h.others = append(h.others, other)
	h.now += pick(h.r, 0, h.whole())
}
