package catalog

import (
	"fmt"
	"maps"
	"math"
	"strings"
)

// draft is a version under construction. It begins as a copy of a version and shares its data; it
// copies what it changes. A draft is published or dropped.
type draft struct {
	version
	owner uint64
	pool  *pool

	ownsDomains, ownsMethods bool

	url   uint32 // position of the url of the rule being added, once written
	wrote bool
}

// publish returns the finished version.
func (d *draft) publish() *version {
	v := d.version
	v.text.chunks, v.terms, v.classes = d.pool.chunks, d.pool.terms, d.pool.classes
	return &v
}

// put adds a rule, or replaces the rule with its ID, and reports whether anything changed.
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
		d.order.Remove(at, d.owner)
	}
	ref, err := d.insert(r)
	if err != nil {
		return false, err
	}
	at, _ = d.search(r.ID)
	d.order.Insert(at, ref, d.owner)
	return true, nil
}

// amend changes the terms of a rule.
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

// delete removes the rule with this ID and reports whether there was one.
func (d *draft) delete(id string) bool {
	at, old := d.search(id)
	if old == 0 {
		return false
	}
	d.remove(old)
	d.order.Remove(at, d.owner)
	return true
}

// insert adds a rule to everything except the order. If it fails, the draft must be dropped.
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

// account adds a rule to the counters (by is 1) or removes it (by is -1).
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

// sync copies the current slices of the pool to the draft.
func (d *draft) sync() {
	d.text.chunks, d.terms, d.classes = d.pool.chunks, d.pool.terms, d.pool.classes
}

// take returns the index of a free element, or of a new one. next returns the link of an element in
// the list of free elements.
func take[T any](all *paged[T], free *uint32, next func(*T) uint32, owner uint64) uint32 {
	i := *free
	if i == 0 {
		return all.add(owner)
	}
	*free = next(all.at(i))
	return i
}

// domain returns the domain with this name for modification; it adds a missing domain.
func (d *draft) domain(name string) domain {
	d.ownDomains()
	own, ok := d.domains[name]
	if !ok {
		own.root = d.newNode(node{})
		d.domains[strings.Clone(name)] = own
	}
	return own
}

// ownDomains copies the map of domains, unless the draft has its own copy already.
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
		return 0, &hinted{fmt.Sprintf("%s is one method too many", name), "a catalog supports at most 255"}
	case !d.ownsMethods:
		d.methods, d.ownsMethods = maps.Clone(d.methods), true
	}
	n = uint8(len(d.methods) + 1)
	d.methods[strings.Clone(name)] = n
	return n, nil
}
