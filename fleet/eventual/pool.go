package eventual

import (
	"sync"

	"stint"
)

// pool holds the entries of a rule, or of all rules that say nothing of places. A hand goes
// round over them when one has to go (CLOCK): who was asked for since it last came by stays
// for another round, so those go first that were not asked for longest, nearly.
type pool struct {
	mu        sync.Mutex
	capacity  int // at most; 0: as many as memory is for
	ring      []*entry
	hand      int
	sweepHand int // of sweep
	stuck     int // steps of the hand since anybody went
}

// maxSteps is how far the hand goes for one who wants a place: then it is refused, and decided
// by the store.
const maxSteps = 64

// pool returns where the entries of a take belong.
func (n *Node) pool(t *stint.Take) *pool {
	if t.Terms() == nil || t.Terms().Keys == 0 {
		return n.commonPool
	}
	if known, ok := n.pools.Load(t.Terms()); ok {
		return known.(*pool)
	}
	n.poolsMu.Lock()
	defer n.poolsMu.Unlock()
	name := [2]string{t.Terms().Domain, t.Terms().Rule}
	p := n.poolsByRule[name]
	if p == nil {
		p = new(pool)
		n.poolsByRule[name] = p
	}
	p.mu.Lock()
	p.capacity = t.Terms().Keys
	p.mu.Unlock()
	n.pools.Range(func(old, of any) bool { // of rules that were replaced
		if of == p {
			n.pools.Delete(old)
		}
		return true
	})
	n.pools.Store(t.Terms(), p)
	return p
}

// admit gives an entry a place, where another has to go for it if need be; false where none
// can.
func (n *Node) admit(e *entry, now stint.Instant) bool {
	p := e.pool
	n.bytes.Add(e.size())
	for n.bytes.Load() > n.budget {
		if !n.evictLargest(now) {
			n.bytes.Add(-e.size())
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.capacity > 0 && len(p.ring) >= p.capacity {
		if !n.evictLocked(p, now) {
			n.bytes.Add(-e.size())
			return false
		}
	}
	e.slot = len(p.ring)
	p.ring = append(p.ring, e)
	return true
}

// evictLargest lets one go of the pool that holds most.
func (n *Node) evictLargest(now stint.Instant) bool {
	big := n.commonPool
	n.poolsMu.Lock()
	for _, p := range n.poolsByRule {
		if p.size() > big.size() {
			big = p
		}
	}
	n.poolsMu.Unlock()
	big.mu.Lock()
	defer big.mu.Unlock()
	return n.evictLocked(big, now)
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ring)
}

// evictLocked lets one go. Whoever the store has not been told all of stays, and is told of
// with the next tick; who has nothing left stays until the hand has found nobody else in
// a whole round.
func (n *Node) evictLocked(p *pool, now stint.Instant) bool {
	for range min(maxSteps, len(p.ring)) {
		if p.hand >= len(p.ring) {
			p.hand = 0
		}
		e := p.ring[p.hand]
		p.stuck++
		if n.tryEvict(e, now, p.stuck > 2*len(p.ring)) {
			n.removeLocked(p, e)
			n.count.evicted.Add(1)
			p.stuck = 0
			return true
		}
		p.hand++
	}
	return false
}

// tryEvict lets an entry go, if it may.
func (n *Node) tryEvict(e *entry, now stint.Instant, hard bool) bool {
	if !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	switch {
	case e.dead || e.dirtyLocked(): // who is dead already goes by itself
		return false
	case e.used:
		e.used = false
		return false
	case !hard && e.exhaustedLocked(now):
		return false
	}
	e.dead = true
	return true
}

// removeLocked takes an entry that is dead out of its pool and the table.
func (n *Node) removeLocked(p *pool, e *entry) {
	last := p.ring[len(p.ring)-1]
	p.ring[e.slot], last.slot = last, e.slot
	p.ring[len(p.ring)-1] = nil
	p.ring = p.ring[:len(p.ring)-1]
	n.bytes.Add(-e.size())
	n.keys.drop(e)
	n.clearUndecodable(e)
}

// remove takes an entry that is dead out.
func (n *Node) remove(e *entry) {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n.removeLocked(p, e)
}

// sweepTicks is in how many ticks all entries are looked at.
const sweepTicks = 256

// sweep lets some go of whom there is nothing to know, because they are as if never touched.
func (n *Node) sweep(p *pool, now stint.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range len(p.ring)/sweepTicks + 1 {
		if len(p.ring) == 0 {
			return
		}
		if p.sweepHand >= len(p.ring) {
			p.sweepHand = 0
		}
		if e := p.ring[p.sweepHand]; n.tryDropIdle(e, now) {
			n.removeLocked(p, e)
			continue
		}
		p.sweepHand++
	}
}

// tryDropIdle lets an entry go that is as if never touched, and was not asked for lately.
func (n *Node) tryDropIdle(e *entry, now stint.Instant) bool {
	if e.queued.Load() || !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	if e.dead || e.dirtyLocked() || !e.limit.Untouched(&e.state, e.server.now(now)) {
		return false
	}
	e.dead = !e.used
	e.used = false
	return e.dead
}
