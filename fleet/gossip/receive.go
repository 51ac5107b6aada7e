package gossip

import (
	"slices"
	"strings"

	"stint"
	"stint/fleet/gossip/wire"
)

// Receive handles a message of another node and returns the messages to send in reply. A message
// that arrives twice, or after a later one, has no further effect. Receive does not keep the
// bytes.
func (n *Node) Receive(message []byte, now stint.Instant) []Message {
	n.count.received.Add(1)
	n.count.receivedBytes.Add(uint64(len(message)))
	r := wire.NewReader(message)
	head := r.Cut(2)
	from := r.Fixed64()
	if from == n.id {
		return nil
	}
	var out []Message
	switch {
	case r.Err != nil:
	case wire.KindOf(head) == 0:
		n.receiveForeign(from)
		return nil
	default:
		out = n.receiveKind(head, r, from, now)
	}
	if r.Err != nil {
		n.count.damaged.Add(1)
	}
	return out
}

// receiveKind handles a message by its first two bytes.
func (n *Node) receiveKind(head []byte, r *wire.Reader, from uint64, now stint.Instant) (out []Message) {
	switch head[1] {
	case wire.KindReport:
		n.receiveReport(r, from, now)
	case wire.KindBeat:
		n.receiveBeat(r, from, now)
	case wire.KindRepair:
		out = n.answerRepair(r, from, now)
	case wire.KindEntries:
		n.receiveEntries(r, head[0] != wire.WithoutPeriods, from, now)
	case wire.KindQuery:
		out = n.answerQuery(r, from, now)
	case wire.KindReply:
		n.receiveReply(r, from, now)
	}
	return out
}

// receiveForeign counts a message in the format of another release. Its content is unknown.
func (n *Node) receiveForeign(from uint64) {
	n.count.foreign.Add(1)
	t := &n.session
	t.mu.Lock()
	_, peer := slices.BinarySearch(t.peers, from)
	first := peer && !t.foreign[from] && n.foreign != nil
	if first {
		t.foreign[from] = true
	}
	t.mu.Unlock()
	if first {
		n.foreign(from)
	}
}

// progress is what this node had received from another before the current message.
type progress struct {
	upTo   uint64
	recent bool // no report was missing a short time ago
	stale  bool // this node just stood still, and the message may have waited
}

// before returns what this node has received from another until now.
func (n *Node) before(from uint64, now stint.Instant) progress {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	t.detectPauseLocked(now, n.interval)
	return progress{
		o.upTo, o.complete != 0 && now.Sub(o.complete) <= staleAfter*n.interval, t.resumed != 0 && now.Sub(t.resumed) <= repairAfter*n.interval,
	}
}

func (n *Node) receiveReport(r *wire.Reader, from uint64, now stint.Instant) {
	number := r.Number()
	if number == 0 {
		r.Fail()
	}
	if r.Err != nil {
		return
	}
	before := n.before(from, now)
	missed := before.stale
	for r.More() {
		if k := r.Delta(number); r.Err == nil && !before.stale && !n.receive(&k, from, before, now) {
			missed = true
		}
	}
	if r.Err != nil {
		return // the next message shows that this one is missing
	}
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	if missed { // treat the report as not received
		o.highest, o.seen = max(o.highest, number), now
		return
	}
	o.receivedLocked(number, now)
}

func (n *Node) receiveBeat(r *wire.Reader, from uint64, now stint.Instant) {
	number, last := r.Number(), r.More() && r.Number() == 1 // earlier releases write no flag
	if r.Err != nil {
		return
	}
	late := n.before(from, now).stale
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.originLocked(from, now)
	o.highest, o.seen, o.left = max(o.highest, number), now, o.left || last
	if !late {
		o.checkCompleteLocked(now)
	}
}

