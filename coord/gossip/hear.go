package gossip

import (
	"math"
	"strings"

	"stint"
)

// Receive takes a message of another node, and returns what to answer. One that comes twice,
// or after a later one, changes nothing more. The bytes are the caller's again afterwards.
func (n *Node) Receive(message []byte, now stint.Instant) []Message {
	n.count.received.Add(1)
	n.count.receivedBytes.Add(uint64(len(message)))
	r := &reader{b: message}
	kind := byte(0)
	if b := r.cut(2); b != nil && b[0] == format {
		kind = b[1]
	}
	from := r.eight()
	if from == n.id {
		return nil
	}
	var out []Message
	switch kind {
	case told:
		n.hearNews(r, from, now)
	case beat:
		n.hearBeat(r, from, now)
	case want:
		out = n.answerWant(r, from, now)
	case entries:
		n.hearEntries(r, from, now)
	case ask:
		out = n.answerAsk(r, from, now)
	case answer:
		n.hearAnswer(r, from, now)
	default:
		r.fail()
	}
	if r.err != nil {
		n.count.damaged.Add(1)
	}
	return out
}

// heardOf is what was heard of a node before the message that is being read.
type heardOf struct {
	number uint64
	recent bool // none of its messages was missing a short time ago
}

// before returns what was heard of a node until now.
func (n *Node) before(from uint64, now stint.Instant) heardOf {
	t := &n.talk
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	return heardOf{o.number, o.whole != 0 && now.Sub(o.whole) <= lateAfter*n.interval}
}

func (n *Node) hearNews(r *reader, from uint64, now stint.Instant) {
	number := r.number()
	if number == 0 {
		r.fail()
	}
	if r.err != nil {
		return
	}
	before := n.before(from, now)
	missed := false
	for r.more() {
		if k := r.news(number); r.err == nil && !n.hear(&k, from, before, now) {
			missed = true
		}
	}
	t := &n.talk
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	if missed { // it is as if this message was not heard
		o.most, o.spoke = max(o.most, number), now
		return
	}
	o.noteLocked(number, now)
}

func (n *Node) hearBeat(r *reader, from uint64, now stint.Instant) {
	number := r.number()
	if r.err != nil {
		return
	}
	t := &n.talk
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	o.most, o.spoke = max(o.most, number), now
	o.seenLocked(now)
}

