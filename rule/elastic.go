package rule

import (
	"fmt"
	"maps"
	"slices"

	"stint"
)

// Elastic is what lets a key pass its own limit while there is room elsewhere: in a
// pool, or at a load below some level.
type Elastic struct {
	// Pool is the rule of the same domain that lends its room; nil where a gauge is asked.
	// No value on the way to it is open, so it has one bucket, which its own requests use
	// up as well.
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

// AppendPool appends to dst the key and the place of the one bucket that the rule has, for
// a rule that lends: those of [Rule.AppendKeyed] and [Rule.AppendPlace] for any request that it
// matches. keyEnd is where the key ends in the result.
func (r *Rule) AppendPool(dst []byte, secret *KeySecret) (both []byte, keyEnd int) {
	dst = r.AppendKeyed(dst, nil, secret)
	keyEnd = len(dst)
	for _, i := range r.placed {
		l := &r.Path[i]
		dst = AppendEntry(dst, l.Key, l.Value)
	}
	return dst, keyEnd
}

// String returns what the limit leans on in one line.
func (e *Elastic) String() string {
	s := e.Cap.Spec()
	where := fmt.Sprintf("load %s below %v", e.Gauge, e.Below)
	if e.Pool != nil {
		where = e.Pool.Name
	}
	text := fmt.Sprintf("%s up to %d", where, s.Requests)
	if s.Burst > 0 {
		text += fmt.Sprintf(" burst %d", s.Burst)
	}
	return text
}
