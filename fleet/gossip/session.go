package gossip

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
)

// How long things take, in intervals unless they say otherwise.
const (
	staleAfter    = 10  // news that come so long after what came before are old
	repairAfter   = 3   // a message that is missing so long is asked for
	beatEvery     = 10  // a node that has nothing to tell says so
	repairTimeout = 10  // an answer that has not come by then is asked for again
	compareEvery  = 100 // two nodes compare what they know
	firstRepairs  = 3   // so many are asked for everything at a time, by a new node
	maxDoublings  = 4   // who takes long to answer has twice the time for the next one, so often
	maxReplyAge   = 1e4 // of questions: what answers an older one is no answer to this node

	restAfter = time.Second      // a key that is as untouched for so long had a rest
	margin    = 10 * time.Second // who takes of a key as untouched for so long begins a new count
	deadAfter = 30 * time.Minute // counts of a node that was not heard for so long are not told
	goneAfter = time.Hour        // and those are forgotten
)

// session is what a node knows of the others. Its lock may be taken under that of a shard, and no
// other is taken under it.
type session struct {
	mu        sync.Mutex // guards what follows
	rand      *rand.Rand
	round     uint64
	sentRound uint64 // round in which something was told last
	ticked    stint.Instant
	resumed   stint.Instant // when this node found that it had stood still; 0: it never did
	peers     []uint64
	origins   map[uint64]*origin
	repairs   map[uint64]*repair  // by who was asked
	slow      map[uint64]slowPeer // by who answered
	synced    bool                // somebody told all it knows, since this node began
	nonce     uint64
	queries   map[uint64]*Query
	foreign   map[uint64]bool // peers of which is known that they are of another release
}

// origin is what was heard of a node's messages.
type origin struct {
	upTo     uint64        // up to this, all of them
	beyond   uint64        // bit i: number+2+i too
	highest  uint64        // the largest that it is known to have sent
	complete stint.Instant // when none was missing last; 0: never
	missing  int           // rounds since some are
	seen     stint.Instant // when any message of it came last
}

// repair is a question that was put to a peer.
type repair struct {
	nonce  uint64
	round  uint64
	all    bool
	parts  map[uint64]bool // of the answer, that have come
	total  uint64          // parts that there are, 0: not known yet
	covers []wire.Progress // what the answer covers
}

// slowPeer is a peer whose answers came after they were given up.
type slowPeer struct {
	nonce uint64 // the last question that it answered, however late
	times int    // how many answers came too late, since one came in time
}

func (t *session) init(seed uint64) {
	t.rand = rand.New(rand.NewPCG(seed, 7))
	t.origins = make(map[uint64]*origin)
	t.repairs = make(map[uint64]*repair)
	t.slow = make(map[uint64]slowPeer)
	t.queries = make(map[uint64]*Query)
	t.foreign = make(map[uint64]bool)
	t.nonce = t.rand.Uint64()
}

// live returns how many peers there are.
func (t *session) live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// AddPeer says that another node can be reached. It is told all from now on.
func (n *Node) AddPeer(peer uint64) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, there := slices.BinarySearch(t.peers, peer); !there && peer != n.id {
		t.peers = slices.Insert(t.peers, i, peer)
	}
}

// RemovePeer says that another node cannot be reached any more. What it took is not forgotten.
func (n *Node) RemovePeer(peer uint64) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, there := slices.BinarySearch(t.peers, peer); there {
		t.peers = slices.Delete(t.peers, i, i+1)
	}
	delete(t.repairs, peer)
	delete(t.slow, peer)
	delete(t.foreign, peer)
	for _, q := range t.queries {
		q.removeLocked(peer)
	}
}

// Synced says whether somebody told this node all it knew, or nobody is there who could.
func (n *Node) Synced() bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	return n.session.synced || len(n.session.peers) == 0
}

// detectPauseLocked notes whether this node stood still. News that waited for it are not of now, and
// do not say of when: what they tell is asked for. One that knows nothing yet takes all.
func (t *session) detectPauseLocked(now stint.Instant, interval time.Duration) {
	if t.synced && now.Sub(t.ticked) > max(staleAfter*interval, time.Second) {
		t.resumed, t.ticked = now, now
	}
}

// originLocked returns what is known of a node's messages.
func (t *session) originLocked(id uint64, now stint.Instant) *origin {
	o := t.origins[id]
	if o == nil {
		o = &origin{seen: now}
		t.origins[id] = o
	}
	return o
}

// receivedLocked notes that a message was heard.
func (o *origin) receivedLocked(number uint64, now stint.Instant) {
	o.highest, o.seen = max(o.highest, number), now
	switch {
	case number <= o.upTo:
	case number == o.upTo+1:
		o.advanceLocked(1)
	case number-o.upTo-2 < 64:
		o.beyond |= 1 << (number - o.upTo - 2)
	}
	o.checkCompleteLocked(now)
}

// completeLocked notes that all up to a number is known, and was all there was at a time.
func (o *origin) completeLocked(number uint64, at stint.Instant) {
	if number > o.upTo {
		o.advanceLocked(number - o.upTo)
	}
	o.highest = max(o.highest, o.upTo)
	o.checkCompleteLocked(at)
}

// advanceLocked raises the number, and goes on over what was heard already.
func (o *origin) advanceLocked(by uint64) {
	o.upTo += by
	next := o.beyond >> (by - 1) // bit i: number+1+i
	for next&1 != 0 {
		o.upTo++
		next >>= 1
	}
	o.beyond = next >> 1
}

// checkCompleteLocked notes whether anything was missing at a time.
func (o *origin) checkCompleteLocked(at stint.Instant) {
	if o.highest <= o.upTo {
		o.complete, o.missing = max(o.complete, at), 0
	}
}

// vectorLocked returns what was heard of everybody who is not long dead, this node's own
// messages among it.
func (n *Node) vectorLocked(now stint.Instant) []wire.Progress {
	list := []wire.Progress{{Origin: n.id, Number: n.number.Load()}}
	for id, o := range n.session.origins {
		if now.Sub(o.seen) < deadAfter {
			list = append(list, wire.Progress{Origin: id, Number: o.upTo, Ago: now.Sub(o.complete)})
		}
	}
	slices.SortFunc(list[1:], func(a, b wire.Progress) int {
		if a.Origin < b.Origin {
			return -1
		}
		return 1
	})
	return list
}
