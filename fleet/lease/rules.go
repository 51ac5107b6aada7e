package lease

import (
	"cmp"
	"slices"

	"stint"
)

// RuleStats are the numbers of one leased rule.
type RuleStats struct {
	Domain, Rule string
	Held         int64  // units that were lent to this node and are unspent
	Idle         int64  // those of Held whose keys were not asked for since the last look
	Asks         uint64 // takes that the store decided
	Reported     uint64 // keys in messages to the store about units of this node
	Lent         uint64 // units that were lent to this node
	Returned     uint64 // units of Lent that the node returned
}

// name identifies a rule across its versions.
type name struct{ domain, rule string }

func nameOf(t *stint.Terms) name { return name{t.Domain, t.Rule} }

// named says whether terms are those of a rule that goes on under its name in the next version.
func named(t *stint.Terms) bool { return t != nil && t.Rule != "" }

// countersOf returns the counters of a rule by its terms. Nobody reads those of terms without a name.
func (n *Node) countersOf(t *stint.Terms) *counters {
	if c, ok := n.rules.Load(t); ok {
		return c.(*counters)
	}
	c, _ := n.rules.LoadOrStore(t, new(counters))
	return c.(*counters)
}

// changeRules moves the counters of rules to their new terms, and drops those of rules that are gone.
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

// Rules returns the present numbers of each leased rule, by their names.
func (s *Store) Rules() []RuleStats { return s.node.Rules() }

// Rules returns the present numbers of each leased rule, by their names.
func (n *Node) Rules() []RuleStats {
	by := map[name]*RuleStats{}
	of := func(t *stint.Terms) *RuleStats {
		if by[nameOf(t)] == nil {
			by[nameOf(t)] = &RuleStats{Domain: t.Domain, Rule: t.Rule}
		}
		return by[nameOf(t)]
	}
	n.rules.Range(func(key, value any) bool {
		if t, c := key.(*stint.Terms), value.(*counters); named(t) {
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
		if t := e.take.Terms(); named(t) {
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
