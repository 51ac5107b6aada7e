package modes

import (
	"fmt"
	"math"
	"time"

	"stint"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
)

// Eventual returns for each eventual rule how much may pass beyond its limit, and when, if nodes
// report to the store after each interval.
func Eventual(table *rule.Table, interval time.Duration) []audit.Finding {
	return each(table, rule.Eventual, "eventual", func(r *rule.Rule, f *audit.Finding) {
		if r.Mode() != rule.Eventual {
			f.Text = "eventual is decided strict here: every take asks the store, and nothing passes beyond the limit (E = 0); while the store is away " + awayByPolicy(r)
			f.Hint = "steady token_bucket, and fixed_window without align: first and time_zone, can be eventual, without overdraw, elastic and count: responses"
			return
		}
		most, sum := spendable(r, interval)
		lost, _ := spendableIn(r, interval)
		f.Text = "eventual: with N nodes at most (N - 1) * " + sum + " pass beyond the limit at once (E), and are worked off before more does; "
		f.Hint = "write nodes, the most there may be, to see the number"
		if r.Nodes > 0 {
			f.Text = fmt.Sprintf("eventual: with %s at most %d * %s = %.0f pass beyond the limit at once (E), and are worked off before more does; ",
				text.Count(int(r.Nodes), "node"), r.Nodes-1, sum, float64(r.Nodes-1)*most)
			f.Hint = "lower the burst or --sync-interval for less, or write coordination: leased for none"
		}
		f.Text += "while the store is away for more than three intervals " + awayByPolicy(r) +
			fmt.Sprintf("; a node that is killed loses what it let pass since its last exchange, %.0f at most", lost)
	})
}

// spendable returns how much one node may let pass before the other nodes count it, and the terms
// of that sum. An eventual node reports to the store once in an interval, and the others ask the
// store once in an interval, so it takes two.
func spendable(r *rule.Rule, interval time.Duration) (each float64, sum string) {
	if r.Mode() == rule.Eventual {
		interval *= 2
	}
	return spendableIn(r, interval)
}

// spendableIn returns how much one node may let pass in a time s without the other nodes. That is a
// whole limit in each window that overlaps s.
func spendableIn(r *rule.Rule, s time.Duration) (each float64, sum string) {
	most, spec := r.Stored.Capacity(), r.Stored.Spec()
	if spec.Algorithm == stint.FixedWindow {
		n := 1 + math.Ceil(s.Seconds()/spec.Per.Seconds())
		return float64(most) * n, fmt.Sprintf("(%d in each of %.0f windows)", most, n)
	}
	soon := float64(spec.Requests) * s.Seconds() / spec.Per.Seconds()
	return math.Ceil(float64(most) + soon), fmt.Sprintf("(%d + %d per %s * %v)", most, spec.Requests, period(&spec), s)
}

// awayByPolicy returns how much passes while the store is away.
func awayByPolicy(r *rule.Rule) string {
	switch r.OnStoreFailure {
	case rule.Deny:
		return "nothing passes"
	case rule.Local:
		return extra(r)
	}
	return "everything passes, uncounted"
}
