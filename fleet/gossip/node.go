package gossip

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
	"stint/internal/system"
	"stint/internal/transaction"
)

// Defaults of Options.
const (
	DefaultInterval = 100 * time.Millisecond
	DefaultKeys     = 1 << 20
)

// Options are the optional parts of a Node. The zero value is ready to use.
type Options struct {
	// Interval is the time between two reports to the other nodes; 0 means DefaultInterval. A
	// longer one costs fewer messages and admits more above the limit.
	Interval time.Duration

	// Keys is the number of keys that a node stores; 0 means DefaultKeys. Above it the node
	// evicts keys that are nearly unused.
	Keys int

	// Seed is the seed of everything random, including the number of the node, so that a
	// simulation can be repeated. 0 means a random seed, which is what a server wants.
	Seed uint64
}

// shards is the number of parts that the keys are divided into, each with its own lock.
const shards = 64

// Node stores what one process knows of the use of all nodes. It is safe for concurrent use and
// never blocks. Its user carries its messages, see Tick and Receive. Times are those of this
// node; no two nodes need to agree on the time. The zero Node is not usable, see NewNode.
type Node struct {
	id       uint64
	interval time.Duration
	maxKeys  int // in one shard
	seed     system.Seed
	number   atomic.Uint64 // of the last report
	settled  atomic.Int64  // an Instant: all reports from before it have arrived
	shard    [shards]shard
	work     sync.Pool
	session  session
	count    statistics
	foreign  func(peer uint64) // called once for each peer of another release; nil: not called
}

// shard holds a part of the keys.
type shard struct {
	mu     sync.Mutex // guards the fields below
	keys   map[name]*entry
	dirty  []*entry
	latest system.Latest // the latest time of a take or a message
}

// name identifies an entry.
type name struct {
	key       stint.Key
	algorithm stint.Algorithm
}

func nameOf(t *stint.Take) name { return name{t.Key, t.Limit.Algorithm()} }

// NewNode returns a node without peers and without counts.
func NewNode(o Options) *Node {
	n := &Node{id: o.Seed, interval: cmp.Or(o.Interval, DefaultInterval), seed: system.NewSeed()}
	n.maxKeys = max(1, cmp.Or(o.Keys, DefaultKeys)/shards)
	if n.id == 0 {
		n.id = rand.Uint64() | 1
	} else {
		n.seed = system.Seed{o.Seed*2 + 3, o.Seed*4 + 5, o.Seed*8 + 9, o.Seed*16 + 17}
	}
	n.session.init(n.id)
	for i := range n.shard {
		n.shard[i].keys = make(map[name]*entry)
	}
	n.work.New = func() any { return &work{Plan: transaction.Plan[name]{Name: nameOf}} }
	return n
}

// ID returns the number of the node. It is another one after each start.
func (n *Node) ID() uint64 { return n.id }

// settledAt returns a time from before which all reports have arrived.
func (n *Node) settledAt() stint.Instant { return stint.Instant(n.settled.Load()) }

// Interval returns the time between two calls of Tick.
func (n *Node) Interval() time.Duration { return n.interval }

// Decide decides a call at a time from the counts of this node, see [stint.Store].
func (n *Node) Decide(call *stint.Call, now stint.Instant) error {
	if err := call.Check(); err != nil {
		return err
	}
	if err := transaction.CheckApart(call); err != nil {
		return err
	}
	call.SizeResults()
	joined := 0
	for i := range call.Takes {
		if !call.Takes[i].Independent {
			joined++
		}
	}
	if joined > 1 {
		if err := n.decideGroup(call, transaction.AllOrNone, now); err != nil {
			return err
		}
	}
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		switch {
		case !t.Independent && joined > 1:
		case t.Borrows > 0: // an independent take, and those that it borrows from
			if err := n.decideGroup(call, i, now); err != nil {
				return err
			}
			i += int(t.Borrows)
		case t.InsteadOf() > 0 && transaction.DeniedBeside(call, i):
			look := *t
			transaction.Peek(&look)
			n.decideOne(&look, call.At, now, &call.Results[i])
			transaction.Uncharged(t, &call.Results[i])
		default:
			n.decideOne(t, call.At, now, &call.Results[i])
		}
	}
	return nil
}

// timeLocked returns the time at which to decide a take: at if the call sets it, else now.
func (sh *shard) timeLocked(at, now stint.Instant) stint.Instant {
	if at != 0 {
		return at
	}
	return sh.latest.Of(now)
}

