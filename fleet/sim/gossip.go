package sim

import (
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// gossipNode is a process of gossip mode, like gossip.Store in the service. All nodes know each
// other. Nobody notices that a node is cut off; messages to it are lost.
type gossipNode struct {
	*host
	node *gossip.Node

	queries []pendingQuery       // waiting for replies
	probes  map[stint.Key]*probe // of each key that this process took
	known   map[*probe]int       // units of the probes of other nodes that this node knows
}

// pendingQuery is a request that waits for the replies of all other nodes.
type pendingQuery struct {
	q  *request
	of *gossip.Query
}

// probe is a second key beside a key of the history. At each tick with units of that key to
// report, the node takes one unit of the probe. A node that knows that unit knows all takes of
// the key before it.
type probe struct {
	key   stint.Key
	first []time.Duration // for each unit the time of the first take that it stands for
	open  bool            // the last unit is not taken yet
}

// probeLimit admits all probes.
var probeLimit = stint.MustLimit(stint.Spec{Requests: 1 << 30, Per: 24 * time.Hour})

func newGossipNode(p *host) *gossipNode {
	n := &gossipNode{host: p, probes: map[stint.Key]*probe{}, known: map[*probe]int{}}
	n.node = gossip.NewNode(gossip.Options{Seed: uint64(p.number)<<10 + uint64(p.restarts) + 1, Interval: p.w.Interval})
	for _, other := range p.w.others(p) {
		other.node.RemovePeer(n.node.ID() - 1) // the process on this host before
		other.node.AddPeer(n.node.ID())
		n.node.AddPeer(other.node.ID())
	}
	return n
}

// others returns the processes on all other hosts.
func (w *world) others(p *host) (list []*gossipNode) {
	for _, other := range w.hosts {
		if n, ok := other.node.(*gossipNode); ok && other != p {
			list = append(list, n)
		}
	}
	return list
}

func (n *gossipNode) held() int64 { return n.node.Stats().Keys }

// steadyTime returns the time by the monotonic clock.
func (n *gossipNode) steadyTime() stint.Instant {
	return began + stint.Instant(n.moment().Mono/int64(time.Microsecond))
}

func (n *gossipNode) decide(q *request) {
	if n.w.Mode != Asking {
		n.decideNow(q)
		return
	}
	of, messages := n.node.StartQuery(&q.call, n.steadyTime())
	if of == nil {
		n.decideNow(q)
		return
	}
	n.queries = append(n.queries, pendingQuery{q, of})
	n.send(messages)
	n.on(n.w.now+n.w.Network.Timeout, func() {
		at := slices.IndexFunc(n.queries, func(other pendingQuery) bool { return other.of == of })
		if at < 0 {
			return
		}
		n.queries = slices.Delete(n.queries, at, at+1)
		n.node.EndQuery(of)
		n.w.fail(q)
	})
}

// resumeQueries decides the requests whose queries are answered.
func (n *gossipNode) resumeQueries() {
	list := n.queries
	n.queries = nil
	for _, one := range list {
		select {
		case <-one.of.Done():
			n.node.EndQuery(one.of)
			n.decideNow(one.q)
		default:
			n.queries = append(n.queries, one)
		}
	}
}

// decideNow decides a request from the counts of the node.
func (n *gossipNode) decideNow(q *request) {
	n.ask(&q.call)
	n.w.answerLocal(q)
	for i := range q.call.Results {
		if !q.call.Results[i].Allowed || q.Cost == 0 {
			return
		}
	}
	for i := range q.call.Takes {
		key := q.call.Takes[i].Key
		p := n.probes[key]
		if p == nil {
			p = &probe{key: stint.Key(fmt.Sprintf("probe %d.%d of %s", n.number, n.restarts, key))}
			n.probes[key] = p
			n.w.probes[p] = true
		}
		if !p.open {
			p.open, p.first = true, append(p.first, n.w.now)
		}
		if n.restarts == 0 || n.node.Synced() {
			n.w.stale = max(n.w.stale, n.stale(key))
		}
	}
}

// ask lets the node decide a call.
func (n *gossipNode) ask(call *stint.Call) {
	if err := n.node.Decide(call, n.steadyTime()); err != nil {
		panic(err)
	}
}

// takeProbe takes cost units of a probe and returns how many units the node counts as taken.
func (n *gossipNode) takeProbe(p *probe, cost uint32) int {
	call := stint.Call{Takes: []stint.Take{{Key: p.key, Limit: probeLimit, Cost: cost}}}
	n.ask(&call)
	return int(probeLimit.Capacity() - call.Results[0].Remaining)
}

// stale returns for how long takes of a key by other nodes are unknown here.
func (n *gossipNode) stale(key stint.Key) (longest time.Duration) {
	for _, other := range n.w.others(n.host) {
		p := other.probes[key]
		if p == nil {
			continue
		}
		if n.known[p] < len(p.first) {
			n.known[p] = n.takeProbe(p, 0)
		}
		if known := n.known[p]; known < len(p.first) {
			longest = max(longest, n.w.now-p.first[known])
		}
	}
	return longest
}

func (n *gossipNode) tick() time.Duration {
	for i := range n.w.Keys {
		if p := n.probes[keyOf(i)]; p != nil && p.open {
			p.open = false
			n.takeProbe(p, 1)
		}
	}
	n.send(n.node.Tick(n.steadyTime()))
	return n.node.Interval()
}

// send sends messages to their receivers.
func (n *gossipNode) send(list []gossip.Message) {
	for i := range list {
		m := &list[i]
		for _, other := range n.w.others(n.host) {
			if m.To == 0 || m.To == other.node.ID() {
				n.w.messages++
				n.deliver(other.host, m.Bytes)
			}
		}
	}
}

// deliver brings a message to the process on another host, if it is not lost.
func (n *gossipNode) deliver(to *host, message []byte) {
	by := n.links[to.number]
	if by == nil {
		by = new(link)
		n.links[to.number] = by
	}
	n.travel(by, to, func() {
		to.on(n.w.now, func() {
			if is, ok := to.node.(*gossipNode); ok {
				is.send(is.node.Receive(slices.Clone(message), is.steadyTime()))
				is.resumeQueries()
			}
		})
	})
}

// addUnreported adds at least one unit for each probe unit of other nodes that this node does not
// know at the end.
func (n *gossipNode) addUnreported(res *Result) {
	for _, other := range n.w.others(n.host) {
		for i := range n.w.Keys {
			if p := other.probes[keyOf(i)]; p != nil {
				missing := int64(len(p.first) - n.takeProbe(p, 0))
				res.Unreported += max(0, missing)
				res.Twice += max(0, -missing)
			}
		}
	}
}
