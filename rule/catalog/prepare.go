package catalog

import (
	"iter"

	"stint/rule/catalog/order"
)

// Edit puts a rule, or deletes the rule with the ID of Rule.
type Edit struct {
	Rule   Rule
	Delete bool
}

// Prepared is a change of a catalog that was checked and is not in force yet. Dropping it changes
// nothing.
type Prepared struct {
	catalog *Catalog
	edits   []Edit
	base    *version // the version that draft continues; nil if draft has all rules
	draft   *draft
}

// Prepare checks edits that are to be made together. Each ID has at most one edit; deleting an ID
// without a rule does nothing. The error is an [*Error]. The caller writes the change to where the
// rules are kept, then calls Commit; nobody else may change the catalog meanwhile.
func (c *Catalog) Prepare(edits []Edit) (*Prepared, error) {
	for i := range edits {
		c.fill(&edits[i].Rule)
	}
	p := &Prepared{catalog: c, edits: edits}
	c.mu.Lock()
	err := p.build()
	c.mu.Unlock()
	if err == nil {
		return p, nil
	}
	// If two rules exchange their urls, each is refused before the other has changed.
	if p.draft, err = c.compile(c.edited(edits)); err != nil {
		return nil, err
	}
	p.base = nil
	return p, nil
}

// PrepareAll is Prepare for a change that replaces all rules. Its errors are those of Replace.
func (c *Catalog) PrepareAll(rules iter.Seq2[Rule, error]) (*Prepared, error) {
	d, err := c.compile(rules)
	if err != nil {
		return nil, err
	}
	return &Prepared{catalog: c, draft: d}, nil
}

// build makes the edits one after another. The caller holds the mutex of the catalog.
func (p *Prepared) build() error {
	p.base, p.draft = p.catalog.current.Load(), p.catalog.next()
	for i := range p.edits {
		if p.edits[i].Delete {
			p.draft.delete(p.edits[i].Rule.ID)
		}
	}
	for i := range p.edits {
		if p.edits[i].Delete {
			continue
		}
		if _, err := p.draft.put(&p.edits[i].Rule); err != nil {
			return err
		}
	}
	return nil
}

// edited returns all rules as they are after edits.
func (c *Catalog) edited(edits []Edit) iter.Seq2[Rule, error] {
	return func(yield func(Rule, error) bool) {
		changed := make(map[string]bool, len(edits))
		for i := range edits {
			changed[edits[i].Rule.ID] = true
			if !edits[i].Delete && !yield(edits[i].Rule, nil) {
				return
			}
		}
		v := c.current.Load()
		for at := (order.Place{}); v.order.At(at) != 0; at = v.order.Next(at) {
			if r := v.rule(v.order.At(at)); !changed[r.ID] && !yield(r, nil) {
				return
			}
		}
	}
}

// Commit puts the change in force. It fails only if the catalog has no more room for texts.
func (p *Prepared) Commit() error {
	c := p.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.base == nil:
		c.replace(p.draft)
		return nil
	case p.base != c.current.Load(): // its memory was reclaimed meanwhile
		if err := p.build(); err != nil {
			return err
		}
	}
	c.commit(p.draft, p.edits...)
	return nil
}
