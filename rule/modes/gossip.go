package modes

import (
	"fmt"
	"time"

	"stint"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
)

// Gossip returns for each gossip rule how much may pass beyond its limit, and when, if nodes send
// their counts to each other after each interval.
func Gossip(table *rule.Table, interval time.Duration) []audit.Finding {
	return each(table, rule.Gossip, "gossip", func(r *rule.Rule, f *audit.Finding) {
		f.Hint = "lower the burst or --sync-interval for less, or write coordination: leased for none, with a store"
		switch {
		case r.Mode() != rule.Gossip:
			f.Text = "gossip is decided strict here: by the store, and nothing passes beyond the limit (E = 0), or with --store memory by each node for itself; while the store is away " + awayByPolicy(r)
			f.Hint = "leave out elastic, which leans on other limits"
		case r.AskPeers:
			f.Text = "gossip: ask: " + beyond(r, interval) + "; only what nodes are asked for at the same moment, while they ask each other, comes to that. " +
				"While a node does not answer " + awayByPolicy(r)
		default:
			f.Text = "gossip: " + beyond(r, interval) + "; a fleet that is cut into k parts for a time T lets (k - 1) * " + cutText(r) + " more pass"
		}
		if r.Mode() == rule.Gossip {
			f.Text += ". There is no store: a node without --gossip counts by itself, and a node that is killed loses what it did not tell." +
				" On a node that has found no other one since its start (--gossip-alone) " + awayByPolicy(r)
		}
	})
}

// beyond returns how much of a gossip rule may pass beyond its limit.
func beyond(r *rule.Rule, interval time.Duration) string {
	each, sum := spendable(r, interval)
	said := "with N nodes at most (N - 1) * " + sum
	if r.Nodes > 0 {
		said = fmt.Sprintf("with %s at most %d * %s = %.0f", text.Count(int(r.Nodes), "node"), r.Nodes-1, sum, float64(r.Nodes-1)*each)
	}
	if s := r.Stored.Spec(); s.CarryDebt || s.Algorithm == stint.TokenBucket && !s.Step || s.Algorithm == stint.LeakyBucket {
		return said + " pass beyond the limit at once (E), and are worked off before more does"
	}
	return said + " pass beyond the limit (E), in each period: what is too much in one is forgotten with it"
}

// cutText returns how much an isolated part of the fleet may let pass.
func cutText(r *rule.Rule) string {
	spec := r.Stored.Spec()
	return fmt.Sprintf("(%d + %d per %s * T)", r.Stored.Capacity(), spec.Requests, period(&spec))
}
