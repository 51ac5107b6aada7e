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
	"stint/migrate"
)

// Where Options are silent.
const (
	DefaultInterval = 100 * time.Millisecond
	DefaultKeys     = 1 << 20
)

// Options are the optional parts of a Node. The zero value is ready to use.
type Options struct {
	// Interval is how often nodes tell each other what they took; 0 means
	// DefaultInterval. Longer costs fewer messages, and lets more pass too much.
	Interval time.Duration

	// Keys is of how many keys a node keeps what it knows; 0 means DefaultKeys. When there
	// are more, keys that are nearest to being as untouched are forgotten.
	Keys int

	// Seed fixes everything random, the node's number among it, so that a simulation can be
	// repeated. 0, which is what a server wants, is another one each time.
	Seed uint64
}

// shards is in how many parts keys are kept.
const shards = 64

// Node is what one process knows of what all nodes took. It is safe for concurrent use,
// and never blocks: who uses it carries its messages, see Tick and Receive. Times are this
// node's own; no two nodes need to agree on what time it is. The zero Node is not usable;
// see NewNode.
type Node struct {
	id       uint64
	interval time.Duration
	maxKeys  int // keys in a shard
	seed     system.Seed
	number   atomic.Uint64 // of the last message that told something
	shard    [shards]shard
	work     sync.Pool
	session  session
	count    statistics
	foreign  func(peer uint64) // is told once of each peer of another release; nil: nobody
}

// shard is a part of the keys.
type shard struct {
	mu     sync.Mutex // guards what follows
	keys   map[name]*entry
	dirty  []*entry
	latest system.Latest // time at which anything of it was decided or heard of
}

// name is what an entry is found by.
type name struct {
	key       stint.Key
	algorithm stint.Algorithm
}

func nameOf(t *stint.Take) name { return name{t.Key, t.Limit.Algorithm()} }

// NewNode returns a node that knows nothing, nobody among it.
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

// ID returns the node's number, another one after each start.
func (n *Node) ID() uint64 { return n.id }

// Interval returns how often Tick is to be called.
func (n *Node) Interval() time.Duration { return n.interval }

// Decide answers a call at a time from what this node knows, see [stint.Store].
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
		case t.Borrows > 0: // apart, with what it leans on
			if err := n.decideGroup(call, i, now); err != nil {
				return err
			}
			i += int(t.Borrows)
		default:
			n.decideOne(t, call.At, now, &call.Results[i])
		}
	}
	return nil
}

// timeLocked returns when to decide a take of a call that says when, or else came at now.
func (sh *shard) timeLocked(at, now stint.Instant) stint.Instant {
	if at != 0 {
		return at
	}
	return sh.latest.Of(now)
}

// decideOne decides a take by itself.
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
		delete(sh.keys, nameOf(t)) // nothing is carried over
		*d = apply(t, &none, now)
		return
	}
	e := sh.keys[nameOf(t)]
	charges := t.Op == stint.Ask && t.Cost > 0 || t.Op == stint.Force
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
	before := t.Limit.ForStores().Used(&e.state, now)
	*d = apply(t, &e.state, now)
	n.chargedLocked(sh, e, t, before, now)
}

// apply does what a take asks for to a state under its limit.
func apply(t *stint.Take, st *stint.State, now stint.Instant) stint.Decision {
	r := migrate.Record{State: *st, Limit: t.Limit}
	d := r.Apply(t.Op, t.Limit, now, uint64(t.Cost), t.Undo)
	*st = r.State
	return d
}

// prepare makes an entry ready to decide by a limit.
func (n *Node) prepare(e *entry, l *stint.Limit, now stint.Instant) {
	e.changeLimit(l, now)
	e.advance(now)
	e.startCount(n.number.Load()+1, now)
}

