package catalog

import (
	"fmt"
	"strings"
)

// first returns the first rule of the chain that a rule belongs to: the rules of one leaf for the
// same users.
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

// setFirst replaces the first rule of a chain; 0 removes the chain.
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

// link adds a rule to the chain of its url and uid, which is ordered by time, the shortest first.
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

// same returns the error for a rule that equals another one.
func (d *draft) same(r *Rule, other Rule) error {
	return &Error{
		ID: r.ID, Problem: fmt.Sprintf("%s is already limited by rule %s: %s", said(r), other.ID, said(&other)),
		Hint: "delete one of the two, or give it a different url, uid or time",
	}
}

func said(r *Rule) string {
	return strings.TrimSuffix(fmt.Sprintf("%s for uid %q per %s", r.URL, r.UID, r.Time), " per ")
}
