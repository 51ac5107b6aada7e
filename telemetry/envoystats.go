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

// maxMissing is how many names of domains that no rule file has are counted by name; a
// client chooses them, so the others count together.
const maxMissing = 100

// maxName is the most bytes of such a name.
const maxName = 128

// others is the name under which those count.
const others = "others"

// EnvoySources are counts that others keep.
type EnvoySources struct {
	// Calls are the requests in Envoy's protocol so far.
	Calls func() uint64

	// Errors are those that were no requests, and those that the store could not decide;
	// Shadowed those that passed only because of the global shadow mode.
	Errors func() (service, store, shadowed uint64)
}

// EnvoyStats counts decisions of all protocols under the names of envoyproxy/ratelimit, for the
// dashboards and alerts that people have. It is safe for concurrent use.
//
// Names are made of rules, and of what clients send where a rule says detailed_metric or
// value_to_metric: at most a thousand of the latter, and what comes then counts for the rule. A limit that a descriptor brings is counted as override
// of its domain. A denied request is charged nothing, and counts as over the limit with
// what did not fit.
type EnvoyStats struct {
	near    float64
	sources EnvoySources
	current atomic.Pointer[envoyBoard]
	loads   [2]atomic.Uint64 // failed, succeeded

	mu      sync.Mutex // guards missing
	missing map[string]uint64

	details details
}

var _ limiter.Observer = (*EnvoyStats)(nil)

// NewEnvoyStats returns statistics that count what is above the part near of a limit as near it.
// Sources that are nil count nothing.
func NewEnvoyStats(near float64, sources EnvoySources) *EnvoyStats {
	s := &EnvoyStats{near: near, sources: sources, missing: make(map[string]uint64)}
	s.details.byPath = make(map[string]*envoyCounters)
	s.current.Store(newEnvoyBoard(nil, nil))
	return s
}

// Reloaded says that table is in force, from the start of the service on.
func (s *EnvoyStats) Reloaded(table *rule.Table) {
	s.loads[1].Add(1)
	s.current.Store(newEnvoyBoard(table, s.current.Load()))
}

// ReloadFailed says that a table was refused and the one before stays.
func (s *EnvoyStats) ReloadFailed() { s.loads[0].Add(1) }

// Decided counts one decision; see limiter.Observer.
func (s *EnvoyStats) Decided(v *limiter.Verdict, _ time.Duration, err error) {
	if err != nil || v.Listed != nil {
		return
	}
	b := s.current.Load()
	own := b.overrides[v.Domain]
	if own == nil {
		s.miss(v.Domain)
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

// miss counts a request about a domain that no rule file has.
func (s *EnvoyStats) miss(domain string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(domain) > maxName {
		domain = others
	}
	domain = clean(domain)
	if _, known := s.missing[domain]; !known && len(s.missing) >= maxMissing {
		domain = others
	}
	s.missing[strings.Clone(domain)]++ // it may lie in memory that serves the next request
}

// envoyBoard is where the counters of one table stand.
type envoyBoard struct {
	table     *rule.Table
	byIndex   []*envoyCounters
	all       []*envoyCounters // each once
	byPath    map[string]*envoyCounters
	overrides map[string]*envoyCounters // by domain
}

// envoyCounters are those of one limit.
type envoyCounters struct {
	domain string
	keys   []string
	path   string // of both

	total, over, near, within, shadow atomic.Uint64
}

// newEnvoyBoard returns the board of a table; what was there before keeps its counts.
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

// counters returns fresh counters, or those of the same name that were there before. A
// node with several limits has a number on all but the first.
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

// level is a level of a rule as part of a name.
func level(l *rule.Level) string {
	if l.Value == "" {
		return clean(l.Key)
	}
	return clean(l.Key) + "_" + clean(l.Value)
}

// clean replaces what StatsD reads as its own, and the dots of addresses.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == ':' || r == '|' || r == '\n' || r == '\r' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(text, "_"))
	return dotted.ReplaceAllStringFunc(text, func(address string) string { return strings.ReplaceAll(address, ".", "_") })
}

// of returns the counters of a rule, nil if the table in force has no such rule, as
// while tables are swapped.
func (b *envoyBoard) of(r *rule.Rule) *envoyCounters {
	if b.table != nil && r.Index >= 0 && r.Index < len(b.byIndex) && b.table.Rules()[r.Index] == r {
		return b.byIndex[r.Index]
	}
	return nil
}

// count counts the answer of a limit. What remains is what did after a take that passed,
// and before one that did not.
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
		fits = 0 // something else than the count denied it
	}
	c.over.Add(uint64(cost - fits))
	c.near.Add(above(near, used, used+fits))
	if a.Rule != nil && a.Rule.Shadow {
		c.shadow.Add(uint64(cost - fits))
	}
}

// above returns how much of what lies between two counts is above a threshold.
func above(threshold, from, to int64) uint64 {
	return uint64(max(0, to-max(from, threshold)))
}
