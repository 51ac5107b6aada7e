package eventual

import (
	"sync"

	"stint"
)

// pool holds the entries of a rule, or of all rules that set no number of keys. It evicts by
// CLOCK: a hand moves round over the entries. An entry that was used since the hand last passed
// it stays for another round. So about the least recently used ones are evicted.
type pool struct {
	mu        sync.Mutex
	capacity  int // largest number of entries; 0: bounded by memory only
	ring      []*entry
	hand      int
	sweepHand int // position of sweep
	stuck     int // steps of the hand since the last eviction
}

// maxSteps is how far the hand moves for one new entry. If it finds no room, the store decides
// the take.
const maxSteps = 64

// pool returns the pool for the entry of a take.
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
	n.pools.Range(func(old, of any) bool { // remove the terms of replaced rules
		if of == p {
			n.pools.Delete(old)
		}
		return true
	})
	n.pools.Store(t.Terms(), p)
	return p
}

// admit adds an entry to its pool and evicts others if need be. It returns false if there is no
// room.
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

// evictLargest evicts one entry of the largest pool.
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

// evictLocked evicts one idle entry. An entry with unsent counts stays; they are sent at the next
// tick. One that is over its limit stays until the hand has found no other in two rounds.
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

// tryEvict marks an entry as dead if it may be evicted.
func (n *Node) tryEvict(e *entry, now stint.Instant, hard bool) bool {
	if !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	switch {
	case e.dead || e.dirtyLocked(): // a dead entry is removed elsewhere
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

// removeLocked removes a dead entry from its pool and the table.
func (n *Node) removeLocked(p *pool, e *entry) {
	last := p.ring[len(p.ring)-1]
	p.ring[e.slot], last.slot = last, e.slot
	p.ring[len(p.ring)-1] = nil
	p.ring = p.ring[:len(p.ring)-1]
	n.bytes.Add(-e.size())
	n.keys.drop(e)
	n.clearUndecodable(e)
}

// remove removes a dead entry from its pool and the table.
func (n *Node) remove(e *entry) {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n.removeLocked(p, e)
}

// sweepTicks is the number of ticks in which a sweep visits all entries.
const sweepTicks = 256

// sweep removes some of the entries that are untouched.
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

// tryDropIdle marks an entry as dead if it is untouched and was not used lately.
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
