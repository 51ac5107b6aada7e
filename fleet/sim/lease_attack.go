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
// admitted twice.
func AttackLeases(seed uint64, takes int) Options {
	h := &leaseAttack{r: rand.New(rand.NewPCG(seed, 2))}
	h.Options = Options{Seed: seed, Nodes: pick(h.r, 2, 3, 5, 8, 20), Keys: 1}
	spec := stint.Spec{Algorithm: stint.TokenBucket, Per: time.Second}
	spec.Requests = uint32(pick(h.r, 100, 300, 1000))
	spec.Burst = uint32(pick(h.r, 20, 100, 300))
	if h.r.IntN(6) == 0 {
		spec = stint.Spec{Requests: uint32(pick(h.r, 100, 300)), Per: pick(h.r, 500*time.Millisecond, 3*time.Second)}
	}
	h.Limit = stint.MustLimit(spec)
	h.Network = Network{Least: time.Duration(h.r.IntN(1000)) * time.Microsecond}
	h.Network.Most = h.Network.Least + time.Duration(pick(h.r, 0, 1, 5, 30, 200))*time.Millisecond
	h.Network.Timeout = time.Duration(pick(h.r, 10, 300)) * time.Millisecond
	h.Network.Lost, h.Network.Twice = pick(h.r, 0, 0.01, 0.2), pick(h.r, 0, 0.3, 0.9)
	rate := 0.8 * float64(spec.Requests) / spec.Per.Seconds()
	for len(h.list) < takes {
		h.warmUp(rate)
		h.injectFault()
		h.drain()
	}
	h.Length = h.now
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
	list    []Take
}

func (h *leaseAttack) ask(node int, cost int64) {
	h.list = append(h.list, Take{At: h.now, Node: node, With: -1, Cost: uint32(max(1, cost))})
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
	switch h.r.IntN(10) {
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
	case 7:
		fault(Drift, 0)
		for i := range h.targets {
			h.Faults[len(h.Faults)-1-i].Rate = pick(h.r, 0.85, 1.15)
		}
	default:
		h.now += short
	}
}

// drain requests all units at once, and then lets the bucket fill again.
func (h *leaseAttack) drain() {
	other := h.r.IntN(h.Nodes)
	for range 30 {
		for _, node := range h.targets {
			h.ask(node, pick[int64](h.r, 1, 1, 1, 3))
		}
		h.now += time.Duration(h.r.IntN(400)) * time.Microsecond
	}
	for cost := h.Limit.Capacity(); cost > 0; cost /= 2 {
		h.ask(other, cost)
		h.now += time.Duration(h.r.IntN(3)) * time.Millisecond
	}
	for range 5 {
		h.ask(other, 1)
	}
	spec := h.Limit.Spec()
	h.now += pick(h.r, 0, time.Duration(float64(h.Limit.Capacity())/float64(spec.Requests)*float64(spec.Per)))
}
