package catalog

import (
	"fmt"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"

	"stint/internal/urlpath"
	"stint/rule/catalog/order"
)

// Catalog is a set of rules. It is safe for concurrent use: readers see all rules of one version
// and never wait, and changes are applied one after another. Changing one rule takes microseconds,
// independent of the number of rules, because the old and the new version share everything that
// does not change.
//
// A rule takes about 200 bytes of memory, depending on the length of its texts. Memory of changed
// and deleted rules is reclaimed in the background once it exceeds the memory in use; reclaiming
// and Replace need memory for both for a short time. The zero Catalog is not usable: see [New].
type Catalog struct {
	options Options
	current atomic.Pointer[version]
	drafts  atomic.Uint64 // number of drafts created

	mu       sync.Mutex // guards the fields below; held while a new version is made
	pool     *pool
	clearing *draft // draft to which the current rules are being recompiled; nil if none
	missed   []Edit // changes since clearing began
}

// Options are the settings of a catalog.
type Options struct {
	// Domain is the domain of rules without one. "" is a domain too, which has no name.
	Domain string

	// Paths select the spellings of a path that are treated as equal. The zero value fits servers
	// that follow RFC 3986.
	Paths Paths
}

// Paths select the spellings of a path that are treated as equal.
type Paths = urlpath.Options

// New returns a catalog without rules.
func New(o Options) *Catalog {
	c := &Catalog{options: o}
	c.pool = c.newPool()
	c.current.Store(c.empty(c.pool).publish())
	return c
}

func (c *Catalog) newPool() *pool {
	p := newPool()
	p.pattern.paths = c.options.Paths
	return p
}

// empty returns a draft without rules.
func (c *Catalog) empty(p *pool) *draft {
	d := &draft{owner: c.drafts.Add(1), pool: p, ownsDomains: true, ownsMethods: true}
	d.seed = maphash.MakeSeed()
	d.domains, d.methods = map[string]domain{}, map[string]uint8{}
	d.nodes.add(d.owner) // number 0 means none
	d.leaves.add(d.owner)
	d.rules.add(d.owner)
	return d
}

// next returns a draft that begins as a copy of the current version.
func (c *Catalog) next() *draft {
	d := &draft{version: *c.current.Load(), owner: c.drafts.Add(1), pool: c.pool}
	d.sync()
	return d
}

// Replace replaces all rules at once. If a rule is refused, or the sequence yields an error, the
// old rules stay. Replace returns the error of the sequence unchanged, or an [*Error]; for two
// rules with the same ID the error has their positions in the sequence, counted from 0.
//
// Other changes do not wait while the set is compiled. They take effect, and are then replaced too.
func (c *Catalog) Replace(rules iter.Seq2[Rule, error]) error {
	p, err := c.PrepareAll(rules)
	if err != nil {
		return err
	}
	return p.Commit()
}

// replace makes a draft with all rules the current version.
func (c *Catalog) replace(d *draft) {
	d.generation = c.current.Load().generation + 1
	c.pool = d.pool
	c.clearing, c.missed = nil, nil
	c.current.Store(d.publish())
}

// compile returns a draft with all rules of a sequence.
func (c *Catalog) compile(rules iter.Seq2[Rule, error]) (*draft, error) {
	d := c.empty(c.newPool())
	for r, err := range rules {
		if err != nil {
			return nil, err
		}
		c.fill(&r)
		if _, err := d.insert(&r); err != nil {
			return nil, err
		}
	}
	sorted := d.sorted()
	for i := 1; i < len(sorted); i++ {
		if a, b := d.rules.at(sorted[i-1]), d.rules.at(sorted[i]); d.id(a) == d.id(b) {
			return nil, &Error{
				ID: d.id(a), Field: "id",
				Problem: fmt.Sprintf("two rules have this id, number %d and number %d", sorted[i-1]-1, sorted[i]-1),
				Hint:    "give one of them another id",
			}
		}
	}
	d.order = order.New(sorted, d.owner)
	return d, nil
}

// WithDefaults returns a rule as [Catalog.Get] would: with its domain.
func (c *Catalog) WithDefaults(r Rule) Rule {
	c.fill(&r)
	return r
}

