package gossip

import (
	"cmp"
	"maps"
	"slices"

	"stint"
	"stint/fleet/gossip/wire"
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
	t.detectPauseLocked(now, n.interval)
	t.round, t.ticked = t.round+1, now
	round := t.round
	switch {
	case len(out) > 0:
		t.sentRound = round
	case round-t.sentRound >= beatEvery:
		var w wire.Writer
		w.Begin(wire.KindBeat, n.id)
		w.Number(n.number.Load())
		out, t.sentRound = append(out, Message{Bytes: w.Data}), round
	}
	out = append(out, n.repairsLocked(now)...)
	alive := make(map[uint64]bool, len(t.origins))
	for id, o := range t.origins {
		if now.Sub(o.seen) > goneAfter {
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
	var w wire.Writer
	pairs, most := 0, wire.MaxPacket
	end := func() {
		if pairs > 0 {
			out = append(out, Message{Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket, Pairs: pairs})
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
			most = wire.MaxBulk
		}
		for _, e := range list {
			if pairs > 0 && len(w.Data)+len(e.key)+128 > most {
				end()
			}
			if pairs == 0 {
				w.Begin(wire.KindReport, n.id)
				w.Number(n.number.Add(1))
			}
			e.advance(now)
			e.dirty = false
			e.own.Number = n.number.Load()
			e.own.Born = min(e.own.Born, e.own.Number)
			w.Delta(&wire.Delta{Limit: e.limit, Key: e.key, Count: e.own, Added: e.own.Taken - e.reported, Late: e.late})
			e.reported = e.own.Taken
			pairs++
		}
		sh.mu.Unlock()
	}
	end()
	return out
}

// repairsLocked returns questions about what was missed: of who sent it, and now and then
// of anybody about everything.
func (n *Node) repairsLocked(now stint.Instant) (out []Message) {
	t := &n.session
	t.expireRepairsLocked()
	for _, peer := range t.peers {
		o := t.origins[peer]
		if o == nil || o.highest <= o.upTo {
			continue
		}
		if o.missing++; o.missing > repairAfter && t.repairs[peer] == nil && (t.synced || o.complete != 0) {
			n.count.repairs.Add(1)
			out = append(out, n.requestLocked(peer, false, []wire.Progress{{Origin: peer, Number: o.upTo}}))
		}
	}
	if len(t.peers) == 0 {
		return out
	}
	// A new node asks several, one after the other: not all may know it yet.
	asking, may := 0, 1
	if !t.synced {
		may = firstRepairs
	}
	for _, p := range t.peers {
		if t.repairs[p] != nil && t.repairs[p].all {
			asking++
		}
	}
	peer := t.peers[t.rand.IntN(len(t.peers))]
	if asking < may && t.repairs[peer] == nil && (!t.synced || t.round%compareEvery == n.id%compareEvery) {
		out = append(out, n.requestLocked(peer, true, n.vectorLocked(now)))
	}
	return out
}

// expireRepairsLocked forgets questions that were not answered in time. Whose answer comes after that
// has twice the time for the next one: asked again and again by who does not wait for what it
// says, it would never be done. What was lost is asked for again as soon as ever.
func (t *session) expireRepairsLocked() {
	for peer, w := range t.repairs {
		lasts := uint64(repairTimeout)
		if !t.synced && len(w.parts) == 0 {
			lasts = repairAfter
		}
		if t.round-w.round > lasts<<min(t.slow[peer].times, maxDoublings) {
			delete(t.repairs, peer)
		}
	}
}

// lateReplyLocked notes that part of an answer came for which nobody waits: too late, if it is none
// to a question before the last that this peer answered, or to somebody else. Who left is asked
// no more.
func (t *session) lateReplyLocked(peer, nonce uint64) {
	if _, there := slices.BinarySearch(t.peers, peer); !there {
		return
	}
	l := t.slow[peer]
	if age := t.nonce - nonce; age < maxReplyAge && age < t.nonce-l.nonce {
		t.slow[peer] = slowPeer{nonce, l.times + 1}
	}
}

// requestLocked returns a question to a peer: of all that changed since the numbers that were
// heard, of those origins or, with all, of any.
func (n *Node) requestLocked(peer uint64, all bool, list []wire.Progress) Message {
	t := &n.session
	t.nonce++
	t.repairs[peer] = &repair{nonce: t.nonce, round: t.round, all: all, parts: make(map[uint64]bool)}
	var w wire.Writer
	w.Begin(wire.KindRepair, n.id)
	w.Number(t.nonce)
	w.Flag(all)
	w.Progress(list)
	return Message{To: peer, Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket}
}

// sweep forgets keys of a part that are as untouched, and the counts of nodes that are gone.
func (n *Node) sweep(part int, alive map[uint64]bool, now stint.Instant) {
	sh := &n.shard[part]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for at, e := range sh.keys {
		e.advance(now)
		if !e.dirty && e.limit.Untouched(&e.state, now.Add(-margin*3/2)) {
			delete(sh.keys, at)
			continue
		}
		e.counters = slices.DeleteFunc(e.counters, func(h counter) bool { return !alive[h.origin] })
	}
}

// answerRepair returns what somebody missed, in parts.
func (n *Node) answerRepair(r *wire.Reader, from uint64, now stint.Instant) []Message {
	nonce, all := r.Number(), false
	if b := r.Cut(1); b != nil {
		all = b[0] == 1
	}
	list := r.Progress()
	if r.Err != nil {
		return nil
	}
	since := make(map[uint64]uint64, len(list))
	for _, k := range list {
		since[k.Origin] = k.Number
	}
	t := &n.session
	t.mu.Lock()
	covers := n.vectorLocked(now)
	alive := make(map[uint64]bool, len(covers))
	for _, k := range covers {
		alive[k.Origin] = true
	}
	// Of whom something was missing ever since, nobody learns here what he took.
	covers = slices.DeleteFunc(covers, func(k wire.Progress) bool { return k.Origin != n.id && t.origins[k.Origin].complete == 0 })
	t.mu.Unlock()
	if !all {
		covers = slices.DeleteFunc(covers, func(k wire.Progress) bool { _, asked := since[k.Origin]; return !asked })
	}
	p := &parts{from: n.id, to: from, nonce: nonce, now: now}
	for i := range n.shard {
		n.shard[i].mu.Lock()
		for _, e := range sorted(n.shard[i].keys) {
			e.advance(now)
			if e.changedSince(n.id, since, all) {
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

// changedSince says whether somebody who heard messages up to these numbers does not know all of
// an entry. Of others he asks nothing, or, with all, knows nothing.
func (e *entry) changedSince(self uint64, since map[uint64]uint64, all bool) bool {
	newer := func(origin, number uint64) bool {
		heard, asked := since[origin]
		return (asked || all) && number > heard
	}
	if e.own.Taken > 0 && newer(self, e.own.Number) || all && e.dirty {
		return true
	}
	return slices.ContainsFunc(e.counters, func(h counter) bool { return newer(h.origin, h.Number) })
}

// item returns all that is known of an entry.
func (e *entry) item(self uint64, alive map[uint64]bool, now stint.Instant) *wire.Entry {
	b := e.busy(now)
	it := &wire.Entry{Limit: e.limit, Key: e.key, Since: e.since, Busy: wire.Busy{Since: b.since, Taken: b.taken}}
	e.state.CopyTo(&it.State)
	if e.kind == window { // so far from the end of its window that it comes to lie in no other on its way
		it.Busy.Since -= max(0, it.Busy.Since%stint.Instant(e.per)-stint.Instant(e.per*3/4))
	}
	if e.own.Taken > 0 || e.own.Reset {
		it.Counts = append(it.Counts, wire.OriginCount{Origin: self, Count: e.own})
	}
	for i := range e.counters {
		if h := &e.counters[i]; alive[h.origin] {
			it.Counts = append(it.Counts, wire.OriginCount{Origin: h.origin, At: h.at, Count: h.Count})
		}
	}
	return it
}

// parts are the messages of an answer.
type parts struct {
	from, to, nonce uint64
	now             stint.Instant
	body            wire.Writer
	out             []Message
}

func (p *parts) add(it *wire.Entry) {
	p.body.Entry(it, p.now)
	if len(p.body.Data) > wire.MaxBulk {
		p.cut(0, nil)
	}
}

// cut ends a part. The last one says how many there are, and what all of them cover.
func (p *parts) cut(total uint64, covers []wire.Progress) {
	var w wire.Writer
	w.Begin(wire.KindEntries, p.from)
	w.Number(p.nonce)
	w.Number(uint64(len(p.out)))
	w.Number(total)
	w.Number(uint64(p.now))
	if total > 0 {
		w.Progress(covers)
	}
	w.Data = append(w.Data, p.body.Data...)
	p.out = append(p.out, Message{To: p.to, Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket})
	p.body = wire.Writer{}
}

func (p *parts) end(covers []wire.Progress) { p.cut(uint64(len(p.out)+1), covers) }
