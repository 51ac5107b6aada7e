package gossip

import (
	"cmp"
	"maps"
	"slices"

	"stint"
	"stint/fleet/gossip/wire"
)

// Message is a message to other nodes.
type Message struct {
	// To is the number of the receiving node; 0 means all peers.
	To uint64
	// Bytes is the encoded message. The receiver of the Message owns it.
	Bytes []byte
	// Bulk is set if the message may be too long for one packet.
	Bulk bool
	// Pairs is the number of changed counts in the message.
	Pairs int
}

// Tick returns the messages to send now: reports of the units taken since the last call, and
// repair requests. The caller calls it once every Interval.
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
		out, t.sentRound = append(out, n.beat(false)), round
	}
	out = append(out, n.repairsLocked(now)...)
	for _, peer := range t.peers {
		t.originLocked(peer, now) // it may have taken, even if nothing of it was received
	}
	alive, settled := make(map[uint64]bool, len(t.origins)), now
	for id, o := range t.origins {
		switch silent := now.Sub(o.seen); {
		case silent > goneAfter:
			delete(t.origins, id)
			continue
		case o.left && o.highest <= o.upTo: // nothing can be missing
		case silent < deadAfter:
			settled = min(settled, o.complete)
		default:
			o.dead = now
		}
		alive[id] = true
	}
	t.mu.Unlock()
	n.settled.Store(int64(settled))
	n.sweep(int(round%shards), alive, settled, now)
	for i := range out {
		n.countSent(&out[i])
	}
	return out
}

// beat returns a message with the number of the last report, and whether no more will follow.
func (n *Node) beat(last bool) Message {
	var w wire.Writer
	w.Begin(wire.KindBeat, n.id)
	w.Number(n.number.Load())
	w.Flag(last)
	return Message{Bytes: w.Data}
}

// Last returns the last reports of a node that stops.
func (n *Node) Last(now stint.Instant) []Message {
	out := append(n.send(now), n.beat(true))
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

// send returns reports of all counts that changed.
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
		if len(list) > 64 { // many small packets cost more than one long message
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
			e.settleNext(&e.own, n.settledAt(), now)
			e.open(&e.own, now)
			e.dirty = false
			e.own.Number = n.number.Load()
			e.own.Born = min(e.own.Born, e.own.Number)
			w.Delta(e.delta())
			e.reported = e.own.Taken
			pairs++
		}
		sh.mu.Unlock()
	}
	end()
	return out
}

// repairsLocked returns repair requests: to each peer whose reports are missing, and now and then
// to a random peer for everything.
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
	// A new node asks several peers, one after the other, because not all may have its address
	// yet.
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

// expireRepairsLocked drops repair requests that were not answered in time. A peer that answers
// after that gets twice the time for its next answer. Without that, a slow peer would be asked
// again and again and never finish. Lost requests are repeated without more delay.
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

// lateReplyLocked counts an answer that came after its request was dropped. It ignores answers to
// much older requests, to requests before the last one that this peer answered, and from peers
// that left.
func (t *session) lateReplyLocked(peer, nonce uint64) {
	if _, there := slices.BinarySearch(t.peers, peer); !there {
		return
	}
	l := t.slow[peer]
	if age := t.nonce - nonce; age < maxReplyAge && age < t.nonce-l.nonce {
		t.slow[peer] = slowPeer{nonce, l.times + 1}
	}
}

// requestLocked returns a repair request to a peer: for all that changed after the given reports,
// of the origins in list or, with all, of every origin.
func (n *Node) requestLocked(peer uint64, all bool, list []wire.Progress) Message {
	t := &n.session
	t.nonce++
	t.repairs[peer] = &repair{nonce: t.nonce, round: t.round, all: all, parts: make(map[uint64]bool)}
	var w wire.Writer
	w.Begin(wire.KindRepair, n.id)
	w.Number(t.nonce)
	w.Flag(all)
	w.Progress(list, false)
	w.Flag(true) // can read periods of entries
	return Message{To: peer, Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket}
}

