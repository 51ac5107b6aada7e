package gossip

import (
	"slices"
	"strings"

	"stint"
)

// Receive takes a message of another node, and returns what to answer. One that comes twice,
// or after a later one, changes nothing more. The bytes are the caller's again afterwards.
func (n *Node) Receive(message []byte, now stint.Instant) []Message {
	n.count.received.Add(1)
	n.count.receivedBytes.Add(uint64(len(message)))
	r := newReader(message)
	head := r.cut(2)
	from := r.eight()
	if from == n.id {
		return nil
	}
	var out []Message
	switch kind := kindOf(head); {
	case r.err != nil:
	case kind == 0:
		n.receiveForeign(from)
		return nil
	default:
		out = n.receiveKind(kind, r, from, now)
	}
	if r.err != nil {
		n.count.damaged.Add(1)
	}
	return out
}

// receiveKind takes a message of a kind.
func (n *Node) receiveKind(kind byte, r *reader, from uint64, now stint.Instant) (out []Message) {
	switch kind {
	case told:
		n.receiveNews(r, from, now)
	case beat:
		n.receiveBeat(r, from, now)
	case want:
		out = n.answerWant(r, from, now)
	case entries:
		n.receiveEntries(r, from, now)
	case ask:
		out = n.answerAsk(r, from, now)
	case answer:
		n.receiveAnswer(r, from, now)
	}
	return out
}

// receiveForeign takes a message in the format of another release: that is all that is known of it.
func (n *Node) receiveForeign(from uint64) {
	n.count.foreign.Add(1)
	t := &n.session
	t.mu.Lock()
	_, peer := slices.BinarySearch(t.peers, from)
	tell := peer && !t.foreign[from] && n.foreign != nil
	if tell {
		t.foreign[from] = true
	}
	t.mu.Unlock()
	if tell {
		n.foreign(from)
	}
}

// received is what was heard of a node before the message that is being read.
type received struct {
	number uint64
	recent bool // none of its messages was missing a short time ago
	late   bool // this node stood still until a moment ago, and so did what comes now
}

// before returns what was heard of a node until now.
func (n *Node) before(from uint64, now stint.Instant) received {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	t.wakeLocked(now, n.interval)
	return received{
		o.number, o.whole != 0 && now.Sub(o.whole) <= lateAfter*n.interval, t.woke != 0 && now.Sub(t.woke) <= missesFor*n.interval,
	}
}

func (n *Node) receiveNews(r *reader, from uint64, now stint.Instant) {
	number := r.number()
	if number == 0 {
		r.fail()
	}
	if r.err != nil {
		return
	}
	before := n.before(from, now)
	missed := before.late
	for r.more() {
		if k := r.news(number); r.err == nil && !before.late && !n.receive(&k, from, before, now) {
			missed = true
		}
	}
	if r.err != nil {
		return // the rest of it is missed when the next one comes
	}
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	if missed { // it is as if this message was not heard
		o.most, o.spoke = max(o.most, number), now
		return
	}
	o.noteLocked(number, now)
}

func (n *Node) receiveBeat(r *reader, from uint64, now stint.Instant) {
	number := r.number()
	if r.err != nil {
		return
	}
	late := n.before(from, now).late
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	if o.most, o.spoke = max(o.most, number), now; !late {
		o.seenLocked(now)
	}
}

// receive debits what another node took lately. It returns false where that cannot be told,
// because what it took before is not known.
func (n *Node) receive(k *news, from uint64, before received, now stint.Instant) bool {
	sh := n.shardOf(k.limit.Algorithm(), k.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.latest.Of(now)
	e := sh.keys[name{k.key, k.limit.Algorithm()}]
	old, since := count{}, int64(0)
	if e != nil {
		e.settle(now)
		since = e.idle
		if h := e.of(from); h != nil {
			old, since = h.count, h.idle
		}
	}
	if !k.newer(&old) {
		return true
	}
	switch {
	case k.born == old.born && old.taken >= k.taken-k.n:
	case k.born > old.born && k.n == k.taken:
	case before.recent && (k.born == old.born || k.born > before.number):
	default:
		return false
	}
	if e == nil {
		e = n.heardOfLocked(sh, k.key, k.limit, now)
	}
	if k.reset && k.born > old.born {
		e.state = stint.State{}
	}
	taken, given := k.beyond(&old)
	if e.kind == window && k.late > k.taken-taken { // of windows that are over
		late := min(taken, k.late-(k.taken-taken))
		free := min(late, uint64(e.spare))
		e.spare -= int64(free)
		taken -= free
	}
	if taken >= given {
		e.force(taken-given, now)
	} else {
		e.refund(given-taken, since, now)
	}
	h := e.hear(from, now)
	h.count, h.idle = k.count, e.idle
	return true
}

// heardOfLocked adds an entry for a key that another node told of.
func (n *Node) heardOfLocked(sh *shard, key stint.Key, l *stint.Limit, now stint.Instant) *entry {
	return n.putLocked(sh, newEntry(stint.Key(strings.Clone(string(key))), l, now), now)
}

// receiveEntries takes a part of an answer about what was missed.
func (n *Node) receiveEntries(r *reader, from uint64, now stint.Instant) {
	if n.before(from, now).late {
		return
	}
	nonce, part, total := r.number(), r.number(), r.number()
	sent := stint.Instant(min(r.number(), uint64(stint.MaxInstant)))
	var covers []known
	if total > 0 {
		covers = r.known()
	}
	for r.more() {
		if it := r.item(now); r.err == nil {
			n.meetAll(it.counts, now)
			it.limit.ForStores().Rebase(&it.state, sent, now)
			n.merge(&it, now)
		}
	}
	if r.err != nil {
		return
	}
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.wants[from]
	if w == nil || w.nonce != nonce {
		t.lateLocked(from, nonce)
		return
	}
	w.parts[part], w.round = true, t.round
	if total > 0 {
		w.total, w.upTo = total, covers
	}
	if w.total == 0 || uint64(len(w.parts)) < w.total {
		return
	}
	delete(t.wants, from)
	t.late[from] = late{nonce: nonce}
	t.whole = t.whole || w.all
	for _, k := range w.upTo {
		if k.origin == n.id {
			continue
		}
		at := now.Add(-k.ago)
		t.originLocked(k.origin, at).raiseLocked(k.number, at)
	}
}

// meetAll remembers that there are, or were, nodes of which counts are kept.
func (n *Node) meetAll(counts []whose, now stint.Instant) {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	for i := range counts {
		if id := counts[i].origin; id != n.id {
			n.session.originLocked(id, now)
		}
	}
}