// fill sets the default domain if a rule has none.
func (c *Catalog) fill(r *Rule) {
	if r.Domain == "" {
		r.Domain = c.options.Domain
	}
}

// Put adds a rule, or replaces the rule with its ID. The rule is in force when Put returns. A
// refused rule changes nothing; the error is an [*Error].
//
// Usage is kept if only the numbers of a rule change; a rule with a new domain, uid or url starts
// with its full limit.
func (c *Catalog) Put(r Rule) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill(&r)
	d := c.next()
	changed, err := d.put(&r)
	if err != nil || !changed {
		return err
	}
	c.commit(d, Edit{Rule: r})
	return nil
}

// Delete removes the rule with this ID and reports whether there was one.
func (c *Catalog) Delete(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.next()
	if !d.delete(id) {
		return false
	}
	c.commit(d, Edit{Rule: Rule{ID: id}, Delete: true})
	return true
}

// commit makes a draft the current version.
func (c *Catalog) commit(d *draft, by ...Edit) {
	d.generation++
	c.current.Store(d.publish())
	switch {
	case c.clearing != nil:
		for _, e := range by {
			e.Rule = e.Rule.clone()
			c.missed = append(c.missed, e)
		}
	case d.wasteful():
		c.clearing = c.empty(c.newPool())
		go c.clear(c.clearing, c.current.Load())
	}
}

// wasteful reports whether more memory is unused than used.
func (d *draft) wasteful() bool {
	const least = 1 << 20 // less unused memory is not worth reclaiming, in bytes
	return d.garbage > least && d.garbage > d.pool.written-d.garbage || len(d.terms) > 10_000 && len(d.terms) > 2*d.count
}

// clear recompiles the rules of a version without unused memory, applies the changes made
// meanwhile, and makes the result the current version.
func (c *Catalog) clear(d *draft, v *version) {
	refs := make([]uint32, 0, v.count)
	var err error
	for p := (order.Place{}); v.order.At(p) != 0 && err == nil; p = v.order.Next(p) {
		var ref uint32
		r := v.rule(v.order.At(p))
		ref, err = d.insert(&r)
		refs = append(refs, ref)
	}
	d.order = order.New(refs, d.owner)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clearing != d {
		return // Replace was called meanwhile
	}
	missed := c.missed
	c.clearing, c.missed = nil, nil
	if err != nil || d.catchUp(missed) != nil {
		return // keep the old version, which has not become larger
	}
	d.generation = c.current.Load().generation
	c.pool = d.pool
	c.current.Store(d.publish())
}

// catchUp applies the changes that were made while the draft was compiled.
func (d *draft) catchUp(missed []Edit) error {
	for i := range missed {
		if missed[i].Delete {
			d.delete(missed[i].Rule.ID)
		} else if _, err := d.put(&missed[i].Rule); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the rule with this ID, with its domain.
func (c *Catalog) Get(id string) (Rule, bool) {
	v := c.current.Load()
	_, ref := v.search(id)
	if ref == 0 {
		return Rule{}, false
	}
	return v.rule(ref), true
}

// List returns up to n rules with IDs greater than after, in byte order. Start with ""; pass the
// last ID of a page to get the next one.
func (c *Catalog) List(after string, n int) []Rule {
	v := c.current.Load()
	p := v.order.Search(func(ref uint32) bool { return v.id(v.rules.at(ref)) <= after })
	list := make([]Rule, 0, max(0, min(n, v.count)))
	for ; len(list) < n && v.order.At(p) != 0; p = v.order.Next(p) {
		list = append(list, v.rule(v.order.At(p)))
	}
	return list
}

// Len returns the number of rules.
func (c *Catalog) Len() int { return c.current.Load().count }

// Generation returns how many changes this process has put in force.
func (c *Catalog) Generation() uint64 { return c.current.Load().generation }

// Hash returns a short hash of all rules. Nodes of a fleet compare it to check that they have the
// same rules. It does not depend on the order of the rules or on earlier rules.
func (c *Catalog) Hash() string {
	v := c.current.Load()
	return v.sum.hash(v.count)
}

// Has reports whether a domain has rules.
func (c *Catalog) Has(domain string) bool {
	_, ok := c.current.Load().domains[domain]
	return ok
}
