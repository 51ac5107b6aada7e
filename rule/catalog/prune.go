package catalog

// remove takes a rule out of all but the order, with what nobody needs any more.
func (d *draft) remove(ref uint32) {
	r := d.rule(ref)
	d.account(&r, -1)
	d.unlink(ref, &r)
	one := d.rules.edit(ref, d.owner)
	l := *d.leaves.at(one.leaf)
	d.garbage += int(one.idLength) + int(one.uidLength)
	if one.url != l.url || l.empty() {
		d.garbage += int(one.urlLength)
	}
	leaf := one.leaf
	one.next, d.free.rules = d.free.rules, ref
	if l.empty() {
		d.dropLeaf(leaf)
		d.prune(l.node)
	}
	if own := d.domains[r.Domain]; own.all == 0 && own.apart == 0 {
		delete(d.domains, r.Domain)
		d.freeNode(own.root)
	}
}

// unlink takes a rule from those of its url and uid.
func (d *draft) unlink(ref uint32, r *Rule) {
	one := *d.rules.at(ref)
	_, name := whose(r.UID)
	first := d.first(&one, name)
	if first == ref {
		d.setFirst(one.leaf, one.who, name, first, one.next)
		return
	}
	before := first
	for d.rules.at(before).next != ref {
		before = d.rules.at(before).next
	}
	d.rules.edit(before, d.owner).next = one.next
}

// dropLeaf takes a leaf from its node.
func (d *draft) dropLeaf(i uint32) {
	l := *d.leaves.at(i)
	first := d.nodes.at(l.node).ends[l.end]
	if first == i {
		d.nodes.edit(l.node, d.owner).ends[l.end] = l.next
	} else {
		before := first
		for d.leaves.at(before).next != i {
			before = d.leaves.at(before).next
		}
		d.leaves.edit(before, d.owner).next = l.next
	}
	*d.leaves.edit(i, d.owner) = leaf{next: d.free.leaves}
	d.free.leaves = i
}

// prune takes out a node that no pattern goes through any more, and those above it.
func (d *draft) prune(i uint32) {
	for {
		n := *d.nodes.at(i)
		if !n.empty() || n.parent == 0 {
			return
		}
		switch n.kind {
		case literal:
			d.literal.remove(d.hash(n.parent, d.text.at(n.text, int(n.length))), i, d.owner)
			d.nodes.edit(n.parent, d.owner).literals--
		case single:
			d.nodes.edit(n.parent, d.owner).single = 0
		case class:
			before, at := uint32(0), d.nodes.at(n.parent).classes
			for at != i {
				before, at = at, d.nodes.at(at).sibling
			}
			d.linkClass(n.parent, before, n.sibling)
		}
		d.freeNode(i)
		i = n.parent
	}
}

func (d *draft) freeNode(i uint32) {
	*d.nodes.edit(i, d.owner) = node{sibling: d.free.nodes}
	d.free.nodes = i
}
