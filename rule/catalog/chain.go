package catalog

import (
	"fmt"
	"strings"
)

// first returns the first of the rules that are for the same users of a leaf.
func (d *draft) first(r *record, name string) uint32 {
	switch l := d.leaf(r.leaf); r.who {
	case everybody:
		return l.all
	case each:
		return l.each
	default:
		return d.version.owner(r.leaf, r.who, name)
	}
}

// setFirst puts another rule in its place; 0: there is none any more.
func (d *draft) setFirst(leaf uint32, w who, name string, old, first uint32) {
	if old == first {
		return
	}
	l := d.editLeaf(leaf)
	switch w {
	case everybody:
		l.all = first
		return
	case each:
		l.each = first
		return
	case plan, user:
	}
	count := &l.users
	if w == plan {
		count = &l.plans
	}
	hash := d.hash(nameOf(leaf, w), name)
	switch {
	case old == 0:
		*count++
		d.owned.put(hash, first, d.owner)
	case first == 0:
		*count--
		d.owned.remove(hash, old, d.owner)
	default:
		d.owned.replace(hash, old, first, d.owner)
	}
}

// link puts a rule among those of its url and uid, the shortest time first.
func (d *draft) link(ref uint32, r *Rule) error {
	one := d.rules.at(ref)
	_, name := whose(r.UID)
	per := d.terms[one.terms].per
	first := d.first(one, name)
	before, after := uint32(0), first
	for after != 0 {
		other := d.rules.at(after)
		p := d.terms[other.terms].per
		if p == per {
			return d.same(r, d.rule(after))
		}
		if p > per {
			break
		}
		before, after = after, other.next
	}
	d.rules.edit(ref, d.owner).next = after
	if before != 0 {
		d.rules.edit(before, d.owner).next = ref
		return nil
	}
	d.setFirst(one.leaf, one.who, name, first, ref)
	return nil
}

// same says that a rule says what another one says.
func (d *draft) same(r *Rule, other Rule) error {
	return &Error{
		ID: r.ID, Problem: fmt.Sprintf("%s is what rule %s already limits: %s", said(r), other.ID, said(&other)),
		Hint: "delete one of the two, or give it another url, uid or time",
	}
}

func said(r *Rule) string {
	return strings.TrimSuffix(fmt.Sprintf("%s for uid %q per %s", r.URL, r.UID, r.Time), " per ")
}
