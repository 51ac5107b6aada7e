package modes

import (
	"fmt"

	"stint"
	"stint/rule"
	"stint/rule/audit"
)

// Durable returns for each durable rule what a store may lose of it, and what passes after that.
func Durable(table *rule.Table) []audit.Finding {
	return findings(table, "durable", func(r *rule.Rule, f *audit.Finding) {
		if !r.IsDurable() {
			return
		}
		spec, most := r.Stored.Spec(), r.Stored.Capacity()
		rate := fmt.Sprintf("%d per %s", spec.Requests, period(&spec))
		ends := "until the period ends"
		if spec.Algorithm != stint.FixedWindow || spec.FromFirst {
			ends = "until a key that was used up then is whole again"
		}
		f.Text = fmt.Sprintf("durable: with --store memory and --state a crash loses no answered take. With Redis and appendfsync always a crash loses none; with everysec a crash of the machine loses the takes of a second, or of two while the disk is slow; a failover loses those that the replica did not have: at most %d of each key, at %s. "+
			"A node that had an answer about a lost take notices the loss within a second; then %s %s or stint accept-loss; after that what was lost may pass once more", most, rate, lostByPolicy(r), ends)
		f.Hint = "write on_store_failure: deny if nothing may pass then, and set appendfsync always, min-replicas-to-write 1 and min-replicas-max-lag 1 on the server to lose less"
	})
}

// lostByPolicy returns how much passes after counts were lost.
func lostByPolicy(r *rule.Rule) string {
	if r.OnStoreFailure == rule.Local {
		return "each node lets only its local share pass (" + extra(r) + ")"
	}
	return awayByPolicy(r)
}
