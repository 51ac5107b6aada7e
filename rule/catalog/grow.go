package catalog

import "cmp"

// grow returns the leaf of a pattern; it adds the leaf and all missing nodes above.
func (d *draft) grow(r *Rule, p *pattern) (uint32, error) {
	method, err := d.method(p.method)
	if err != nil {
		return 0, err
	}
	at := d.domain(r.Domain).root
	for i := range p.segments {
		if at, err = d.step(at, &p.segments[i], r.URL); err != nil {
			return 0, err
		}
	}
	return d.leafOf(at, method, p.end), nil
}

// leafOf returns the leaf of a node for a method and an end; it adds a missing leaf.
func (d *draft) leafOf(at uint32, method uint8, e end) uint32 {
	n := d.nodes.at(at)
	if !n.own.empty() && n.own.method == method && n.own.end == e {
		return at
	}
	for i := n.more; i != 0; i = d.leaves.at(i).next {
		if l := d.leaves.at(i); l.method == method && l.end == e {
			return i | otherLeaf
		}
	}
	n = d.nodes.edit(at, d.owner)
	n.ends |= 1 << e
	made := leaf{method: method, end: e}
	if n.own.empty() {
		n.own = made
		return at
	}
	i := take(&d.leaves, &d.free.leaves, func(l *other) uint32 { return l.next }, d.owner)
	*d.leaves.edit(i, d.owner) = other{leaf: made, node: at, next: n.more}
	n.more = i
	return i | otherLeaf
}

// editLeaf returns a leaf for modification.
func (d *draft) editLeaf(i uint32) *leaf {
	if i < otherLeaf {
		return &d.nodes.edit(i, d.owner).own
	}
	return &d.leaves.edit(i-otherLeaf, d.owner).leaf
}

// step returns the child of a node for a segment; it adds a missing child.
func (d *draft) step(of uint32, s *segment, url string) (uint32, error) {
	switch s.kind {
	case single:
		if i := d.nodes.at(of).single; i != 0 {
			return i, nil
		}
		i := d.newNode(node{parent: of, kind: single})
		d.nodes.edit(of, d.owner).single = i
		return i, nil
	case class:
		return d.stepClass(of, s.text), nil
	case literal:
	}
	if i := d.child(of, s.text); i != 0 {
		return i, nil
	}
	n, err := d.literalNode(s, url)
	if err != nil {
		return 0, err
	}
	n.parent = of
	i := d.newNode(n)
	d.literal.put(d.hash(uint64(of), s.text), i, d.owner)
	d.nodes.edit(of, d.owner).literals++
	return i, nil
}

// stepClass is step for a class.
func (d *draft) stepClass(of uint32, source string) uint32 {
	number := d.pool.class(source, d.pool.pattern.known[source])
	d.sync()
	before, after := uint32(0), d.nodes.at(of).classes
	for after != 0 {
		n := d.nodes.at(after)
		order := cmp.Compare(d.classes[n.number()].source, source)
		if order == 0 {
			return after
		}
		if order > 0 {
			break
		}
		before, after = after, n.sibling
	}
	n := node{parent: of, kind: class, sibling: after}
	n.setNumber(number)
	i := d.newNode(n)
	d.linkClass(of, before, i)
	return i
}

// linkClass links child i of a class behind child before; if before is 0, as the first one.
func (d *draft) linkClass(of, before, i uint32) {
	if before == 0 {
		d.nodes.edit(of, d.owner).classes = i
	} else {
		d.nodes.edit(before, d.owner).sibling = i
	}
}

// writeURL stores the url of the rule being added and returns its position.
func (d *draft) writeURL(url string) (uint32, error) {
	if d.wrote {
		return d.url, nil
	}
	at, err := d.pool.write(string([]byte{byte(len(url) >> 8), byte(len(url))}), url)
	if err != nil {
		return 0, err
	}
	d.sync()
	d.url, d.wrote = at, true
	return at, nil
}

// literalNode returns a new node for a literal. The text of a long literal is usually part of the
// stored url.
func (d *draft) literalNode(s *segment, url string) (node, error) {
	n := node{kind: literal, length: uint16(len(s.text))}
	if len(s.text) <= shortText {
		copy(n.text[:], s.text)
		return n, nil
	}
	if s.raw >= 0 {
		at, err := d.writeURL(url)
		n.setNumber(at + 2 + uint32(s.raw))
		return n, err
	}
	at, err := d.pool.write(s.text)
	d.sync()
	n.setNumber(at)
	return n, err
}

// keepURL stores the url of a rule. Rules of one leaf with the same spelling share one copy.
func (d *draft) keepURL(ref uint32, url string) error {
	r := d.rules.edit(ref, d.owner)
	l := d.leaf(r.leaf)
	if !l.empty() && d.version.url(l.url) == url {
		r.url = l.url
		return nil
	}
	at, err := d.writeURL(url)
	if err != nil {
		return err
	}
	r.url = at
	if l.empty() {
		d.editLeaf(r.leaf).url = at
	}
	return nil
}
