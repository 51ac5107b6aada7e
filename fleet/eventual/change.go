package eventual

import (
	"context"

	"stint"
)

// Pause stops decisions on this node until the caller calls done. Begin returns a channel to wait
// for meanwhile. When Pause returns, no decision is in progress.
func (n *Node) Pause() (done func()) {
	gate := make(chan struct{})
	n.paused.Store(&gate)
	for e := range n.keys.all {
		e.mu.Lock()   // a decision that begins after this sees paused
		e.mu.Unlock() //nolint:staticcheck // nothing to do under the lock
	}
	return func() {
		n.paused.Store(nil)
		close(gate)
	}
}

// Change sets the rules. It is given all of them, in their new version. It removes keys whose
// rule is no longer eventual as soon as the store has all their counts.
func (n *Node) Change(all []*stint.Terms) {
	type name struct{ domain, rule string }
	next := make(map[name]bool, len(all))
	for _, t := range all {
		next[name{t.Domain, t.Rule}] = t.Coordination == stint.Eventual
	}
	for e := range n.keys.all {
		if e.terms == nil || next[name{e.terms.Domain, e.terms.Rule}] {
			continue
		}
		e.mu.Lock()
		e.removed = true
		left := !e.dead && !e.dirtyLocked()
		e.dead = e.dead || left
		e.mu.Unlock()
		if left {
			n.remove(e)
		}
	}
}

// Change sets the rules before the first take under them. It first sends all counts to the store,
// within the time of ctx, so that the store's decisions include them. Takes wait until the caller
// calls done, which it must.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) (done func()) {
	done = s.node.Pause()
	s.exchange(ctx)
	s.node.Change(all)
	return done
}
