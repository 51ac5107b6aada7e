package sim

import (
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// gossiping is a process of gossip: what gossip.Store is in the service. Who is there is
// known to all, and who is cut off is not noticed: its messages get lost.
type gossiping struct {
	*place
	node *gossip.Node

	questions []question           // that wait for answers
	probes    map[stint.Key]*probe // of each key that something was taken of here
	heard     map[*probe]int       // of others: how many units are known here
}

// question is a request that waits until all others have said what they took.
type question struct {
	q  *request
	of *gossip.Query
}

// probe is a key that goes with another one. At each tick after which there is something to
// tell of that, a unit of this one is taken as well: who knows of it knows what was taken
// until then.
type probe struct {
	key   stint.Key
	first []time.Duration // for each unit: when the first was taken since the one before
	open  bool            // the last of these is not taken yet
}

// probeLimit lets all probes pass.
var probeLimit = stint.MustLimit(stint.Spec{Requests: 1 << 30, Per: 24 * time.Hour})

func newGossiping(p *place) *gossiping {
	n := &gossiping{place: p, probes: map[stint.Key]*probe{}, heard: map[*probe]int{}}
	n.node = gossip.NewNode(gossip.Options{Seed: uint64(p.number)<<10 + uint64(p.born) + 1, Interval: p.w.Interval})
	for _, other := range p.w.others(p) {
		other.node.RemovePeer(n.node.ID() - 1) // who was here before
		other.node.AddPeer(n.node.ID())
		n.node.AddPeer(other.node.ID())
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
	if n.w.Mode != Asking {
		n.conclude(q)
		return
	}
	of, messages := n.node.StartQuery(&q.call, n.clock())
	if of == nil {
		n.conclude(q)
		return
	}
	n.questions = append(n.questions, question{q, of})
	n.send(messages)
	n.on(n.w.now+n.w.Network.Timeout, func() {
		at := slices.IndexFunc(n.questions, func(other question) bool { return other.of == of })
		if at < 0 {
			return
		}
		n.questions = slices.Delete(n.questions, at, at+1)
		n.node.EndQuery(of)
		n.w.fail(q)
	})
}

// answered decides what waited for answers that are there.
func (n *gossiping) answered() {
	list := n.questions
	n.questions = nil
	for _, one := range list {
		select {
		case <-one.of.Done():
			n.node.EndQuery(one.of)
			n.conclude(one.q)
		default:
			n.questions = append(n.questions, one)
		}
	}
}

// conclude decides a request by what is known.
func (n *gossiping) conclude(q *request) {
	n.ask(&q.call)
	n.w.here(q)
	for i := range q.call.Results {
		if !q.call.Results[i].Allowed || q.Cost == 0 {
			return
		}
	}
	for i := range q.call.Takes {
		key := q.call.Takes[i].Key
		p := n.probes[key]
		if p == nil {
			p = &probe{key: stint.Key(fmt.Sprintf("probe %d.%d of %s", n.number, n.born, key))}
			n.probes[key] = p
			n.w.probes[p] = true
		}
		if !p.open {
			p.open, p.first = true, append(p.first, n.w.now)
		}
		if n.born == 0 || n.node.Synced() {
			n.w.stale = max(n.w.stale, n.stale(key))
		}
	}
}

// ask puts a call to the process.
func (n *gossiping) ask(call *stint.Call) {
	if err := n.node.Decide(call, n.clock()); err != nil {
		panic(err)
	}
}

// probed takes so many units of a probe, and returns how many are known to be taken.
func (n *gossiping) probed(p *probe, cost uint32) int {
	call := stint.Call{Takes: []stint.Take{{Key: p.key, Limit: probeLimit, Cost: cost}}}
	n.ask(&call)
	return int(probeLimit.Capacity() - call.Results[0].Remaining)
}

// stale returns for how long this process has not heard what somebody else took of a key.
func (n *gossiping) stale(key stint.Key) (longest time.Duration) {
	for _, other := range n.w.others(n.place) {
		p := other.probes[key]
		if p == nil {
			continue
		}
		if n.heard[p] < len(p.first) {
			n.heard[p] = n.probed(p, 0)
		}
		if known := n.heard[p]; known < len(p.first) {
			longest = max(longest, n.w.now-p.first[known])
		}
	}
	return longest
}

func (n *gossiping) tick() time.Duration {
	for i := range n.w.Keys {
		if p := n.probes[keyOf(i)]; p != nil && p.open {
			p.open = false
			n.probed(p, 1)
		}
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
				is.answered()
			}
		})
	})
}

// settled adds what this process was not told in the end: of each other one at least a unit
// for each probe that it does not know.
func (n *gossiping) settled(res *Result) {
	for _, other := range n.w.others(n.place) {
		for i := range n.w.Keys {
			if p := other.probes[keyOf(i)]; p != nil {
				missing := int64(len(p.first) - n.probed(p, 0))
				res.Untold += max(0, missing)
				res.Twice += max(0, -missing)
			}
		}
	}
}