// chargedLocked counts what a take changed.
func (n *Node) chargedLocked(sh *shard, e *entry, t *stint.Take, before int64, now stint.Instant) {
	if t.Op == stint.Reset {
		e.clear(n.number.Load() + 1)
		sh.touchLocked(e)
		return
	}
	if after := e.limit.ForStores().Used(&e.state, now); after != before {
		e.charge(before, after)
		sh.touchLocked(e)
	}
}

// touchLocked notes that there is something to tell of an entry.
func (sh *shard) touchLocked(e *entry) {
	if !e.dirty {
		e.dirty = true
		sh.dirty = append(sh.dirty, e)
	}
}

// at returns the number of the shard of a key.
func (n *Node) at(a stint.Algorithm, key stint.Key) int {
	return int(n.seed.Sum(uint8(a), string(key)) % shards)
}

func (n *Node) shardOf(a stint.Algorithm, key stint.Key) *shard { return &n.shard[n.at(a, key)] }

// addLocked adds an entry for the key of a take, whose bytes are the caller's.
func (n *Node) addLocked(sh *shard, t *stint.Take, now stint.Instant) *entry {
	return n.putLocked(sh, newEntry(stint.Key(strings.Clone(string(t.Key))), t.Limit, now), now)
}

func (n *Node) putLocked(sh *shard, e *entry, now stint.Instant) *entry {
	if len(sh.keys) >= n.maxKeys {
		n.evictLocked(sh, now)
	}
	sh.keys[name{e.key, e.limit.Algorithm()}] = e
	return e
}

// evictLocked forgets a key: of some, the one that is as untouched soonest, one that is
// over its limit only if all of them are.
func (n *Node) evictLocked(sh *shard, now stint.Instant) {
	var worst *entry
	least, seen := stint.MaxInstant*2, 0
	for _, e := range sh.keys {
		if e.dirty {
			continue // nobody was told of it yet
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

// work is a group of takes that stand or fall together.
type work struct {
	transaction.Plan[name]
	places []place
	locked []int
}

// place is what a part of a group is decided on.
type place struct {
	shard      int
	entry      *entry
	usedBefore int64
}

// decideGroup decides a group of takes, all or none, with the shards of all its keys locked.
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

// loadLocked gives a part the state of its key, one that nobody keeps where it is not
// changed.
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
	p.Record, h.entry, h.usedBefore = migrate.Record{State: e.state, Limit: t.Limit}, e, t.Limit.ForStores().Used(&e.state, now)
}

// statistics are what Stats shows.
type statistics struct {
	evicted, sent, bytes, pairs, received, receivedBytes, repairs, damaged, foreign, asked atomic.Uint64
}

// Stats are the numbers of a Node.
type Stats struct {
	Keys          int64  // of which it knows something
	Peers         int64  // that it tells what it took
	Sent          uint64 // messages, one for each peer it went to
	Bytes         uint64 // of these
	Pairs         uint64 // changed counts that were told, whoever they went to
	Received      uint64 // messages
	ReceivedBytes uint64 // bytes of these
	Repairs       uint64 // times that it asked for what it had missed
	Damaged       uint64 // messages that it could not read
	Foreign       uint64 // messages in the format of another release
	Evicted       uint64 // keys that were forgotten because there were too many
	Asked         uint64 // questions about one key to one peer
}

// Stats returns the present numbers.
func (n *Node) Stats() Stats {
	c := &n.count
	st := Stats{
		Sent: c.sent.Load(), Bytes: c.bytes.Load(), Pairs: c.pairs.Load(), Received: c.received.Load(),
		ReceivedBytes: c.receivedBytes.Load(), Repairs: c.repairs.Load(), Damaged: c.damaged.Load(), Foreign: c.foreign.Load(),
		Evicted: c.evicted.Load(), Asked: c.asked.Load(), Peers: int64(n.session.live()),
	}
	for i := range n.shard {
		n.shard[i].mu.Lock()
		st.Keys += int64(len(n.shard[i].keys))
		n.shard[i].mu.Unlock()
	}
	return st
}
