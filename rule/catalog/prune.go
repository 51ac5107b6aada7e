package catalog

// remove removes a rule from everything except the order, with all data that only this rule used.
func (d *draft) remove(ref uint32) {
	r := d.rule(ref)
	d.account(&r, -1)
	d.unlink(ref, &r)
	one := d.rules.edit(ref, d.owner)
	l := *d.leaf(one.leaf)
	d.garbage += int(one.idLength) + int(one.uidLength)
	if one.url != l.url || l.empty() {
		d.garbage += 2 + len(r.URL)
	}
	leaf := one.leaf
	one.next, d.free.rules = d.free.rules, ref
	if l.empty() {
		d.prune(d.dropLeaf(leaf))
	}
	if own := d.domains[r.Domain]; own.all == 0 && own.apart == 0 {
		delete(d.domains, r.Domain)
		d.freeNode(own.root)
	}
}

// unlink removes a rule from the chain of its url and uid.
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

// dropLeaf removes an empty leaf from its node and returns the node.
func (d *draft) dropLeaf(i uint32) (at uint32) {
	if at = i; i >= otherLeaf {
		at = d.dropOther(i - otherLeaf)
	}
	n := d.nodes.edit(at, d.owner)
	n.ends = 0
	if !n.own.empty() {
		n.ends = 1 << n.own.end
	}
	for j := n.more; j != 0; j = d.leaves.at(j).next {
		n.ends |= 1 << d.leaves.at(j).end
	}
	return at
}

func (d *draft) dropOther(i uint32) (at uint32) {
	gone := *d.leaves.at(i)
	if first := d.nodes.at(gone.node).more; first == i {
		d.nodes.edit(gone.node, d.owner).more = gone.next
	} else {
		before := first
		for d.leaves.at(before).next != i {
			before = d.leaves.at(before).next
		}
		d.leaves.edit(before, d.owner).next = gone.next
	}
	*d.leaves.edit(i, d.owner) = other{next: d.free.leaves}
	d.free.leaves = i
	return gone.node
}

// prune removes a node that no pattern uses any more, and unused nodes above it.
func (d *draft) prune(i uint32) {
	for {
		n := *d.nodes.at(i)
		if !n.empty() || n.parent == 0 {
			return
		}
		switch n.kind {
		case literal:
			d.literal.remove(d.hash(uint64(n.parent), d.literalOf(&n)), i, d.owner)
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
