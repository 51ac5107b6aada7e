package gossip

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"stint"
)

// How long things take, in intervals unless they say otherwise.
const (
	lateAfter   = 10  // news that come so long after what came before are old
	missesFor   = 3   // a message that is missing so long is asked for
	beatsEvery  = 10  // a node that has nothing to tell says so
	wantLasts   = 10  // an answer that has not come by then is asked for again
	compareEach = 100 // two nodes compare what they know
	firstAsked  = 3   // so many are asked for everything at a time, by a new node
	mostDoubled = 4   // who takes long to answer has twice the time for the next one, so often
	lateAge     = 1e4 // of questions: what answers an older one is no answer to this node

	restful   = time.Second      // a key that is as untouched for so long had a rest
	margin    = 10 * time.Second // who takes of a key as untouched for so long begins a new count
	deadAfter = 30 * time.Minute // counts of a node that was not heard for so long are not told
	goneAfter = time.Hour        // and those are forgotten
)

// session is what a node knows of the others. Its lock may be taken under that of a shard, and no
// other is taken under it.
type session struct {
	mu      sync.Mutex // guards what follows
	rand    *rand.Rand
	round   uint64
	said    uint64 // round in which something was told last
	ticked  stint.Instant
	woke    stint.Instant // when this node found that it had stood still; 0: it never did
	peers   []uint64
	origins map[uint64]*origin
	wants   map[uint64]*wanted // by who was asked
	late    map[uint64]late    // by who answered
	whole   bool               // somebody told all it knows, since this node began
	nonce   uint64
	asked   map[uint64]*Question
	foreign map[uint64]bool // peers of which is known that they are of another release
}

// origin is what was heard of a node's messages.
type origin struct {
	number  uint64        // up to this, all of them
	later   uint64        // bit i: number+2+i too
	most    uint64        // the largest that it is known to have sent
	whole   stint.Instant // when none was missing last; 0: never
	missing int           // rounds since some are
	spoke   stint.Instant // when any message of it came last
}

// wanted is a question that was put to a peer.
type wanted struct {
	nonce uint64
	round uint64
	all   bool
	parts map[uint64]bool // of the answer, that have come
	total uint64          // parts that there are, 0: not known yet
	upTo  []known         // what the answer covers
}

// late is a peer whose answers came after they were given up.
type late struct {
	nonce uint64 // the last question that it answered, however late
	times int    // how many answers came too late, since one came in time
}

func (t *session) init(seed uint64) {
	t.rand = rand.New(rand.NewPCG(seed, 7))
	t.origins = make(map[uint64]*origin)
	t.wants = make(map[uint64]*wanted)
	t.late = make(map[uint64]late)
	t.asked = make(map[uint64]*Question)
	t.foreign = make(map[uint64]bool)
	t.nonce = t.rand.Uint64()
}

// live returns how many peers there are.
func (t *session) live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// Meet says that another node can be reached. It is told all from now on.
func (n *Node) Meet(peer uint64) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, there := slices.BinarySearch(t.peers, peer); !there && peer != n.id {
		t.peers = slices.Insert(t.peers, i, peer)
	}
}

// Part says that another node cannot be reached any more. What it took is not forgotten.
func (n *Node) Part(peer uint64) {
	t := &n.session
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, there := slices.BinarySearch(t.peers, peer); there {
		t.peers = slices.Delete(t.peers, i, i+1)
	}
	delete(t.wants, peer)
	delete(t.late, peer)
	delete(t.foreign, peer)
	for _, q := range t.asked {
		q.partLocked(peer)
	}
}

// Whole says whether somebody told this node all it knew, or nobody is there who could.
func (n *Node) Whole() bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	return n.session.whole || len(n.session.peers) == 0
}

// wakeLocked notes whether this node stood still. News that waited for it are not of now, and
// do not say of when: what they tell is asked for. One that knows nothing yet takes all.
func (t *session) wakeLocked(now stint.Instant, interval time.Duration) {
	if t.whole && now.Sub(t.ticked) > max(lateAfter*interval, time.Second) {
		t.woke, t.ticked = now, now
	}
}

// originLocked returns what is known of a node's messages.
func (t *session) originLocked(id uint64, now stint.Instant) *origin {
	o := t.origins[id]
	if o == nil {
		o = &origin{spoke: now}
		t.origins[id] = o
	}
	return o
}

// noteLocked notes that a message was heard.
func (o *origin) noteLocked(number uint64, now stint.Instant) {
	o.most, o.spoke = max(o.most, number), now
	switch {
	case number <= o.number:
	case number == o.number+1:
		o.advanceLocked(1)
	case number-o.number-2 < 64:
		o.later |= 1 << (number - o.number - 2)
	}
	o.seenLocked(now)
}

// raiseLocked notes that all up to a number is known, and was all there was at a time.
func (o *origin) raiseLocked(number uint64, at stint.Instant) {
	if number > o.number {
		o.advanceLocked(number - o.number)
	}
	o.most = max(o.most, o.number)
	o.seenLocked(at)
}

// advanceLocked raises the number, and goes on over what was heard already.
func (o *origin) advanceLocked(by uint64) {
	o.number += by
	next := o.later >> (by - 1) // bit i: number+1+i
	for next&1 != 0 {
		o.number++
		next >>= 1
	}
	o.later = next >> 1
}

// seenLocked notes whether anything was missing at a time.
func (o *origin) seenLocked(at stint.Instant) {
	if o.most <= o.number {
		o.whole, o.missing = max(o.whole, at), 0
	}
}

// vectorLocked returns what was heard of everybody who is not long dead, this node's own
// messages among it.
func (n *Node) vectorLocked(now stint.Instant) []known {
	list := []known{{origin: n.id, number: n.number.Load()}}
	for id, o := range n.session.origins {
		if now.Sub(o.spoke) < deadAfter {
			list = append(list, known{id, o.number, now.Sub(o.whole)})
		}
	}
	slices.SortFunc(list[1:], func(a, b known) int {
		if a.origin < b.origin {
			return -1
		}
		return 1
	})
	return list
}
