package gossip

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
)

// Times and counts, in intervals where no unit is given.
const (
	staleAfter    = 10  // reports that come this long after the last complete time are old
	repairAfter   = 3   // age of a gap at which the missing report is requested
	beatEvery     = 10  // a node without changes sends its last number this often
	repairTimeout = 10  // an unanswered repair request is repeated after this
	compareEvery  = 100 // two nodes compare all their counts this often
	firstRepairs  = 3   // peers that a new node asks for everything at the same time
	maxDoublings  = 4   // how often the time for a slow peer is doubled
	maxReplyAge   = 1e4 // requests; answers to older ones are ignored

	margin       = 10 * time.Second // a take of a key that was untouched for this long starts a new count
	unsettledFor = time.Minute      // while reports are missing, an untouched key stays this long
	deadAfter    = 30 * time.Minute // counts of a node that was silent for this long are not sent on
	goneAfter    = time.Hour        // and after this they are removed

	periods   = 8  // of a bucket, until it is full
	maxMarks  = 16 // of one node and key
	manyMarks = 6  // no more are needed while no report is missing
)

// session is what a node knows of the other nodes. Its lock may be taken while a shard is locked.
// No other lock is taken while it is held.
type session struct {
	mu        sync.Mutex // guards the fields below
	rand      *rand.Rand
	round     uint64
	sentRound uint64 // round of the last report or beat
	ticked    stint.Instant
	resumed   stint.Instant // when this node noticed that it had stood still; 0: never
	peers     []uint64
	origins   map[uint64]*origin
	repairs   map[uint64]*repair  // open requests by peer
	slow      map[uint64]slowPeer // by peer
	synced    bool                // a peer has sent all its counts since this node started
	nonce     uint64
	queries   map[uint64]*Query
	foreign   map[uint64]bool // peers known to be of another release
}

// origin is which reports of a node were received.
type origin struct {
	upTo     uint64        // all reports up to this number
	beyond   uint64        // bit i: also report upTo+2+i
	highest  uint64        // largest number that the node is known to have sent
	complete stint.Instant // the last time at which none was missing; 0: never
	missing  int           // rounds since one is missing
	since    stint.Instant // when this node heard of it
	dead     stint.Instant // the last time at which it was dead; 0: never
	left     bool          // it stopped after its last report
	seen     stint.Instant // time of the last message of any kind
}

// repair is an open repair request.
type repair struct {
	nonce  uint64
	round  uint64
	all    bool
	parts  map[uint64]bool // messages of the answer received so far
	total  uint64          // messages of the answer; 0: not known yet
	covers []wire.Progress // progress that the answer covers
}

// slowPeer is a peer whose answers came too late.
type slowPeer struct {
	nonce uint64 // of the last request that it answered, however late
	times int    // late answers since the last one in time
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

// live returns the number of peers.
func (t *session) live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// AddPeer adds a node that can be reached. It gets all reports from now on.
func (n *Node) AddPeer(peer uint64) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, there := slices.BinarySearch(t.peers, peer); !there && peer != n.id {
		t.peers = slices.Insert(t.peers, i, peer)
	}
}

// RemovePeer removes a node that cannot be reached any more. Its counts stay.
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

// Synced reports whether a peer has sent this node all its counts, or there is no peer.
func (n *Node) Synced() bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	return n.session.synced || len(n.session.peers) == 0
}

// detectPauseLocked notes whether this node stood still. Messages that waited meanwhile are old,
// and their age is unknown; the node requests their content again. A node that is not synced yet
// accepts all messages.
func (t *session) detectPauseLocked(now stint.Instant, interval time.Duration) {
	if t.synced && now.Sub(t.ticked) > max(staleAfter*interval, time.Second) {
		t.resumed, t.ticked = now, now
	}
}

// originLocked returns the progress of a node, creating it.
func (t *session) originLocked(id uint64, now stint.Instant) *origin {
	o := t.origins[id]
	if o == nil {
		o = &origin{seen: now, since: now}
		t.origins[id] = o
	}
	return o
}

// knew reports whether this node knew at a time that takes of another one may be missing.
func (t *session) knew(id uint64, at stint.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.origins[id]
	return o != nil && o.since <= at
}

// gaveUp reports whether this node did not wait for the reports of another one at a time, or later,
// because it was dead.
func (t *session) gaveUp(id uint64, at stint.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.origins[id]
	return o != nil && o.dead > at
}

// receivedLocked notes that a report was received.
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

// completeLocked notes that all reports up to a number were received, and that none was missing
// at a time.
func (o *origin) completeLocked(number uint64, at stint.Instant) {
	if number > o.upTo {
		o.advanceLocked(number - o.upTo)
	}
	o.highest = max(o.highest, o.upTo)
	o.checkCompleteLocked(at)
}

// advanceLocked raises upTo by some reports, and past those received earlier.
func (o *origin) advanceLocked(by uint64) {
	o.upTo += by
	next := o.beyond >> (by - 1) // bit i: report upTo+1+i
	for next&1 != 0 {
		o.upTo++
		next >>= 1
	}
	o.beyond = next >> 1
}

// checkCompleteLocked notes that no report was missing at a time, if that is so.
func (o *origin) checkCompleteLocked(at stint.Instant) {
	if o.highest <= o.upTo {
		o.complete, o.missing = max(o.complete, at), 0
	}
}

// vectorLocked returns the progress of all nodes that are not dead, and of this one.
func (n *Node) vectorLocked(now stint.Instant) []wire.Progress {
	list := []wire.Progress{{Origin: n.id, Number: n.number.Load()}}
	for id, o := range n.session.origins {
		if now.Sub(o.seen) < deadAfter {
			list = append(list, wire.Progress{Origin: id, Number: o.upTo, Ago: now.Sub(o.complete), Left: o.left})
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
