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
	for _, r := range t.rules {
		if r.Elastic != nil && r.Elastic.Gauge != "" {
			names[r.Elastic.Gauge] = struct{}{}
		}
	}
	t.variants(func(_, r *Rule) {
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