// sweep removes untouched keys of a shard, and the counts of nodes that are gone. All reports from
// before settled have arrived.
func (n *Node) sweep(part int, alive map[uint64]bool, settled, now stint.Instant) {
	sh := &n.shard[part]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for at, e := range sh.keys {
		keep := margin * 3 / 2
		if e.nextAt > settled {
			keep = unsettledFor
		}
		if !e.dirty && e.limit.Untouched(&e.state, now.Add(-keep)) {
			delete(sh.keys, at)
			continue
		}
		if e.kind != other && e.nextAt <= settled {
			e.settle(e.next, e.nextAt, e.nextAt, now)
		}
		e.counters = slices.DeleteFunc(e.counters, func(h counter) bool { return !alive[h.node] })
	}
}

// answerRepair answers a repair request, in several messages if need be.
func (n *Node) answerRepair(r *wire.Reader, from uint64, now stint.Instant) []Message {
	nonce, all := r.Number(), false
	if b := r.Cut(1); b != nil {
		all = b[0] == 1
	}
	list, periods := r.Progress(false), r.More()
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
	// This node cannot answer for origins whose reports it never had without a gap.
	covers = slices.DeleteFunc(covers, func(k wire.Progress) bool { return k.Origin != n.id && t.origins[k.Origin].complete == 0 })
	t.mu.Unlock()
	if !all {
		covers = slices.DeleteFunc(covers, func(k wire.Progress) bool { _, asked := since[k.Origin]; return !asked })
	}
	p := &parts{from: n.id, to: from, nonce: nonce, now: now, periods: periods}
	for i := range n.shard {
		n.shard[i].mu.Lock()
		for _, e := range sorted(n.shard[i].keys) {
			if e.changedSince(n.id, since, all) {
				p.add(e.snapshot(alive))
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

// sorted returns entries ordered by key, so that a simulation can be repeated.
func sorted(keys map[name]*entry) []*entry {
	return slices.SortedFunc(maps.Values(keys), byKey)
}

func byKey(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.limit.Algorithm(), b.limit.Algorithm()))
}

// changedSince reports whether an entry has counts newer than the given reports of each origin.
// Origins that are not in since are skipped or, with all, count as never reported.
func (e *entry) changedSince(self uint64, since map[uint64]uint64, all bool) bool {
	newer := func(origin, number uint64) bool {
		received, asked := since[origin]
		return (asked || all) && number > received
	}
	if e.own.Taken > 0 && newer(self, e.own.Number) || all && e.dirty {
		return true
	}
	return slices.ContainsFunc(e.counters, func(h counter) bool { return newer(h.node, h.Number) })
}

// snapshot returns all that this node knows of an entry.
func (e *entry) snapshot(alive map[uint64]bool) *wire.Entry {
	it := &wire.Entry{Limit: e.limit, Key: e.key, Settled: e.settled, SettledAt: e.settledAt}
	e.state.CopyTo(&it.State)
	for _, c := range e.all() {
		if alive[c.node] && (c.Taken > 0 || c.Reset) {
			c.close()
			it.Counts = append(it.Counts, wire.OriginCount{Origin: c.node, Count: c.Count, Base: c.base, Marks: c.marks})
		}
	}
	return it
}

// parts collects the messages of an answer.
type parts struct {
	from, to, nonce uint64
	now             stint.Instant
	periods         bool // the receiver can read them
	body            wire.Writer
	out             []Message
}

func (p *parts) add(it *wire.Entry) {
	p.body.Entry(it, p.periods, p.now)
	if len(p.body.Data) > wire.MaxBulk {
		p.cut(0, nil)
	}
}

// cut ends a message. The last message has the number of all messages and the progress that they
// cover.
func (p *parts) cut(total uint64, covers []wire.Progress) {
	var w wire.Writer
	w.Begin(wire.KindEntries, p.from)
	if !p.periods {
		w.Data[0] = wire.WithoutPeriods
	}
	w.Number(p.nonce)
	w.Number(uint64(len(p.out)))
	w.Number(total)
	w.Number(uint64(p.now))
	if total > 0 {
		w.Progress(covers, p.periods)
	}
	w.Data = append(w.Data, p.body.Data...)
	p.out = append(p.out, Message{To: p.to, Bytes: w.Data, Bulk: len(w.Data) > wire.MaxPacket})
	p.body = wire.Writer{}
}

func (p *parts) end(covers []wire.Progress) { p.cut(uint64(len(p.out)+1), covers) }
