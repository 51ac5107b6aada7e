package eventual

import (
	"context"

	"stint"
)

// Pause keeps takes from being decided here until done is called; meanwhile there is something
// to wait for. When it has returned none is under way.
func (n *Node) Pause() (done func()) {
	gate := make(chan struct{})
	n.paused.Store(&gate)
	for e := range n.keys.all {
		e.mu.Lock()   // whoever decides has seen it after that
		e.mu.Unlock() //nolint:staticcheck // that is all
	}
	return func() {
		n.paused.Store(nil)
		close(gate)
	}
}

// Change puts other rules in force: all there are, in their present form. Keys of a rule that
// is eventual no more are forgotten, once the store has been told all: others count them now.
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

// Change puts other rules in force, before any take comes with them: it tells the store all
// that was let pass, within the time of ctx, so that those who ask the store from now on
// count on that. Takes wait until done is called, which must be.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) (done func()) {
	done = s.node.Pause()
	s.exchange(ctx)
	s.node.Change(all)
	return done
}
