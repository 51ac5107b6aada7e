package rule

import (
	"fmt"
	"maps"
	"slices"

	"stint"
)

// Elastic lets a key exceed its own limit while there is room elsewhere: in the limit of another
// rule (the pool), or while a gauge is below a level.
type Elastic struct {
	// Pool is the rule of the same domain whose free units may be borrowed; nil where a gauge
	// decides. It has exactly one bucket, which the pool's own requests use as well.
	Pool *Rule

	// Gauge is the name of the gauge; at Below or above it no more units may be borrowed.
	Gauge string
	Below Ratio

	// Cap bounds what one key may take, borrowed units included: the limit with requests and
	// burst multiplied by Upto.
	Cap  *stint.Limit
	Upto Ratio
}

// Low reports whether the gauge is fresh and below its level. load returns the value of a gauge, and whether
// it is fresh; nil: no gauge is ever fresh.
func (e *Elastic) Low(load func(gauge string) (value float64, fresh bool)) bool {
	if load == nil {
		return false
	}
	value, fresh := load(e.Gauge)
	return fresh && value >= 0 && value < float64(e.Below)/float64(Whole)
}

// Gauges returns the names of all gauges that the rules of the table read, sorted.
func (t *Table) Gauges() []string {
	names := map[string]struct{}{}
	t.each(func(r *Rule) {
		if r.Elastic != nil && r.Elastic.Gauge != "" {
			names[r.Elastic.Gauge] = struct{}{}
		}
	})
	return slices.Sorted(maps.Keys(names))
}

// AppendPool appends to dst the key and then the place of the single bucket of a pool. Both equal
// what [Rule.AppendKeyed] and [Rule.AppendPlace] append for any request that the rule matches.
// keyEnd is the length of the result up to the end of the key.
func (r *Rule) AppendPool(dst []byte, secret *KeySecret) (both []byte, keyEnd int) {
	dst = r.AppendKeyed(dst, nil, secret)
	keyEnd = len(dst)
	for _, i := range r.placed {
		l := &r.Path[i]
		dst = AppendEntry(dst, l.Key, l.Value)
	}
	return dst, keyEnd
}

// String returns the pool or gauge and the cap in one line.
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

// LendHint says which rules can lend.
const LendHint = "name a plain limit of a rate that everybody shares"

// LendFault returns why the rule cannot be the pool of an elastic one, and what to do; "" if it can. It does
// not look whether the rule is elastic itself.
func (r *Rule) LendFault() (why, hint string) {
	hint = LendHint
	switch s := r.Limit.Spec(); {
	case r.Plan != nil:
		why = "takes its limit from plans, and lends only from one that everybody shares"
		hint = "name a rule with numbers of its own"
	case s.Algorithm == stint.Unlimited:
		why = "is unlimited, so nothing bounds what it lends"
	case s.Algorithm == stint.LeakyBucket:
		why = "is a leaky_bucket, which lends places in a queue"
	case r.Answers != nil:
		why = "counts responses, so its room is not known when it is asked"
	case s.CountDenied:
		why = "counts what it denies, so asking it would use it up"
	case r.Candidate != nil:
		why = "tries a candidate, of which nothing is lent"
		hint = "leave out the candidate, or name another rule"
	case r.Shadow || r.Quota:
		why = "is in shadow_mode or quota_mode, and denies nobody by itself"
	case slices.ContainsFunc(r.Path, Level.Varies):
		l := r.Path[slices.IndexFunc(r.Path, Level.Varies)]
		why = fmt.Sprintf("has a bucket for each value of %s, and lends only from one that everybody shares", l.Key)
		hint = fmt.Sprintf("give it a value, such as {key: %s, value: all}; requests with that descriptor use up what is lent", l.Key)
		if l.Wildcard {
			hint = fmt.Sprintf("add share_threshold: true to the descriptor %s, or give it a value without *", l)
		}
	case r.scattered():
		why = "is placed by the values that a pattern matches, so each may count on another server"
		hint = "leave out shard_by: the rule has one bucket"
	case r.Mode() >= Eventual:
		why = fmt.Sprintf("is decided by each node itself (coordination: %s), and elastic limits ask the store", r.Mode())
		hint = "write coordination: strict or leased in the rule that lends"
	}
	return why, hint
}

// scattered reports whether values with a common bucket may have different places.
func (r *Rule) scattered() bool {
	return slices.ContainsFunc(r.Path, func(l Level) bool {
		return l.Wildcard && l.Shared && slices.Contains(r.ShardBy, l.Key)
	})
}
