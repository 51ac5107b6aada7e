package sim

import (
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/coord/gossip"
)

// gossiping is a process of gossip: what gossip.Store is in the service. Who is there is
// known to all, and who is cut off is not noticed: its messages get lost.
type gossiping struct {
	*place
	node *gossip.Node

	// At each tick after which there is something to tell the process takes a unit of a
	// new key as well, a probe: who knows of that knows what was taken here until then.
	// first holds, for each probe, when the first unit since the one before was taken.
	first []time.Duration
	took  bool // since the last probe; then the last of first is of the next one
	heard map[*gossiping]int
}

// probe is a key of which nobody asks for more than one unit.
var probe = stint.MustLimit(stint.Spec{Requests: 1, Per: 24 * time.Hour})

func newGossiping(p *place) *gossiping {
	n := &gossiping{place: p, heard: map[*gossiping]int{}}
	n.node = gossip.NewNode(gossip.Options{Seed: uint64(p.number)<<10 + uint64(p.born) + 1, Interval: p.w.Interval})
	for _, other := range p.w.others(p) {
		other.node.Meet(n.node.ID())
		n.node.Meet(other.node.ID())
	}
	return n
}

// others returns all processes that are elsewhere.
func (w *world) others(p *place) (list []*gossiping) {
	for _, other := range w.places {
		if n, ok := other.is.(*gossiping); ok && other != p {
			list = append(list, n)
		}
	}
	return list
}

func (n *gossiping) held() int64 { return n.node.Stats().Keys }

// clock returns what the process takes for the time: it goes by the clock that nobody sets.
func (n *gossiping) clock() stint.Instant {
	return began + stint.Instant(n.moment().Mono/int64(time.Microsecond))
}

func (n *gossiping) decide(q *request) {
	n.ask(&q.call)
	n.w.here(q)
	if q.Cost == 0 || !q.call.Results[0].Allowed {
		return
	}
	if !n.took {
		n.took = true
		n.first = append(n.first, n.w.now)
	}
	if n.born == 0 || n.node.Whole() {
		n.w.stale = max(n.w.stale, n.stale())
	}
}

// ask puts a call to the process.
func (n *gossiping) ask(call *stint.Call) {
	if err := n.node.Decide(call, n.clock()); err != nil {
		panic(err)
	}
}

// probed asks for so many units of a probe of a process.
func (n *gossiping) probed(of *gossiping, probed int, cost uint32) stint.Decision {
	key := stint.Key(fmt.Sprintf("probe %d.%d.%d", of.number, of.born, probed))
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: probe, Cost: cost}}}
	n.ask(&call)
	return call.Results[0]
}

// stale returns for how long this process has not heard what somebody else took.
func (n *gossiping) stale() (longest time.Duration) {
	for _, other := range n.w.others(n.place) {
		known := n.heard[other]
		for known < len(other.first) && n.probed(other, known, 0).Remaining == 0 {
			known++
		}
		n.heard[other] = known
		if known < len(other.first) {
			longest = max(longest, n.w.now-other.first[known])
		}
	}
	return longest
}

func (n *gossiping) tick() time.Duration {
	if n.took {
		n.took = false
		n.probed(n, len(n.first)-1, 1)
	}
	n.send(n.node.Tick(n.clock()))
	return n.node.Interval()
}

// send brings messages to whom they are for.
func (n *gossiping) send(list []gossip.Message) {
	for i := range list {
		m := &list[i]
		for _, other := range n.w.others(n.place) {
			if m.To == 0 || m.To == other.node.ID() {
				n.w.messages++
				n.mail(other.place, m.Bytes)
			}
		}
	}
}

// mail takes a message to the process at another place, if nothing gets lost.
func (n *gossiping) mail(to *place, message []byte) {
	by := n.links[to.number]
	if by == nil {
		by = new(link)
		n.links[to.number] = by
	}
	n.travel(by, to, func() {
		to.on(n.w.now, func() {
			if is, ok := to.is.(*gossiping); ok {
				is.send(is.node.Receive(slices.Clone(message), is.clock()))
			}
		})
	})
}
