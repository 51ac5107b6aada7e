package facts

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint/facts/sketch"
	"stint/rule"
)

// CatalogRule is the name of the facts of all rules per API of a domain.
const CatalogRule = "catalog"

type ruleName struct{ domain, name string }

// cell has the counters of a rule that the decisions of one shard add to. It fills a cache line.
type cell struct {
	allowed, denied, over, degraded, looks atomic.Uint64
	_                                      [24]byte
}

// ruleFacts are the facts of one rule.
type ruleFacts struct {
	name  ruleName
	rule  atomic.Pointer[rule.Rule] // nil for rules per API
	cells []cell                    // by shard

	// seen counts the keys of the current generation; nil: there was no decision yet.
	seen atomic.Pointer[sketch.Distinct]

	tried atomic.Pointer[tried] // of its candidate; nil: it tries none

	// sample decides which decisions leave a note.
	sample sketch.Sampling

	// The fields below are guarded by Facts.mu.

	kept        Counts // of the time before this process, or before counter began anew
	counter     Counts // what Options.Counts returned last
	first, last time.Time
	since       time.Time // see Rule.Since
	asked       uint64    // sum of all counts when last was set
	keys        [2]keyLists
	rates       [2]sketch.Rate   // of notes of denied and allowed requests
	before      *sketch.Distinct // keys of the previous generation; nil: none
	peaks       peaks
	largest     float64   // see largestLocked
	largestAt   time.Time // when it was computed
	largestOf   uint64    // requests until then
	history     sketch.History
	recorded    Counts // those that the history has
}

func newRuleFacts(name ruleName, shards int) *ruleFacts {
	r := &ruleFacts{name: name, cells: make([]cell, shards)}
	r.sample.Set(0, 0, 0, 0)
	return r
}

// distinct returns the count of keys of the current generation.
func (r *ruleFacts) distinct() *sketch.Distinct {
	if d := r.seen.Load(); d != nil {
		return d
	}
	r.seen.CompareAndSwap(nil, new(sketch.Distinct))
	return r.seen.Load()
}

// countsLocked returns the counts of the rule. counted counts decisions instead of the cells; nil: none does.
func (r *ruleFacts) countsLocked(counted func(domain, rule string) Counts) Counts {
	var c Counts
	for i := range r.cells {
		cell := &r.cells[i]
		c.Allowed += cell.allowed.Load()
		c.Denied += cell.denied.Load()
		c.Over += cell.over.Load()
		c.Degraded += cell.degraded.Load()
		c.Looks += cell.looks.Load()
	}
	if counted != nil {
		now := counted(r.name.domain, r.name.name)
		if now.Allowed < r.counter.Allowed || now.Denied < r.counter.Denied {
			r.kept.add(&r.counter) // the counter began anew
		}
		r.counter = now
		c.add(&now)
	}
	c.add(&r.kept)
	return c
}

// rotateLocked begins a new generation of keys.
func (r *ruleFacts) rotateLocked(now time.Time) {
	r.keys[1], r.keys[0] = r.keys[0], keyLists{}
	r.before = r.seen.Swap(nil)
	r.peaks.ageLocked(now)
}

// board has the facts of the rules of one table. Only catalogs changes once it is in use, so that a
// decision finds its rule without a lock.
type board struct {
	table   *rule.Table
	rules   []*rule.Rule // those of the table
	byIndex []*ruleFacts // the facts of each
	byName  map[ruleName]*ruleFacts
	order   []*ruleFacts // in the order of the table
	shards  int

	mu       sync.Mutex                            // held while a domain is added to catalogs
	catalogs atomic.Pointer[map[string]*ruleFacts] // facts of the rules per API by domain
}

// newBoard returns the board of a table, with the facts of the boards before.
func newBoard(table *rule.Table, before *board, retired map[ruleName]*ruleFacts, shards int) *board {
	b := &board{table: table, byName: map[ruleName]*ruleFacts{}, shards: shards}
	b.catalogs.Store(&map[string]*ruleFacts{})
	if before != nil {
		b.catalogs.Store(before.catalogs.Load())
	}
	if table == nil {
		return b
	}
	b.rules = table.Rules()
	b.byIndex = make([]*ruleFacts, len(table.Rules()))
	for i, of := range table.Rules() {
		name := ruleName{of.Domain, of.Name}
		r := b.byName[name]
		if r == nil {
			if r = before.byName[name]; r == nil {
				if r = retired[name]; r == nil {
					r = newRuleFacts(name, shards)
				}
			}
			b.byName[name] = r
			b.order = append(b.order, r)
		}
		r.rule.Store(of)
		r.try(of)
		b.byIndex[i] = r
	}
	return b
}

// of returns the facts of a rule; nil if the table has no such rule.
func (b *board) of(r *rule.Rule) *ruleFacts {
	r = r.Original()
	if i := r.Index; i >= 0 {
		if i < len(b.rules) && b.rules[i] == r {
			return b.byIndex[i]
		}
		return b.byName[ruleName{r.Domain, r.Name}]
	}
	if f := (*b.catalogs.Load())[r.Domain]; f != nil {
		return f
	}
	return b.addCatalog(r.Domain)
}

// addCatalog returns the facts of the rules per API of a domain.
func (b *board) addCatalog(domain string) *ruleFacts {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := *b.catalogs.Load()
	if f := all[domain]; f != nil {
		return f
	}
	all = maps.Clone(all)
	domain = strings.Clone(domain)
	name := ruleName{domain, CatalogRule}
	f := newRuleFacts(name, b.shards)
	all[domain] = f
	b.catalogs.Store(&all)
	return f
}

// all returns the facts of all rules: in the order of the table, then those of rules per API.
func (b *board) all() []*ruleFacts {
	list := slices.Clone(b.order)
	catalogs := *b.catalogs.Load()
	for _, domain := range slices.Sorted(maps.Keys(catalogs)) {
		list = append(list, catalogs[domain])
	}
	return list
}

// find returns the facts of a rule by its name. The domain may be empty if only one has such a rule.
func (b *board) find(of Of) []*ruleFacts {
	var found []*ruleFacts
	for _, r := range b.all() {
		if of.matches(r.name.domain, r.name.name) {
			found = append(found, r)
		}
	}
	return found
}

// matches reports whether a rule is asked for.
func (o Of) matches(domain, name string) bool {
	return (o.Domain == "" || o.Domain == domain) && (o.Rule == "" || o.Rule == name)
}