// receive debits the units of a delta. It returns false if it cannot compute them, because
// earlier reports are missing.
func (n *Node) receive(k *wire.Delta, from uint64, before progress, now stint.Instant) bool {
	sh := n.shardOf(k.Limit.Algorithm(), k.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.latest.Of(now)
	e := sh.keys[name{k.Key, k.Limit.Algorithm()}]
	old := wire.Count{}
	if e != nil {
		if c := e.findCounter(from); c != nil {
			old = c.Count
		}
	}
	if !k.Newer(&old) {
		return true
	}
	switch {
	case k.Born == old.Born && old.Taken >= k.Taken-k.Added:
	case k.Born > old.Born && k.Added == k.Taken:
	case before.recent && (k.Born == old.Born || k.Born > before.upTo):
	default:
		return false
	}
	if e == nil {
		e = n.addRemoteLocked(sh, k.Key, k.Limit, now)
	}
	c := e.counterOf(from)
	if k.Reset && k.Born > old.Born {
		e.state = stint.State{}
		e.settle(e.state, now, stint.MaxInstant, now)
	}
	e.settleNext(c, n.settledAt(), now)
	taken, given := k.Beyond(&old)
	if late := min(taken, k.Late-min(k.Late, k.Taken-taken)); e.kind == window && late > 0 { // taken in windows that have ended
		if at := now - now%stint.Instant(e.per) - 1; at > e.nextAt {
			e.open(c, at)
			c.Count = wire.Count{Born: k.Born, Taken: k.Late, Given: min(k.Given, k.Late)}
			taken -= late
			defer func() { e.raise(e.replay(now), now) }()
		}
	}
	e.open(c, now)
	c.Count = k.Count
	e.debit(&e.state, taken, given, now)
	return true
}

// addRemoteLocked adds an entry for a key that another node reported. It copies the key.
func (n *Node) addRemoteLocked(sh *shard, key stint.Key, l *stint.Limit, now stint.Instant) *entry {
	return n.putLocked(sh, newEntry(stint.Key(strings.Clone(string(key))), l, n.id), now)
}

// receiveEntries handles a part of the answer to a repair request.
func (n *Node) receiveEntries(r *wire.Reader, periods bool, from uint64, now stint.Instant) {
	if n.before(from, now).stale {
		return
	}
	nonce, part, total := r.Number(), r.Number(), r.Number()
	sent := stint.Instant(min(r.Number(), uint64(stint.MaxInstant)))
	var covers []wire.Progress
	if total > 0 {
		covers = r.Progress(periods)
	}
	for r.More() {
		if it := r.Entry(periods, now); r.Err == nil {
			n.noteOrigins(it.Counts, now)
			it.Limit.ForStores().Rebase(&it.State, sent, now)
			it.Limit.ForStores().Rebase(&it.Settled, sent, now)
			n.merge(&it, now)
		}
	}
	if r.Err != nil {
		return
	}
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.repairs[from]
	if w == nil || w.nonce != nonce {
		t.lateReplyLocked(from, nonce)
		return
	}
	w.parts[part], w.round = true, t.round
	if total > 0 {
		w.total, w.covers = total, covers
	}
	if w.total == 0 || uint64(len(w.parts)) < w.total {
		return
	}
	delete(t.repairs, from)
	t.slow[from] = slowPeer{nonce: nonce}
	t.synced = t.synced || w.all
	for _, k := range w.covers {
		if k.Origin == n.id {
			continue
		}
		at := now.Add(-k.Ago)
		o := t.originLocked(k.Origin, at)
		if _, peer := slices.BinarySearch(t.peers, k.Origin); !peer && o.complete == 0 {
			o.seen = at // it is gone: let no node remember it for longer than the others do
		}
		o.left = o.left || k.Left
		o.completeLocked(k.Number, at)
	}
}

// noteOrigins stores the nodes that counts belong to, which may be gone.
func (n *Node) noteOrigins(counts []wire.OriginCount, now stint.Instant) {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	for i := range counts {
		if id := counts[i].Origin; id != n.id {
			n.session.originLocked(id, now)
		}
	}
}
