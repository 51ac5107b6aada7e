package gossip

import (
	"cmp"
	"maps"
	"slices"

	"stint"
)

// Message is what a node wants to be brought to others.
type Message struct {
	// To is the node it is for, 0 for all peers.
	To uint64
	// Bytes are the message. They are nobody's but the receiver's.
	Bytes []byte
	// Bulk says that it may be too long for one packet.
	Bulk bool
	// Pairs is how many changed counts it tells.
	Pairs int
}

// Tick returns what to send now: what was taken here since the last time, and questions
// about what was missed. It is to be called every Interval.
func (n *Node) Tick(now stint.Instant) []Message {
	out := n.send(now)
	t := &n.session
	t.mu.Lock()
	t.wakeLocked(now, n.interval)
	t.round, t.ticked = t.round+1, now
	round := t.round
	switch {
	case len(out) > 0:
		t.said = round
	case round-t.said >= beatsEvery:
		var w writer
		w.begin(beat, n.id)
		w.number(n.number.Load())
		out, t.said = append(out, Message{Bytes: w.b}), round
	}
	out = append(out, n.questionsLocked(now)...)
	alive := make(map[uint64]bool, len(t.origins))
	for id, o := range t.origins {
		if now.Sub(o.spoke) > goneAfter {
			delete(t.origins, id)
		} else {
			alive[id] = true
		}
	}
	t.mu.Unlock()
	n.sweep(int(round%shards), alive, now)
	for i := range out {
		n.countSent(&out[i])
	}
	return out
}

// Last returns what is left to tell, for a node that stops.
func (n *Node) Last(now stint.Instant) []Message {
	out := n.send(now)
	for i := range out {
		n.countSent(&out[i])
	}
	return out
}

func (n *Node) countSent(m *Message) {
	times := uint64(1)
	if m.To == 0 {
		times = uint64(n.session.live())
	}
	n.count.sent.Add(times)
	n.count.bytes.Add(times * uint64(len(m.Bytes)))
	n.count.pairs.Add(uint64(m.Pairs))
}

// send returns messages with all counts that changed.
func (n *Node) send(now stint.Instant) (out []Message) {
	var w writer
	pairs, most := 0, maxPacket
	end := func() {
		if pairs > 0 {
			out = append(out, Message{Bytes: w.b, Bulk: len(w.b) > maxPacket, Pairs: pairs})
		}
		pairs = 0
	}
	for i := range n.shard {
		sh := &n.shard[i]
		sh.mu.Lock()
		list := sh.dirty
		sh.dirty = nil
		slices.SortFunc(list, byKey)
		if len(list) > 64 { // many small packets cost more than a long message
			most = maxBulk
		}
		for _, e := range list {
			if pairs > 0 && len(w.b)+len(e.key)+128 > most {
				end()
			}
			if pairs == 0 {
				w.begin(told, n.id)
				w.number(n.number.Add(1))
			}
			e.settle(now)
			e.dirty = false
			e.own.number = n.number.Load()
			e.own.born = min(e.own.born, e.own.number)
			w.news(&news{limit: e.limit, key: e.key, count: e.own, n: e.own.taken - e.told, late: e.late})
			e.told = e.own.taken
			pairs++
		}
		sh.mu.Unlock()
	}
	end()
	return out
}

// questionsLocked returns questions about what was missed: of who sent it, and now and then
// of anybody about everything.
func (n *Node) questionsLocked(now stint.Instant) (out []Message) {
	t := &n.session
	t.giveUpLocked()
	for _, peer := range t.peers {
		o := t.origins[peer]
		if o == nil || o.most <= o.number {
			continue
		}
		if o.missing++; o.missing > missesFor && t.wants[peer] == nil && (t.whole || o.whole != 0) {
			n.count.repairs.Add(1)
			out = append(out, n.wantLocked(peer, false, []known{{origin: peer, number: o.number}}))
		}
	}
	if len(t.peers) == 0 {
		return out
	}
	// A new node asks several, one after the other: not all may know it yet.
	asking, may := 0, 1
	if !t.whole {
		may = firstAsked
	}
	for _, p := range t.peers {
		if t.wants[p] != nil && t.wants[p].all {
			asking++
		}
	}
	peer := t.peers[t.rand.IntN(len(t.peers))]
	if asking < may && t.wants[peer] == nil && (!t.whole || t.round%compareEach == n.id%compareEach) {
		out = append(out, n.wantLocked(peer, true, n.vectorLocked(now)))
	}
	return out
}

// giveUpLocked forgets questions that were not answered in time. Whose answer comes after that
// has twice the time for the next one: asked again and again by who does not wait for what it
// says, it would never be done. What was lost is asked for again as soon as ever.
func (t *session) giveUpLocked() {
	for peer, w := range t.wants {
		lasts := uint64(wantLasts)
		if !t.whole && len(w.parts) == 0 {
			lasts = missesFor
		}
		if t.round-w.round > lasts<<min(t.late[peer].times, mostDoubled) {
			delete(t.wants, peer)
		}
	}
}

// lateLocked notes that part of an answer came for which nobody waits: too late, if it is none
// to a question before the last that this peer answered, or to somebody else. Who left is asked
// no more.
func (t *session) lateLocked(peer, nonce uint64) {
	if _, there := slices.BinarySearch(t.peers, peer); !there {
		return
	}
	l := t.late[peer]
	if age := t.nonce - nonce; age < lateAge && age < t.nonce-l.nonce {
		t.late[peer] = late{nonce, l.times + 1}
	}
}

