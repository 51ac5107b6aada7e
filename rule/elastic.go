package rule

import (
	"maps"
	"slices"

	"stint"
)

// Elastic is what lets a key pass its own limit while there is room elsewhere: in a
// pool, or at a load below some level.
type Elastic struct {
	// Pool is the rule of the same domain that lends its room, as one bucket for all,
	// see [Rule.AppendPoolKey]; nil where a gauge is asked.
	Pool *Rule

	// Gauge is the name of the load that is looked at, and Below the level from which
	// nothing more is lent.
	Gauge string
	Below Ratio

	// Cap bounds what a key takes with all that it is lent: the limit with requests
	// and burst so many times as large as `upto` says.
	Cap *stint.Limit
}

// Gauges returns the names of the gauges that rules of the table ask, sorted.
func (t *Table) Gauges() []string {
	names := map[string]struct{}{}
	for _, r := range t.rules {
		if r.Elastic != nil && r.Elastic.Gauge != "" {
			names[r.Elastic.Gauge] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// AppendPoolKey appends to dst the key under which a store counts the rule as a
// pool: one bucket for all, whatever the values of a request. Where no value of the
// rule varies it is the key of [Rule.AppendKey], so that the pool and the rule's own
// limit are the same; else it differs from all keys of the rule.
func (r *Rule) AppendPoolKey(dst []byte) []byte {
	dst = append(dst, r.identity...)
	if r.varies != 0 {
		dst = append(dst, "pool"...)
	}
	return dst
}
