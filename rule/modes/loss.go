package modes

import (
	"fmt"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
)

// AfterLoss returns for each rule whose counts are in a store what a restart, a failover and a flush of the
// store cost its clients, and what they may admit beyond the limit. [Durable] says it of durable rules.
func AfterLoss(table *rule.Table) (all []audit.Finding) {
	for _, c := range []struct {
		coordination rule.Coordination
		id           string
	}{{rule.Leased, "leased"}, {rule.Eventual, "eventual"}, {rule.Strict, "strict"}} {
		all = append(all, each(table, c.coordination, c.id, func(r *rule.Rule, f *audit.Finding) {
			if r.IsDurable() {
				return
			}
			f.Text = "after a loss of data: " + afterLoss(r)
			f.Hint = "docs/redis-operation.md says how to lose less"
		})...)
	}
	return all
}

// afterLoss returns what the keys of a rule have after the store lost its data.
func afterLoss(r *rule.Rule) string {
	stored := ofStore(r)
	most, name, more := stored.Capacity(), r.Mode().String(), ""
	switch {
	case r.Mode() == rule.Leased && !stored.ForStores().Leasable():
		name = "leased and too little to lend"
	case r.Mode() == rule.Leased && !r.KeptAfterLoss:
		return fmt.Sprintf("used_up: a restart, a failover and a flush each cost a key up to %d units, also a restart that loses nothing: the key counts as used up, %s; none of them admits anything beyond the limit", most, wholeAfterLoss(stored))
	case r.Mode() == rule.Leased:
		name = "kept"
	case r.Mode() == rule.Eventual:
		more = " and E"
	case r.MayGrant():
		more = " and what was used of its grants"
	}
	return fmt.Sprintf("%s: a restart that loses nothing costs nothing and admits nothing more; a failover, a flush and a restart that loses data cost nothing, and each may admit what it lost once more, at most %d of each key%s", name, most, more)
}

// wholeAfterLoss returns when a key that counts as used up after a loss is full again. Until old leases are
// surely over, a quarter of a bucket does not refill.
func wholeAfterLoss(l *stint.Limit) string {
	if l.Algorithm() == stint.FixedWindow {
		return whole(l)
	}
	quarter := l.Capacity() / stint.LeasePart
	part := float64(quarter) / float64(l.Capacity())
	refill := limits.RefillTime(l)
	full := max(refill, stint.LeaseTime+stint.LeaseMargin+time.Duration(float64(refill)*part))
	return fmt.Sprintf("has %d units again after %s, and all after %s", l.Capacity()-quarter,
		text.ShortDuration(time.Duration(float64(refill)*(1-part)).Round(time.Millisecond)), text.ShortDuration(full.Round(time.Millisecond)))
}