// wantLocked returns a question to a peer: of all that changed since the numbers that were
// heard, of those origins or, with all, of any.
func (n *Node) wantLocked(peer uint64, all bool, list []known) Message {
	t := &n.session
	t.nonce++
	t.wants[peer] = &wanted{nonce: t.nonce, round: t.round, all: all, parts: make(map[uint64]bool)}
	var w writer
	w.begin(want, n.id)
	w.number(t.nonce)
	w.flag(all)
	w.known(list)
	return Message{To: peer, Bytes: w.b, Bulk: len(w.b) > maxPacket}
}

func (w *writer) flag(set bool) {
	b := byte(0)
	if set {
		b = 1
	}
	w.b = append(w.b, b)
}

// sweep forgets keys of a part that are as untouched, and the counts of nodes that are gone.
func (n *Node) sweep(part int, alive map[uint64]bool, now stint.Instant) {
	sh := &n.shard[part]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for at, e := range sh.keys {
		e.settle(now)
		if !e.dirty && e.limit.Untouched(&e.state, now.Add(-margin*3/2)) {
			delete(sh.keys, at)
			continue
		}
		e.heard = slices.DeleteFunc(e.heard, func(h heard) bool { return !alive[h.origin] })
	}
}

// answerWant returns what somebody missed, in parts.
func (n *Node) answerWant(r *reader, from uint64, now stint.Instant) []Message {
	nonce, all := r.number(), false
	if b := r.cut(1); b != nil {
		all = b[0] == 1
	}
	list := r.known()
	if r.err != nil {
		return nil
	}
	since := make(map[uint64]uint64, len(list))
	for _, k := range list {
		since[k.origin] = k.number
	}
	t := &n.session
	t.mu.Lock()
	covers := n.vectorLocked(now)
	alive := make(map[uint64]bool, len(covers))
	for _, k := range covers {
		alive[k.origin] = true
	}
	// Of whom something was missing ever since, nobody learns here what he took.
	covers = slices.DeleteFunc(covers, func(k known) bool { return k.origin != n.id && t.origins[k.origin].whole == 0 })
	t.mu.Unlock()
	if !all {
		covers = slices.DeleteFunc(covers, func(k known) bool { _, asked := since[k.origin]; return !asked })
	}
	p := &parts{from: n.id, to: from, nonce: nonce, now: now}
	for i := range n.shard {
		n.shard[i].mu.Lock()
		for _, e := range sorted(n.shard[i].keys) {
			e.settle(now)
			if e.missed(n.id, since, all) {
				p.add(e.item(n.id, alive, now))
			}
		}
		n.shard[i].mu.Unlock()
	}
	p.end(covers)
	for i := range p.out {
		n.countSent(&p.out[i])
	}
	return p.out
}

// sorted returns entries in the order of their keys, so that a simulation can be repeated.
func sorted(keys map[name]*entry) []*entry {
	return slices.SortedFunc(maps.Values(keys), byKey)
}

func byKey(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.limit.Algorithm(), b.limit.Algorithm()))
}

// missed says whether somebody who heard messages up to these numbers does not know all of
// an entry. Of others he asks nothing, or, with all, knows nothing.
func (e *entry) missed(self uint64, since map[uint64]uint64, all bool) bool {
	newer := func(origin, number uint64) bool {
		heard, asked := since[origin]
		return (asked || all) && number > heard
	}
	if e.own.taken > 0 && newer(self, e.own.number) || all && e.dirty {
		return true
	}
	return slices.ContainsFunc(e.heard, func(h heard) bool { return newer(h.origin, h.number) })
}

// item returns all that is known of an entry.
func (e *entry) item(self uint64, alive map[uint64]bool, now stint.Instant) *item {
	it := &item{limit: e.limit, key: e.key, from: e.from, busy: e.busy(now)}
	e.state.CopyTo(&it.state)
	if e.kind == window { // so far from the end of its window that it comes to lie in no other on its way
		it.busy.since -= max(0, it.busy.since%stint.Instant(e.per)-stint.Instant(e.per*3/4))
	}
	if e.own.taken > 0 || e.own.reset {
		it.counts = append(it.counts, whose{origin: self, count: e.own})
	}
	for i := range e.heard {
		if h := &e.heard[i]; alive[h.origin] {
			it.counts = append(it.counts, whose{h.origin, h.at, h.count})
		}
	}
	return it
}

// parts are the messages of an answer.
type parts struct {
	from, to, nonce uint64
	now             stint.Instant
	body            writer
	out             []Message
}

func (p *parts) add(it *item) {
	p.body.item(it, p.now)
	if len(p.body.b) > maxBulk {
		p.cut(0, nil)
	}
}

// cut ends a part. The last one says how many there are, and what all of them cover.
func (p *parts) cut(total uint64, covers []known) {
	var w writer
	w.begin(entries, p.from)
	w.number(p.nonce)
	w.number(uint64(len(p.out)))
	w.number(total)
	w.number(uint64(p.now))
	if total > 0 {
		w.known(covers)
	}
	w.b = append(w.b, p.body.b...)
	p.out = append(p.out, Message{To: p.to, Bytes: w.b, Bulk: len(w.b) > maxPacket})
	p.body = writer{}
}

func (p *parts) end(covers []known) { p.cut(uint64(len(p.out)+1), covers) }
