package lease

import (
	"context"

	"stint"
)

// Change puts other rules in force: all there are, in their present form. A key whose rule
// is leased no longer, or under other numbers, is let go of: it returns the messages that
// give back what is held, under the numbers by which it was lent. They come before any take
// under the new ones.
func (n *Node) Change(all []*stint.Terms, now Moment) []*Trip {
	next := make(map[name]*stint.Terms, len(all))
	for _, t := range all {
		next[nameOf(t)] = t
	}
	n.keepTallies(all)
	var leaving []*entry
	for e := range n.keys.all {
		e.mu.Lock()
		if t := e.take.Terms; t != nil {
			to := next[nameOf(t)]
			if to != nil && to.Coordination == stint.Leased && to.Stored().Same(e.limit.Load()) {
				e.take.Terms = to
			} else {
				e.dead = true
				n.keys.drop(e)
				if e.flight == nil && !e.unanswered && e.held.Load().now() > 0 {
					leaving = append(leaving, e)
				}
			}
		}
		e.mu.Unlock()
	}
	return n.messages(leaving, now, true)
}

// Change puts other rules in force, see Node.Change: before any take comes with them. It
// waits for the messages under way, within the time of ctx, and sends none until done is
// called, which must be. What the store does not hear stays lent until it is written off.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) (done func()) {
	s.sending.Lock()
	s.sendLocked(ctx, s.node.Change(all, s.clock()))
	return s.sending.Unlock
}
