package catalog

import "cmp"

// grow returns the leaf of a pattern, made with all nodes on the way if there is none.
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
	first := d.nodes.at(at).ends[p.end]
	for i := first; i != 0; i = d.leaves.at(i).next {
		if d.leaves.at(i).method == method {
			return i, nil
		}
	}
	i := take(&d.leaves, &d.free.leaves, func(l *leaf) uint32 { return l.next }, d.owner)
	*d.leaves.edit(i, d.owner) = leaf{node: at, next: first, method: method, end: p.end}
	d.nodes.edit(at, d.owner).ends[p.end] = i
	return i, nil
}

// step returns the child of a node for a segment, made if there is none.
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
	text, err := d.literalText(s, url)
	if err != nil {
		return 0, err
	}
	i := d.newNode(node{parent: of, kind: literal, text: text, length: uint16(len(s.text))})
	d.literal.put(d.hash(of, s.text), i, d.owner)
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
		order := cmp.Compare(d.classes[n.text].source, source)
		if order == 0 {
			return after
		}
		if order > 0 {
			break
		}
		before, after = after, n.sibling
	}
	i := d.newNode(node{parent: of, kind: class, text: number, sibling: after})
	d.linkClass(of, before, i)
	return i
}

// linkClass makes i the child of a class that follows another one, 0 the first.
func (d *draft) linkClass(of, before, i uint32) {
	if before == 0 {
		d.nodes.edit(of, d.owner).classes = i
	} else {
		d.nodes.edit(before, d.owner).sibling = i
	}
}

// writeURL keeps the url of the rule that is added, and returns where it is.
func (d *draft) writeURL(url string) (uint32, error) {
	if d.wrote {
		return d.url, nil
	}
	at, err := d.pool.write(url)
	if err != nil {
		return 0, err
	}
	d.sync()
	d.url, d.wrote = at, true
	return at, nil
}

// literalText returns where the text of a segment is. Most often that is in the url.
func (d *draft) literalText(s *segment, url string) (uint32, error) {
	if s.text == "" {
		return 0, nil
	}
	if s.raw >= 0 {
		at, err := d.writeURL(url)
		return at + uint32(s.raw), err
	}
	at, err := d.pool.write(s.text)
	d.sync()
	return at, err
}

// keepURL keeps the url of a rule, once for all rules of a leaf that write it alike.
func (d *draft) keepURL(ref uint32, url string) error {
	r := d.rules.edit(ref, d.owner)
	l := d.leaves.at(r.leaf)
	if !l.empty() && d.text.at(l.url, int(l.length)) == url {
		r.url = l.url
		return nil
	}
	at, err := d.writeURL(url)
	if err != nil {
		return err
	}
	r.url = at
	if l.empty() {
		l = d.leaves.edit(r.leaf, d.owner)
		l.url, l.length = at, uint16(len(url))
	}
	return nil
}
