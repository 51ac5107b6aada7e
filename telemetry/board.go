package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// counters are the counters of one rule. They fill a cache line of their own.
type counters struct {
	domain, name string
	allowed      atomic.Uint64
	denied       atomic.Uint64
	shadowDenied atomic.Uint64
	nearLimit    atomic.Uint64
	over         atomic.Uint64
	degraded     atomic.Uint64
}

// board holds the counters of one table. It does not change once it is in use, so a decision finds
// its counters without a lock, by the index of the rule.
type board struct {
	table     *rule.Table
	byIndex   []*counters
	byName    map[ruleName]*counters
	all       []*counters // without duplicates, in the order of the rules
	gauges    []string    // names of the loads that rules use
	unmatched map[string]*atomic.Uint64
	listed    map[listName]*atomic.Uint64 // decisions of lists
}

// catalogName is the rule label for all rules of a catalog in a domain; a label for each of a
// million rules would be too many.
const catalogName = "catalog"

type ruleName struct{ domain, name string }

// listName identifies a list across reloads.
type listName struct {
	domain, name string
	exempt       bool
}

// word returns the word for the effect of the list in rule files.
func (l listName) word() string {
	if l.exempt {
		return "exempt"
	}
	return "deny"
}

// newBoard returns the board of a table. It keeps the counters of the board before.
func newBoard(table *rule.Table, before *board) *board {
	b := &board{table: table, byName: map[ruleName]*counters{}, unmatched: map[string]*atomic.Uint64{}, listed: map[listName]*atomic.Uint64{}}
	if before == nil {
		before = b
	}
	if table == nil {
		return b
	}
	for _, d := range table.Domains() {
		n := before.unmatched[d.Name()]
		if n == nil {
			n = new(atomic.Uint64)
		}
		b.unmatched[d.Name()] = n
		lists := d.Lists()
		if table.Planned() {
			lists = append(slices.Clone(lists), limiter.NoPlan)
		}
		for _, l := range lists {
			name := listName{d.Name(), l.Name, l.Exempt}
			if b.listed[name] = before.listed[name]; b.listed[name] == nil {
				b.listed[name] = new(atomic.Uint64)
			}
		}
	}
	b.gauges = table.Gauges()
	b.byIndex = make([]*counters, len(table.Rules()))
	for i, r := range table.Rules() {
		name := ruleName{r.Domain, r.Name}
		c := b.byName[name]
		if c == nil {
			if c = before.byName[name]; c == nil {
				c = &counters{domain: r.Domain, name: r.Name}
			}
			b.byName[name] = c
			b.all = append(b.all, c)
		}
		b.byIndex[i] = c
	}
	return b
}

// of returns the counters of a rule; nil if the current table has no such rule. A rule of another
// table, decided during a reload, is found by its name.
func (b *board) of(r *rule.Rule) *counters {
	if b.table != nil && r.Index < len(b.byIndex) && b.table.Rules()[r.Index] == r {
		return b.byIndex[r.Index]
	}
	return b.byName[ruleName{r.Domain, r.Name}]
}

// count counts the decision of one limit.
func (m *Metrics) count(b *board, a *limiter.Asked) {
	if a.Rule == nil || a.Cost == 0 {
		return
	}
	var c *counters
	if a.Rule.Index < 0 {
		c = m.ofCatalog(b, a.Rule.Domain)
	} else {
		c = b.of(a.Rule)
	}
	if c != nil && a.Degraded {
		c.degraded.Add(1)
	}
	switch {
	case c == nil:
	case a.Allowed:
		c.allowed.Add(1)
		if near(&a.Decision) {
			c.nearLimit.Add(1)
		}
		if a.Over {
			c.over.Add(1)
		}
	case a.Rule.Shadow:
		c.shadowDenied.Add(1)
	default:
		c.denied.Add(1)
	}
}

// sums counts decisions before they are added to counters, so that these change once and not for each.
type sums struct{ allowed, denied, near, over, degraded uint64 }

// add counts a decision.
func (s *sums) add(d *stint.Decision) {
	switch {
	case !d.Allowed:
		s.denied++
	case near(d):
		s.near++
		fallthrough
	default:
		s.allowed++
	}
	if d.Degraded {
		s.degraded++
	}
	if d.Over {
		s.over++
	}
}

// addTo adds n to a counter, which costs nothing if that is 0.
func addTo(counter *atomic.Uint64, n uint64) {
	if n > 0 {
		counter.Add(n)
	}
}

// countRules counts the decisions of a batch for its rules, which are plain (see [rule.Domain.Plain]).
func (m *Metrics) countRules(b *limiter.Batch) {
	board := m.current.Load()
	var sum sums
	for i := range b.Len() {
		if b.Take(i).Cost > 0 {
			sum.add(b.Decision(i))
		}
		r := b.Rule(i)
		if i+1 < b.Len() && b.Rule(i+1) == r {
			continue
		}
		if c := board.of(r); c != nil {
			addTo(&c.allowed, sum.allowed)
			addTo(&c.denied, sum.denied)
			addTo(&c.nearLimit, sum.near)
			addTo(&c.over, sum.over)
			addTo(&c.degraded, sum.degraded)
		}
		sum = sums{}
	}
}

// ofCatalog returns the counters for all catalog rules of a domain. If the table has a rule named
// catalog, they are its counters.
func (m *Metrics) ofCatalog(b *board, domain string) *counters {
	if c := b.byName[ruleName{domain, catalogName}]; c != nil {
		return c
	}
	if c := (*m.catalogs.Load())[domain]; c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.catalogs.Load()
	if c := all[domain]; c != nil {
		return c
	}
	all = maps.Clone(all)
	domain = strings.Clone(domain)
	all[domain] = &counters{domain: domain, name: catalogName}
	m.catalogs.Store(&all)
	return all[domain]
}

// near reports whether at most a fifth of the limit remains.
func near(d *stint.Decision) bool {
	return d.Limit != stint.NoLimit && d.Remaining <= d.Limit/5
}
