package gossip

import (
	"slices"

	"stint"
	"stint/fleet/gossip/wire"
)

// Query asks all peers how many units they took of the keys of a call.
type Query struct {
	nonce   uint64
	waiting []uint64 // peers that have not replied
	done    chan struct{}
	resumed stint.Instant // session.resumed at the start of the query
}

// Done returns a channel that is closed when all peers have replied.
func (q *Query) Done() <-chan struct{} { return q.done }

// StartQuery starts a query about those keys of a call whose rules ask peers. It returns nil if
// there are no peers. The caller must end the query by EndQuery.
func (n *Node) StartQuery(call *stint.Call, now stint.Instant) (*Query, []Message) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detectPauseLocked(now, n.interval)
	if len(t.peers) == 0 {
		return nil, nil
	}
	t.nonce++
	q := &Query{nonce: t.nonce, waiting: slices.Clone(t.peers), done: make(chan struct{}), resumed: t.resumed}
	t.queries[q.nonce] = q
	var w wire.Writer
	w.Begin(wire.KindQuery, n.id)
	w.Number(q.nonce)
	for i := range call.Takes {
		if k := &call.Takes[i]; asksPeers(k) && wire.Countable(k.Limit) {
			w.Limit(k.Limit)
			w.Bytes(string(k.Key))
		}
	}
	n.count.queries.Add(uint64(len(t.peers)))
	n.count.sent.Add(uint64(len(t.peers)))
	n.count.bytes.Add(uint64(len(t.peers) * len(w.Data)))
	return q, []Message{{Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket}}
}

// asksPeers reports whether a take waits for the counts of all peers.
func asksPeers(t *stint.Take) bool { return t.Terms() != nil && t.Terms().AskPeers }

// EndQuery ends a query and reports whether all peers have replied.
func (n *Node) EndQuery(q *Query) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	delete(n.session.queries, q.nonce)
	return len(q.waiting) == 0
}

// removeLocked stops waiting for a peer that is gone. Its reports so far count.
func (q *Query) removeLocked(peer uint64) {
	i := slices.Index(q.waiting, peer)
	if i < 0 {
		return
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	if len(q.waiting) == 0 {
		close(q.done)
	}
}

// answerQuery replies with this node's counts of some keys.
func (n *Node) answerQuery(r *wire.Reader, from uint64, now stint.Instant) []Message {
	nonce := r.Number()
	var w wire.Writer
	w.Begin(wire.KindReply, n.id)
	w.Number(nonce)
	number := n.number.Load() + 1
	w.Number(number)
	for r.More() {
		l, key := r.Limit(), stint.Key(r.Bytes())
		if r.Err != nil {
			return nil
		}
		if k, any := n.counted(l, key, number, now); any {
			w.Delta(&k)
		}
	}
	out := []Message{{To: from, Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket}}
	n.countSent(&out[0])
	return out
}

// counted returns this node's count of a key.
func (n *Node) counted(l *stint.Limit, key stint.Key, number uint64, now stint.Instant) (k wire.Delta, any bool) {
	sh := n.shardOf(l.Algorithm(), key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[name{key, l.Algorithm()}]
	if e == nil || e.own.Taken == 0 {
		return k, false
	}
	e.open(&e.own, now)
	k = *e.delta()
	k.Born, k.Number = min(k.Born, number), number
	return k, true
}

// receiveReply applies the counts of a reply. A reply is not a numbered report. It does not end
// the wait for the peer while earlier reports of that peer are missing. A reply that arrived
// while this node stood still is ignored, because its counts are old; the node requests them
// again.
func (n *Node) receiveReply(r *wire.Reader, from uint64, now stint.Instant) {
	nonce, number := r.Number(), r.Number()
	if r.Err != nil || number == 0 {
		r.Fail()
		return
	}
	before := n.before(from, now)
	understood := !before.stale || n.queriedSinceResume(nonce)
	for late := !understood; r.More(); {
		if k := r.Delta(number); r.Err == nil && !late {
			understood = n.receive(&k, from, before, now) && understood
		}
	}
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	if q := n.session.queries[nonce]; q != nil && r.Err == nil && understood {
		q.removeLocked(from)
	}
}

// queriedSinceResume reports whether a query started after this node last stood still.
func (n *Node) queriedSinceResume(nonce uint64) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	q := n.session.queries[nonce]
	return q != nil && q.resumed == n.session.resumed
}
