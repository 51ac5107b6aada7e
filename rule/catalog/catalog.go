package catalog

import (
	"fmt"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"

	"stint/internal/urlpath"
)

// Catalog is a set of rules. It is safe for concurrent use: whoever asks it sees all
// rules of one moment and never waits; changes come one after the other. A change of
// one rule takes microseconds whatever the number of rules, because the versions
// before and after it share all that it does not touch.
//
// About 200 bytes of memory belong to a rule, more or less with the length of its
// texts. What changed or deleted rules leave behind is cleared away in the background
// once it is more than what is in force; that and Replace need room for both for a
// moment. The zero Catalog is not usable: see [New].
type Catalog struct {
	options Options
	current atomic.Pointer[version]
	drafts  atomic.Uint64 // how many there were

	mu       sync.Mutex // guards what follows, and is held by whoever makes a version
	pool     *pool
	clearing *draft   // what the rules in force are compiled to anew
	missed   []change // since that began
}

// change is a Put, or the Delete of an id.
type change struct {
	rule   Rule
	delete bool
}

// Options are the settings of a catalog.
type Options struct {
	// Domain is that of rules which name none. "": they belong to the domain that has
	// no name.
	Domain string

	// Paths say which spellings of a path are taken for one. The zero value suits
	// servers that follow RFC 3986.
	Paths Paths
}

// Paths say which spellings of a path are taken for one.
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
	d.nodes.add(d.owner) // number 0 is none
	d.leaves.add(d.owner)
	d.rules.add(d.owner)
	return d
}

// next returns a draft of what follows the version in force.
func (c *Catalog) next() *draft {
	d := &draft{version: *c.current.Load(), owner: c.drafts.Add(1), pool: c.pool}
	d.sync()
	return d
}

// Replace puts a whole set in force at once, in place of all rules. Where one of them
// is refused, or the sequence yields an error, the rules before stay, and the error
// says why: that of the sequence as it is, or an [*Error], for two rules of one id with
// the positions in the sequence, from 0, of both.
//
// Other changes do not wait while the set is compiled. They are in force until the set
// is, which replaces them too.
func (c *Catalog) Replace(rules iter.Seq2[Rule, error]) error {
	d, err := c.compile(rules)
	if err != nil {
		return err
	}
	// The point of no return: all that can fail is done.
	c.mu.Lock()
	defer c.mu.Unlock()
	d.generation = c.current.Load().generation + 1
	c.pool = d.pool
	c.clearing, c.missed = nil, nil
	c.current.Store(d.publish())
	return nil
}

// compile returns a draft of all rules of a sequence.
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
				Problem: fmt.Sprintf("two rules have it, number %d and number %d", sorted[i-1]-1, sorted[i]-1),
				Hint:    "give one of them another",
			}
		}
	}
	d.order = newOrder(sorted, d.owner)
	return d, nil
}

// fill puts the default domain where a rule names none.
func (c *Catalog) fill(r *Rule) {
	if r.Domain == "" {
		r.Domain = c.options.Domain
	}
}

// Put adds a rule, or puts it in the place of the one of its id. It is in force when
// Put returns. A rule that is refused changes nothing; the error is an [*Error].
//
// Whoever used up a part of a limit has used it up under the new numbers as well; a
// rule with another domain, uid or url starts afresh.
func (c *Catalog) Put(r Rule) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill(&r)
	d := c.next()
	changed, err := d.put(&r)
	if err != nil || !changed {
		return err
	}
	c.commit(d, change{rule: r})
	return nil
}

// Delete takes out the rule of an id, and says whether there was one.
func (c *Catalog) Delete(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.next()
	if !d.delete(id) {
		return false
	}
	c.commit(d, change{rule: Rule{ID: id}, delete: true})
	return true
}

// commit puts a draft in force.
func (c *Catalog) commit(d *draft, by change) {
	d.generation++
	c.current.Store(d.publish())
	switch {
	case c.clearing != nil:
		by.rule = by.rule.clone()
		c.missed = append(c.missed, by)
	case d.wasteful():
		c.clearing = c.empty(c.newPool())
		go c.clear(c.clearing, c.current.Load())
	}
}

// wasteful reports whether more memory serves no rule than serves one.
func (d *draft) wasteful() bool {
	const least = 1 << 20 // bytes that are not worth the work
	return d.garbage > least && d.garbage > d.pool.written-d.garbage || len(d.terms) > 10_000 && len(d.terms) > 2*d.count
}

// clear compiles the rules of a version anew, without what they do not need, and puts
// that in force with the changes that came meanwhile.
func (c *Catalog) clear(d *draft, v *version) {
	refs := make([]uint32, 0, v.count)
	var err error
	for p := (place{}); v.order.at(p) != 0 && err == nil; p = v.order.next(p) {
		var ref uint32
		r := v.rule(v.order.at(p))
		ref, err = d.insert(&r)
		refs = append(refs, ref)
	}
	d.order = newOrder(refs, d.owner)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clearing != d {
		return // all was replaced meanwhile
	}
	missed := c.missed
	c.clearing, c.missed = nil, nil
	if err != nil || d.catchUp(missed) != nil {
		return // it is as full as it was before
	}
	d.generation = c.current.Load().generation
	c.pool = d.pool
	c.current.Store(d.publish())
}

// catchUp makes the changes that came while the draft was made.
func (d *draft) catchUp(missed []change) error {
	for i := range missed {
		if missed[i].delete {
			d.delete(missed[i].rule.ID)
		} else if _, err := d.put(&missed[i].rule); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the rule of an id, with its domain.
func (c *Catalog) Get(id string) (Rule, bool) {
	v := c.current.Load()
	_, ref := v.search(id)
	if ref == 0 {
		return Rule{}, false
	}
	return v.rule(ref), true
}

// List returns up to n rules whose ids follow after, in the order of their bytes. ""
// begins; the last id of one page is where the next begins.
func (c *Catalog) List(after string, n int) []Rule {
	v := c.current.Load()
	p := v.order.search(func(ref uint32) bool { return v.id(v.rules.at(ref)) <= after })
	list := make([]Rule, 0, max(0, min(n, v.count)))
	for ; len(list) < n && v.order.at(p) != 0; p = v.order.next(p) {
		list = append(list, v.rule(v.order.at(p)))
	}
	return list
}

// Len returns how many rules there are.
func (c *Catalog) Len() int { return c.current.Load().count }

// Generation returns how often this process has put a change in force.
func (c *Catalog) Generation() uint64 { return c.current.Load().generation }

// Hash returns a short hash of all rules, by which a fleet tells whether all its nodes
// have the same. It depends neither on the order in which they came nor on what was
// there before.
func (c *Catalog) Hash() string {
	v := c.current.Load()
	return v.sum.hash(v.count)
}

// Has reports whether a domain has any rule.
func (c *Catalog) Has(domain string) bool {
	_, ok := c.current.Load().domains[domain]
	return ok
}
