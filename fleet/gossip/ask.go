package gossip

import (
	"slices"

	"stint"
)

// Question is a take's question to all peers what they took of its keys.
type Question struct {
	nonce uint64
	waits []uint64 // peers that have not answered
	done  chan struct{}
	woke  stint.Instant // when this node stood still last, before it asked
}

// Done returns a channel that is closed when all have answered.
func (q *Question) Done() <-chan struct{} { return q.done }

// Ask begins a question about the keys of a call whose limits are asked about. It returns
// nil where there is nobody to ask. Whoever asks ends it with Answered.
func (n *Node) Ask(call *stint.Call, now stint.Instant) (*Question, []Message) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeLocked(now, n.interval)
	if len(t.peers) == 0 {
		return nil, nil
	}
	t.nonce++
	q := &Question{nonce: t.nonce, waits: slices.Clone(t.peers), done: make(chan struct{}), woke: t.woke}
	t.asked[q.nonce] = q
	var w writer
	w.begin(ask, n.id)
	w.number(q.nonce)
	for i := range call.Takes {
		if k := &call.Takes[i]; asksPeers(k) && counts(k.Limit) {
			w.limit(k.Limit)
			w.bytes(string(k.Key))
		}
	}
	n.count.asked.Add(uint64(len(t.peers)))
	n.count.sent.Add(uint64(len(t.peers)))
	n.count.bytes.Add(uint64(len(t.peers) * len(w.b)))
	return q, []Message{{Bytes: w.b, Bulk: len(w.b) > maxPacket}}
}

// asksPeers says whether a take is decided after all other nodes were asked.
func asksPeers(t *stint.Take) bool { return t.Terms() != nil && t.Terms().AskPeers }

// Answered ends a question, and says whether all have answered.
func (n *Node) Answered(q *Question) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	delete(n.session.asked, q.nonce)
	return len(q.waits) == 0
}

// partLocked notes that a peer will not answer: it is gone, and what it took is known as far
// as it told.
func (q *Question) partLocked(peer uint64) {
	i := slices.Index(q.waits, peer)
	if i < 0 {
		return
	}
	q.waits = slices.Delete(q.waits, i, i+1)
	if len(q.waits) == 0 {
		close(q.done)
	}
}

// answerAsk answers what this node took of some keys.
func (n *Node) answerAsk(r *reader, from uint64, now stint.Instant) []Message {
	nonce := r.number()
	var w writer
	w.begin(answer, n.id)
	w.number(nonce)
	number := n.number.Load() + 1
	w.number(number)
	for r.more() {
		l, key := r.limit(), stint.Key(r.bytes())
		if r.err != nil {
			return nil
		}
		if k, any := n.counted(l, key, number, now); any {
			w.news(&k)
		}
	}
	out := []Message{{To: from, Bytes: w.b, Bulk: len(w.b) > maxPacket}}
	n.countSent(&out[0])
	return out
}

// counted returns this node's count of a key.
func (n *Node) counted(l *stint.Limit, key stint.Key, number uint64, now stint.Instant) (k news, any bool) {
	sh := n.shardOf(l.Algorithm(), key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[name{key, l.Algorithm()}]
	if e == nil || e.own.taken == 0 {
		return k, false
	}
	e.settle(now)
	k = news{limit: e.limit, key: e.key, count: e.own, n: e.own.taken - e.told, late: e.late}
	k.born, k.number = min(k.born, number), number
	return k, true
}

// receiveAnswer takes an answer. Its counts are news, but no message of those that are
// numbered. Of a peer whose earlier messages are missing it is none, until those are there; nor
// is one that waited while this node stood still: what it tells is not of now, and is asked for.
func (n *Node) receiveAnswer(r *reader, from uint64, now stint.Instant) {
	nonce, number := r.number(), r.number()
	if r.err != nil || number == 0 {
		r.fail()
		return
	}
	before := n.before(from, now)
	understood := !before.late || n.askedSince(nonce)
	for late := !understood; r.more(); {
		if k := r.news(number); r.err == nil && !late {
			understood = n.receive(&k, from, before, now) && understood
		}
	}
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	if q := n.session.asked[nonce]; q != nil && r.err == nil && understood {
		q.partLocked(from)
	}
}

// askedSince says whether a question was asked since this node stood still last.
func (n *Node) askedSince(nonce uint64) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	q := n.session.asked[nonce]
	return q != nil && q.woke == n.session.woke
}
