package lease

import (
	"context"

	"stint"
	"stint/internal/limits"
)

// Change sets the rules. It is given all of them, in their new version. It drops keys whose rule
// is no longer leased or has other numbers, and returns the messages that return their units
// under the old numbers. The store must decide these messages before any take under the new
// numbers.
func (n *Node) Change(all []*stint.Terms, now Moment) []*Request {
	next := make(map[name]*stint.Terms, len(all))
	for _, t := range all {
		next[nameOf(t)] = t
	}
	n.changeRules(all)
	n.past.forget()
	var leaving []*entry
	for e := range n.keys.all {
		e.mu.Lock()
		if t := e.take.Terms(); named(t) {
			to := next[nameOf(t)]
			if to != nil && to.Coordination == stint.Leased && limits.Stored(to).ForStores().Same(e.limit.Load()) {
				how := *e.take.Handling // requests in flight use the old one
				how.Terms = to
				e.take.Handling = &how
			} else {
				e.dead = true
				n.keys.drop(e)
				if e.inFlight == nil && !e.unanswered && e.held.Load().units() > 0 {
					leaving = append(leaving, e)
				}
			}
		}
		e.mu.Unlock()
	}
	return n.messages(leaving, now, true)
}

// Change sets the rules before the first take under them, see Node.Change. It waits for messages
// in flight until ctx is done, and sends none until the caller calls done, which it must. Units
// whose message does not reach the store stay lent until the store writes them off.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) (done func()) {
	s.sendMu.Lock()
	s.sendLocked(ctx, s.node.Change(all, s.clock()))
	return s.sendMu.Unlock
}
