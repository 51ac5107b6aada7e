package catalog

import (
	"fmt"
	"maps"
	"math"
	"strings"
)

// draft is a version that is being made. It begins as a copy of one, with which it
// shares everything; what it changes is its own. It is put in force, or forgotten.
type draft struct {
	version
	owner uint64
	pool  *pool

	ownsDomains, ownsMethods bool

	url   uint32 // of the rule that is added, once it is written
	wrote bool
}

// publish returns the version that was made.
func (d *draft) publish() *version {
	v := d.version
	v.text.chunks, v.terms, v.classes = d.pool.chunks, d.pool.terms, d.pool.classes
	return &v
}

// put adds a rule, or changes the one of its id, and says whether anything changed.
func (d *draft) put(r *Rule) (bool, error) {
	at, old := d.search(r.ID)
	if old != 0 {
		before := d.rule(old)
		switch {
		case before == *r:
			return false, nil
		case before.UID == r.UID && before.URL == r.URL && before.Domain == r.Domain:
			return true, d.amend(old, &before, r)
		}
		d.remove(old)
		d.order.remove(at, d.owner)
	}
	ref, err := d.insert(r)
	if err != nil {
		return false, err
	}
	at, _ = d.search(r.ID)
	d.order.insert(at, ref, d.owner)
	return true, nil
}

// amend gives a rule other terms.
func (d *draft) amend(ref uint32, before, r *Rule) error {
	number, err := d.pool.termsFor(r)
	if err != nil {
		return err
	}
	d.sync()
	d.account(before, -1)
	d.unlink(ref, before)
	d.rules.edit(ref, d.owner).terms = number
	if err := d.link(ref, r); err != nil {
		return err
	}
	d.account(r, 1)
	return nil
}

// delete takes a rule out, if there is one of that id.
func (d *draft) delete(id string) bool {
	at, old := d.search(id)
	if old == 0 {
		return false
	}
	d.remove(old)
	d.order.remove(at, d.owner)
	return true
}

// insert adds a rule to all but the order. Where it fails the draft is of no use.
func (d *draft) insert(r *Rule) (uint32, error) {
	if err := r.checkTexts(); err != nil {
		return 0, err
	}
	p := &d.pool.pattern
	if err := p.parse(r.URL); err != nil {
		return 0, r.fault("url", err)
	}
	terms, err := d.pool.termsFor(r)
	if err != nil {
		return 0, err
	}
	d.wrote = false
	leaf, err := d.grow(r, p)
	if err != nil {
		return 0, r.fault("", err)
	}
	text, err := d.pool.write(r.ID, r.UID)
	if err != nil {
		return 0, r.fault("", err)
	}
	d.sync()
	kind, _ := whose(r.UID)
	ref := take(&d.rules, &d.free.rules, func(r *record) uint32 { return r.next }, d.owner)
	*d.rules.edit(ref, d.owner) = record{
		mark: markOf(r.Domain, r.UID, r.URL), text: text, terms: terms, leaf: leaf, who: kind,
		idLength: uint8(len(r.ID)), uidLength: uint8(len(r.UID)),
	}
	if err := d.keepURL(ref, r.URL); err != nil {
		return 0, r.fault("", err)
	}
	if err := d.link(ref, r); err != nil {
		return 0, err
	}
	d.account(r, 1)
	return ref, nil
}

// account counts a rule that comes (1) or goes (-1).
func (d *draft) account(r *Rule, by int) {
	own := d.domain(r.Domain)
	if kind, _ := whose(r.UID); kind == everybody {
		own.all += by
	} else {
		own.apart += by
	}
	d.domains[r.Domain] = own
	d.count += by
	var one sum
	if one, d.pool.buf = sumOf(r, d.pool.buf); by > 0 {
		d.sum.add(one)
	} else {
		d.sum.sub(one)
	}
}

// sync lets the draft see what was added to the pool.
func (d *draft) sync() {
	d.text.chunks, d.terms, d.classes = d.pool.chunks, d.pool.terms, d.pool.classes
}

// take returns a free element, or a new one. next reads the list of free ones.
func take[T any](all *paged[T], free *uint32, next func(*T) uint32, owner uint64) uint32 {
	i := *free
	if i == 0 {
		return all.add(owner)
	}
	*free = next(all.at(i))
	return i
}

// domain returns the domain of that name, made if there is none, to be changed.
func (d *draft) domain(name string) domain {
	d.ownDomains()
	own, ok := d.domains[name]
	if !ok {
		own.root = d.newNode(node{})
		d.domains[strings.Clone(name)] = own
	}
	return own
}

// ownDomains makes the map of domains the draft's.
func (d *draft) ownDomains() {
	if !d.ownsDomains {
		d.domains, d.ownsDomains = maps.Clone(d.domains), true
	}
}

func (d *draft) newNode(n node) uint32 {
	i := take(&d.nodes, &d.free.nodes, func(n *node) uint32 { return n.sibling }, d.owner)
	*d.nodes.edit(i, d.owner) = n
	return i
}

// method returns the number of a method.
func (d *draft) method(name string) (uint8, error) {
	n, ok := d.methods[name]
	switch {
	case ok || name == "":
		return n, nil
	case len(d.methods) == math.MaxUint8:
		return 0, &hinted{fmt.Sprintf("%s is one method too many", name), "at most 255 are told apart"}
	case !d.ownsMethods:
		d.methods, d.ownsMethods = maps.Clone(d.methods), true
	}
	n = uint8(len(d.methods) + 1)
	d.methods[strings.Clone(name)] = n
	return n, nil
}
