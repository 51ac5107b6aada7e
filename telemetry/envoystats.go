package telemetry

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// maxMissing is the number of unknown domains that are counted by name. Clients choose these names,
// so further ones are counted together.
const maxMissing = 100

// maxName is the maximum length of such a name in bytes.
const maxName = 128

// others is the name for further unknown domains.
const others = "others"

// EnvoySources are functions that return counts of other packages.
type EnvoySources struct {
	// Calls returns the number of requests in Envoy's protocol.
	Calls func() uint64

	// Errors returns the numbers of invalid requests, of requests that the store failed to decide,
	// and of requests that passed only because of global shadow mode.
	Errors func() (service, store, shadowed uint64)
}

// EnvoyStats counts decisions of all protocols under the metric names of envoyproxy/ratelimit, for
// existing dashboards and alerts. It is safe for concurrent use.
//
// The names consist of the keys of rules, and of values of requests for rules with detailed_metric
// or value_to_metric: at most a thousand such names, after which the counts go to the plain name of
// the rule. A limit in a descriptor is counted as override of its domain. A denied request is
// charged nothing; the part of it that exceeds the limit counts as over the limit.
type EnvoyStats struct {
	near    float64
	sources EnvoySources
	current atomic.Pointer[envoyBoard]
	loads   [2]atomic.Uint64 // failed, succeeded

	mu      sync.Mutex // guards missing
	missing map[string]uint64

	details details
}

var _ limiter.BatchObserver = (*EnvoyStats)(nil)

// NewEnvoyStats returns statistics that count units above the ratio near of a limit as near the
// limit. Functions in sources may be nil.
func NewEnvoyStats(near float64, sources EnvoySources) *EnvoyStats {
	s := &EnvoyStats{near: near, sources: sources, missing: make(map[string]uint64)}
	s.details.byPath = make(map[string]*envoyCounters)
	s.current.Store(newEnvoyBoard(nil, nil))
	return s
}

// Reloaded records that table is in force. It must also be called at the start of the service.
func (s *EnvoyStats) Reloaded(table *rule.Table) {
	s.loads[1].Add(1)
	s.current.Store(newEnvoyBoard(table, s.current.Load()))
}

// ReloadFailed records that a table was refused and the old one stays in force.
func (s *EnvoyStats) ReloadFailed() { s.loads[0].Add(1) }

// Decided counts one decision; see limiter.Observer.
func (s *EnvoyStats) Decided(v *limiter.Verdict, _ time.Duration, err error) {
	if err != nil || v.Listed != nil {
		return
	}
	b := s.current.Load()
	own := b.overrides[v.Domain]
	if own == nil {
		s.miss(v.Domain, 1)
		return
	}
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Limit == stint.NoLimit {
			continue
		}
		if a.Rule == nil {
			own.count(a, s.near)
		} else if c := s.detailed(b, a.Rule, v, a.Descriptor); c != nil {
			c.count(a, s.near)
		}
	}
}

// DecidedBatch counts the decisions of a batch, which have no domain if they have no rule; see limiter.BatchObserver.
func (s *EnvoyStats) DecidedBatch(b *limiter.Batch, took time.Duration, err error) {
	switch {
	case err != nil:
	case b.Rule(0) == nil:
		s.miss("", uint64(b.Len()))
	default:
		for i := range b.Len() {
			s.Decided(b.Verdict(i), took, nil)
		}
	}
}

// miss counts n requests for an unknown domain.
func (s *EnvoyStats) miss(domain string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(domain) > maxName {
		domain = others
	}
	domain = clean(domain)
	if _, known := s.missing[domain]; !known && len(s.missing) >= maxMissing {
		domain = others
	}
	s.missing[strings.Clone(domain)] += n // cloned because the memory may be reused for the next request
}

// envoyBoard holds the counters of one table.
type envoyBoard struct {
	table     *rule.Table
	byIndex   []*envoyCounters
	all       []*envoyCounters // without duplicates
	byPath    map[string]*envoyCounters
	overrides map[string]*envoyCounters // by domain
}

// envoyCounters are the counters of one limit.
type envoyCounters struct {
	domain string
	keys   []string
	path   string // domain and keys, joined

	total, over, near, within, shadow atomic.Uint64
}

// newEnvoyBoard returns the board of a table. It keeps the counters of the board before.
func newEnvoyBoard(table *rule.Table, before *envoyBoard) *envoyBoard {
	b := &envoyBoard{table: table, byPath: map[string]*envoyCounters{}, overrides: map[string]*envoyCounters{}}
	if table == nil {
		return b
	}
	b.byIndex = make([]*envoyCounters, len(table.Rules()))
	for i, r := range table.Rules() {
		keys := make([]string, len(r.Path))
		for j := range r.Path {
			keys[j] = level(&r.Path[j])
		}
		b.byIndex[i] = b.counters(before, r.Domain, keys)
	}
	for _, d := range table.Domains() {
		b.overrides[d.Name()] = b.counters(before, d.Name(), []string{"override"})
	}
	return b
}

// counters returns the counters of the board before with the same name, or new ones. If a node has
// several limits, all but the first have a number in their name.
func (b *envoyBoard) counters(before *envoyBoard, domain string, keys []string) *envoyCounters {
	c := &envoyCounters{domain: clean(domain), keys: keys}
	last := keys[len(keys)-1]
	for n := 2; ; n++ {
		c.path = c.domain + "." + strings.Join(keys, ".")
		if b.byPath[c.path] == nil {
			break
		}
		keys[len(keys)-1] = last + "_" + strconv.Itoa(n)
	}
	if before != nil && before.byPath[c.path] != nil {
		c = before.byPath[c.path]
	}
	b.byPath[c.path] = c
	b.all = append(b.all, c)
	return c
}

// level returns a level of a rule as part of a name.
func level(l *rule.Level) string {
	if l.Value == "" {
		return clean(l.Key)
	}
	return clean(l.Key) + "_" + clean(l.Value)
}

// clean replaces the special characters of StatsD and the dots of addresses.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == ':' || r == '|' || r == '\n' || r == '\r' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(text, "_"))
	return dotted.ReplaceAllStringFunc(text, func(address string) string { return strings.ReplaceAll(address, ".", "_") })
}

// of returns the counters of a rule; nil if the current table has no such rule, as during a reload.
func (b *envoyBoard) of(r *rule.Rule) *envoyCounters {
	if b.table != nil && r.Index >= 0 && r.Index < len(b.byIndex) && b.table.Rules()[r.Index] == r {
		return b.byIndex[r.Index]
	}
	return nil
}

// count counts the decision of a limit. Remaining is the value after an allowed take, or before a
// denied one.
func (c *envoyCounters) count(a *limiter.Asked, ratio float64) {
	cost := int64(a.Cost)
	c.total.Add(uint64(cost))
	near := int64(math.Floor(float64(a.Limit) * ratio))
	used := max(0, a.Limit-a.Remaining)
	if a.Allowed {
		c.within.Add(uint64(cost))
		c.near.Add(above(near, used-cost, used))
		return
	}
	fits := a.Remaining
	if fits >= cost {
		fits = 0 // denied for a reason other than the count
	}
	c.over.Add(uint64(cost - fits))
	c.near.Add(above(near, used, used+fits))
	if a.Rule != nil && a.Rule.Shadow {
		c.shadow.Add(uint64(cost - fits))
	}
}

// above returns how much of the range between two counts is above a threshold.
func above(threshold, from, to int64) uint64 {
	return uint64(max(0, to-max(from, threshold)))
}
