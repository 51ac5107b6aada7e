package lease

import (
	"time"

	"stint"
)

// Loss is what a change of a server's epoch touches on this node: the busy keys of leased rules, by what
// after_loss makes of them. The node remembers no other keys: they are decided as in strict mode.
type Loss struct {
	UsedUp int64 // keys that count as used up
	Kept   int64 // keys that keep what the server still has
	Units  int64 // units of all these keys that were lent to the node and unspent
}

// lossAge is more than the time from a loss to the call of Lost. In it an answer may already have shown the
// node that another epoch began, and the units of the old one are gone.
const lossAge = 5 * time.Second

// Lost counts the busy keys that a change of a server's epoch touches. on reports whether the key of a take
// is on that server. Call it once for each change.
func (n *Node) Lost(now Moment, on func(*stint.Take) bool) (l Loss) {
	for e := range n.keys.all {
		e.mu.Lock()
		if on(&e.take) {
			if e.take.Terms().KeptAfterLoss {
				l.Kept++
			} else {
				l.UsedUp++
			}
			if e.lostAt != (Moment{}) && now.since(e.lostAt) < lossAge {
				l.Units += e.lostUnits
			} else {
				l.Units += e.held.Load().units()
			}
			e.lostAt = Moment{}
		}
		e.mu.Unlock()
	}
	n.count.usedUp.Add(uint64(l.UsedUp))
	n.count.kept.Add(uint64(l.Kept))
	n.count.lost.Add(uint64(l.Units))
	return l
}

// Lost counts the busy keys that a change of a server's epoch touches, see [Node.Lost].
func (s *Store) Lost(on func(*stint.Take) bool) Loss { return s.node.Lost(s.clock(), on) }
