package lease

import (
	"cmp"
	"slices"

	"stint"
)

// RuleStats are the figures of one leased rule.
type RuleStats struct {
	Domain, Rule string
	Held         int64  // units lent to this node and unspent
	Idle         int64  // units of Held whose keys nobody requested since the last tick
	Asks         uint64 // takes that the store decided
	Reported     uint64 // keys in messages to the store
	Lent         uint64 // units lent to this node
	Returned     uint64 // units of Lent that the node returned
}

// name identifies a rule across its versions.
type name struct{ domain, rule string }

func nameOf(t *stint.Terms) name { return name{t.Domain, t.Rule} }

// named reports whether terms belong to a rule with a name.
func named(t *stint.Terms) bool { return t != nil && t.Rule != "" }

// countersOf returns the counters of a rule. Those of rules without a name are not shown.
func (n *Node) countersOf(t *stint.Terms) *counters {
	if c, ok := n.rules.Load(t); ok {
		return c.(*counters)
	}
	c, _ := n.rules.LoadOrStore(t, new(counters))
	return c.(*counters)
}

// changeRules moves the counters of rules to their new terms, and drops those of removed rules.
func (n *Node) changeRules(all []*stint.Terms) {
	old := map[name]*counters{}
	n.rules.Range(func(t, c any) bool {
		if t := t.(*stint.Terms); named(t) {
			old[nameOf(t)] = c.(*counters)
		}
		return true
	})
	n.rules.Clear()
	for _, t := range all {
		if t.Coordination != stint.Leased {
			continue
		}
		c := old[nameOf(t)]
		if c == nil {
			c = new(counters)
		}
		n.rules.Store(t, c)
	}
}

// Rules returns the current figures of each leased rule, sorted by name.
func (s *Store) Rules() []RuleStats { return s.node.Rules() }

// Rules returns the current figures of each leased rule, sorted by name.
func (n *Node) Rules() []RuleStats {
	by := map[name]*RuleStats{}
	of := func(t *stint.Terms) *RuleStats {
		if by[nameOf(t)] == nil {
			by[nameOf(t)] = &RuleStats{Domain: t.Domain, Rule: t.Rule}
		}
		return by[nameOf(t)]
	}
	n.rules.Range(func(key, value any) bool {
		if t, c := key.(*stint.Terms), value.(*counters); named(t) && !t.Candidate {
			r := of(t)
			r.Asks += c.asks.Load()
			r.Reported += c.messages.Load()
			r.Lent += c.lent.Load()
			r.Returned += c.returned.Load()
		}
		return true
	})
	for e := range n.keys.all {
		e.mu.Lock()
		if t := e.take.Terms(); named(t) && !t.Candidate {
			r, left := of(t), e.held.Load().units()
			r.Held += left
			if e.idleTicks > 0 {
				r.Idle += left
			}
		}
		e.mu.Unlock()
	}
	all := make([]RuleStats, 0, len(by))
	for _, r := range by {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b RuleStats) int { return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule)) })
	return all
}
