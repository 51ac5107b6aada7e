package eventual

import (
	"sync"

	"stint"
)

// pool holds the entries of a rule, or of all rules that say nothing of places. A hand goes
// round over them when one has to go (CLOCK): who was asked for since it last came by stays
// for another round, so those go first that were not asked for longest, nearly.
type pool struct {
	mu     sync.Mutex
	places int // at most; 0: as many as memory is for
	ring   []*entry
	hand   int
	broom  int // of sweep
	stuck  int // steps of the hand since anybody went
}

// steps is how far the hand goes for one who wants a place: then it is refused, and decided
// by the store.
const steps = 64

// pool returns where the entries of a take belong.
func (n *Node) pool(t *stint.Take) *pool {
	if t.Terms() == nil || t.Terms().Keys == 0 {
		return n.common
	}
	if known, ok := n.pools.Load(t.Terms()); ok {
		return known.(*pool)
	}
	n.naming.Lock()
	defer n.naming.Unlock()
	name := [2]string{t.Terms().Domain, t.Terms().Rule}
	p := n.names[name]
	if p == nil {
		p = new(pool)
		n.names[name] = p
	}
	p.mu.Lock()
	p.places = t.Terms().Keys
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
		if !n.shrink(now) {
			n.bytes.Add(-e.size())
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.places > 0 && len(p.ring) >= p.places {
		if !n.evictLocked(p, now) {
			n.bytes.Add(-e.size())
			return false
		}
	}
	e.slot = len(p.ring)
	p.ring = append(p.ring, e)
	return true
}

// shrink lets one go of the pool that holds most.
func (n *Node) shrink(now stint.Instant) bool {
	big := n.common
	n.naming.Lock()
	for _, p := range n.names {
		if p.size() > big.size() {
			big = p
		}
	}
	n.naming.Unlock()
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
	for range min(steps, len(p.ring)) {
		if p.hand >= len(p.ring) {
			p.hand = 0
		}
		e := p.ring[p.hand]
		p.stuck++
		if n.leaves(e, now, p.stuck > 2*len(p.ring)) {
			n.removeLocked(p, e)
			n.count.evicted.Add(1)
			p.stuck = 0
			return true
		}
		p.hand++
	}
	return false
}

// leaves lets an entry go, if it may.
func (n *Node) leaves(e *entry, now stint.Instant, hard bool) bool {
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
	case !hard && e.overLocked(now):
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
	n.unbar(e)
}

// remove takes an entry that is dead out.
func (n *Node) remove(e *entry) {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n.removeLocked(p, e)
}

// sweepParts is in how many ticks all entries are looked at.
const sweepParts = 256

// sweep lets some go of whom there is nothing to know, because they are as if never touched.
func (n *Node) sweep(p *pool, now stint.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range len(p.ring)/sweepParts + 1 {
		if len(p.ring) == 0 {
			return
		}
		if p.broom >= len(p.ring) {
			p.broom = 0
		}
		if e := p.ring[p.broom]; n.idle(e, now) {
			n.removeLocked(p, e)
			continue
		}
		p.broom++
	}
}

// idle lets an entry go that is as if never touched, and was not asked for lately.
func (n *Node) idle(e *entry, now stint.Instant) bool {
	if e.queued.Load() || !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	if e.dead || e.dirtyLocked() || !e.limit.Untouched(&e.state, e.home.now(now)) {
		return false
	}
	e.dead = !e.used
	e.used = false
	return e.dead
}