// hear debits what another node took lately. It returns false where that cannot be told,
// because what it took before is not known.
func (n *Node) hear(k *news, from uint64, before heardOf, now stint.Instant) bool {
	sh := n.shardOf(k.limit.Algorithm(), k.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
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
	h := e.hear(from)
	h.count, h.idle = k.count, e.idle
	return true
}

// heardOfLocked adds an entry for a key that another node told of.
func (n *Node) heardOfLocked(sh *shard, key stint.Key, l *stint.Limit, now stint.Instant) *entry {
	return n.putLocked(sh, newEntry(stint.Key(strings.Clone(string(key))), l, now), now)
}

// hearEntries takes a part of an answer about what was missed.
func (n *Node) hearEntries(r *reader, from uint64, now stint.Instant) {
	nonce, part, total := r.number(), r.number(), r.number()
	sent := stint.Instant(min(r.number(), uint64(stint.MaxInstant)))
	var covers []known
	if total > 0 {
		covers = r.known()
	}
	for r.more() {
		if it := r.item(); r.err == nil {
			n.meetAll(it.counts, now)
			it.limit.Move(&it.state, sent, now)
			n.merge(&it, now)
		}
	}
	if r.err != nil {
		return
	}
	t := &n.talk
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.wants[from]
	if w == nil || w.nonce != nonce {
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
	t.whole = t.whole || w.all
	for _, k := range w.upTo {
		if k.origin == n.id {
			continue
		}
		o := t.originLocked(k.origin, now.Add(-k.ago))
		o.raiseLocked(k.number, now)
	}
}

// meetAll remembers that there are, or were, nodes of which counts are kept.
func (n *Node) meetAll(counts []whose, now stint.Instant) {
	n.talk.mu.Lock()
	defer n.talk.mu.Unlock()
	for i := range counts {
		if id := counts[i].origin; id != n.id {
			n.talk.originLocked(id, now)
		}
	}
}

// merge makes what another node knows of a key a part of what is known here.
func (n *Node) merge(it *item, now stint.Instant) {
	sh := n.shardOf(it.limit.Algorithm(), it.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[name{it.key, it.limit.Algorithm()}]
	if e == nil {
		if it.limit.Fresh(&it.state, now) {
			return
		}
		e = n.heardOfLocked(sh, it.key, it.limit, now)
	}
	e.settle(now)
	if !e.limit.Same(it.limit) {
		e.limit.Carry(&it.state, it.limit, now)
	}
	x := n.compare(e, it)
	if !x.lacks {
		return
	}
	used := e.limit.Used(&e.state, now)
	if x.reset {
		used = 0
	}
	switch {
	case x.surplus == 0 && e.base == nil:
		it.state.CopyTo(&e.state)
	case x.strange || x.reset:
		it.state.CopyTo(&e.state)
		e.force(min(x.surplus, uint64(used)), now)
	default:
		if more := net(x.taken, x.given); more > 0 {
			e.force(more-e.absorb(more, x.since), now)
		} else if x.given > x.taken {
			e.refund(x.given-x.taken, x.since, now)
		}
		if e.limit.Used(&it.state, now) > e.limit.Used(&e.state, now) {
			it.state.CopyTo(&e.state)
		}
	}
	for i := range it.counts {
		c := &it.counts[i]
		if c.origin == n.id {
			continue
		}
		if h := e.hear(c.origin); c.newer(&h.count) || c.number > h.number && c.born == h.born {
			h.count = c.count
			h.idle = e.idle
		}
	}
}

// difference is what two nodes know of a key: one lacks something, or has a surplus.
type difference struct {
	lacks        bool
	taken, given uint64 // what is lacking
	since        int64  // idleness when that was complete
	strange      bool   // some of it is of a node of which nothing was heard
	reset        bool   // some of it came after a reset
	surplus      uint64
}

// compare says what is known of an entry here and by another node.
func (n *Node) compare(e *entry, it *item) (x difference) {
	x.since = math.MaxInt64
	seen := make(map[uint64]bool, len(it.counts))
	for i := range it.counts {
		c := &it.counts[i]
		seen[c.origin] = true
		mine, since := count{}, int64(0)
		if c.origin == n.id {
			mine = e.own
		} else if h := e.of(c.origin); h != nil {
			mine, since = h.count, h.idle
		}
		switch {
		case c.origin == n.id && c.born != mine.born: // of an earlier time, over by now
			// The present one is not known there.
			x.surplus += net(mine.taken, mine.given)
		case c.newer(&mine):
			taken, given := c.beyond(&mine)
			x.taken, x.given, x.lacks = x.taken+taken, x.given+given, true
			x.since = min(x.since, since)
			x.strange = x.strange || c.born > mine.born && !n.bornSince(c)
			x.reset = x.reset || c.reset && c.born > mine.born
		case mine.newer(&c.count):
			x.surplus += net(mine.beyond(&c.count))
		}
	}
	for i := range e.heard {
		if h := &e.heard[i]; !seen[h.origin] {
			x.surplus += net(h.taken, h.given)
		}
	}
	if !seen[n.id] {
		x.surplus += net(e.own.taken, e.own.given)
	}
	return x
}

// bornSince says whether a count began after all that was heard of its node.
func (n *Node) bornSince(c *whose) bool {
	n.talk.mu.Lock()
	defer n.talk.mu.Unlock()
	o := n.talk.origins[c.origin]
	return o != nil && o.whole != 0 && c.born > o.number
}