// decideOne decides a single take.
func (n *Node) decideOne(t *stint.Take, at, now stint.Instant, d *stint.Decision) {
	var none stint.State
	if t.Limit.Algorithm() == stint.Unlimited {
		*d = apply(t, &none, cmp.Or(at, now))
		return
	}
	if t.Loan() != nil {
		t.Loan().Answer(stint.Epoch{})
	}
	sh := n.shardOf(t.Limit.Algorithm(), t.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.timeLocked(at, now)
	if !wire.Countable(t.Limit) {
		delete(sh.keys, nameOf(t)) // such a limit keeps no state
		*d = apply(t, &none, now)
		return
	}
	e := sh.keys[nameOf(t)]
	charges := t.Op.Asks() && t.Cost > 0 || t.Op == stint.Force
	if e == nil {
		if !charges && t.Op != stint.Reset {
			*d = apply(t, &none, now)
			return
		}
		e = n.addLocked(sh, t, now)
	}
	n.prepare(e, t.Limit, now)
	e.setTerms(t)
	if t.Op == stint.Ask && e.plain {
		if *d = t.Limit.Take(&e.state, now, uint64(t.Cost)); d.Allowed && t.Cost > 0 {
			e.own.Taken += uint64(t.Cost)
			sh.touchLocked(e)
		}
		return
	}
	if t.Op == stint.AskAtMost && e.plain {
		if *d = t.Limit.TakeAtMost(&e.state, now, uint64(t.Cost)); d.Charged > 0 {
			e.own.Taken += uint64(d.Charged)
			sh.touchLocked(e)
		}
		return
	}
	before := t.Limit.ForStores().Used(&e.state, now)
	*d = apply(t, &e.state, now)
	n.chargedLocked(sh, e, t, before, now)
}

// apply executes the operation of a take on a state.
func apply(t *stint.Take, st *stint.State, now stint.Instant) stint.Decision {
	r := transaction.Record{State: *st, Limit: t.Limit}
	d := r.Apply(t.Op, t.Limit, now, uint64(t.Cost), t.Undo)
	*st = r.State
	return d
}

// prepare brings an entry up to date before a decision under a limit.
func (n *Node) prepare(e *entry, l *stint.Limit, now stint.Instant) {
	e.changeLimit(l, now)
	e.open(&e.own, now)
	e.startCount(n.number.Load()+1, now)
}

// chargedLocked counts the units that a take charged or gave back.
func (n *Node) chargedLocked(sh *shard, e *entry, t *stint.Take, before int64, now stint.Instant) {
	if t.Op == stint.Reset {
		e.clear(n.number.Load()+1, now)
		sh.touchLocked(e)
		return
	}
	if after := e.limit.ForStores().Used(&e.state, now); after != before {
		e.charge(before, after)
		sh.touchLocked(e)
	}
}

// touchLocked adds an entry to those of the next report.
func (sh *shard) touchLocked(e *entry) {
	if !e.dirty {
		e.dirty = true
		sh.dirty = append(sh.dirty, e)
	}
}

// at returns the index of the shard of a key.
func (n *Node) at(a stint.Algorithm, key stint.Key) int {
	return int(n.seed.Sum(uint8(a), string(key)) % shards)
}

func (n *Node) shardOf(a stint.Algorithm, key stint.Key) *shard { return &n.shard[n.at(a, key)] }

// addLocked adds an entry for the key of a take. It copies the key.
func (n *Node) addLocked(sh *shard, t *stint.Take, now stint.Instant) *entry {
	return n.putLocked(sh, newEntry(stint.Key(strings.Clone(string(t.Key))), t.Limit, n.id), now)
}

func (n *Node) putLocked(sh *shard, e *entry, now stint.Instant) *entry {
	if len(sh.keys) >= n.maxKeys {
		n.evictLocked(sh, now)
	}
	sh.keys[name{e.key, e.limit.Algorithm()}] = e
	return e
}

// evictLocked removes one of 16 entries: the one that expires first. It removes one that is over
// its limit only if all of them are. Entries with counts to report stay.
func (n *Node) evictLocked(sh *shard, now stint.Instant) {
	var worst *entry
	least, seen := stint.MaxInstant*2, 0
	for _, e := range sh.keys {
		if e.dirty {
			continue // its count is not reported yet
		}
		rank := e.limit.ForStores().Expiry(&e.state)
		if rank > now && e.limit.ForStores().Used(&e.state, now) >= e.limit.Capacity() {
			rank += stint.MaxInstant
		}
		if worst == nil || rank < least {
			worst, least = e, rank
		}
		if seen++; seen == 16 {
			break
		}
	}
	if worst != nil {
		delete(sh.keys, name{worst.key, worst.limit.Algorithm()})
		n.count.evicted.Add(1)
	}
}

// work is a group of takes that are decided together, all or none.
type work struct {
	transaction.Plan[name]
	places []place
	locked []int
}

// place is where the state of one part of a group lies.
type place struct {
	shard      int
	entry      *entry
	usedBefore int64
}

// decideGroup decides a group of takes, all or none. It holds the locks of all their shards
// meanwhile.
func (n *Node) decideGroup(call *stint.Call, group int, now stint.Instant) error {
	w := n.work.Get().(*work)
	defer n.work.Put(w)
	if err := w.Collect(call, group); err != nil {
		return err
	}
	w.places, w.locked = w.places[:0], w.locked[:0]
	for i := range w.Parts {
		t := w.Parts[i].Take
		at := n.at(t.Limit.Algorithm(), t.Key)
		w.places = append(w.places, place{shard: at})
		w.locked = append(w.locked, at)
	}
	slices.Sort(w.locked)
	w.locked = slices.Compact(w.locked)
	for _, i := range w.locked {
		n.shard[i].mu.Lock()
	}
	for i := range w.Parts {
		n.loadLocked(&w.Parts[i], &w.places[i], n.shard[w.places[i].shard].timeLocked(call.At, now))
	}
	pass := w.Decide()
	for i := range w.Parts {
		h := &w.places[i]
		if h.entry == nil {
			continue
		}
		h.entry.state = w.Parts[i].Record.State
		if pass || w.Parts[i].Take.Op != stint.Reset {
			n.chargedLocked(&n.shard[h.shard], h.entry, w.Parts[i].Take, h.usedBefore, w.Parts[i].At)
		}
	}
	for _, i := range w.locked {
		n.shard[i].mu.Unlock()
	}
	w.Answer(call)
	clear(w.places)
	return nil
}

// loadLocked gives a part the state of its key. A key without an entry gets one only if the take
// changes it.
func (n *Node) loadLocked(p *transaction.Part[name], h *place, now stint.Instant) {
	t, sh := p.Take, &n.shard[h.shard]
	p.At = now
	if !wire.Countable(t.Limit) {
		delete(sh.keys, nameOf(t))
	}
	e := sh.keys[nameOf(t)]
	if e == nil && wire.Countable(t.Limit) && (p.Charges() || t.Op == stint.Reset) {
		e = n.addLocked(sh, t, now)
	}
	if e == nil {
		return
	}
	n.prepare(e, t.Limit, now)
	e.setTerms(t)
	p.Record, h.entry, h.usedBefore = transaction.Record{State: e.state, Limit: t.Limit}, e, t.Limit.ForStores().Used(&e.state, now)
}

// statistics are the counters behind Stats.
type statistics struct {
	evicted, sent, bytes, pairs, received, receivedBytes, repairs, damaged, foreign, queries atomic.Uint64
}

// Stats are figures of a Node.
type Stats struct {
	Keys          int64  // stored now
	Peers         int64  // nodes that reports go to
	Sent          uint64 // messages, counted once for each peer
	Bytes         uint64 // sent
	Pairs         uint64 // changed counts in reports, counted once however many peers there are
	Received      uint64 // messages
	ReceivedBytes uint64 // of received messages
	Repairs       uint64 // requests for missing reports
	Damaged       uint64 // messages that could not be decoded
	Foreign       uint64 // messages in the format of another release
	Evicted       uint64 // keys removed because there were too many
	Asked         uint64 // queries, counted once for each peer
}

// Stats returns the current figures.
func (n *Node) Stats() Stats {
	c := &n.count
	st := Stats{
		Sent: c.sent.Load(), Bytes: c.bytes.Load(), Pairs: c.pairs.Load(), Received: c.received.Load(),
		ReceivedBytes: c.receivedBytes.Load(), Repairs: c.repairs.Load(), Damaged: c.damaged.Load(), Foreign: c.foreign.Load(),
		Evicted: c.evicted.Load(), Asked: c.queries.Load(), Peers: int64(n.session.live()),
	}
	for i := range n.shard {
		n.shard[i].mu.Lock()
		st.Keys += int64(len(n.shard[i].keys))
		n.shard[i].mu.Unlock()
	}
	return st
}
