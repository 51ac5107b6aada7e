package catalog

import (
	"cmp"
	"slices"
)

// sorted returns the rules ordered by ID.
func (d *draft) sorted() []uint32 {
	all := make([]keyed, 0, d.count)
	shared := d.sharedPrefix()
	for i := uint32(1); i < d.rules.n; i++ {
		all = append(all, keyed{lead(d.id(d.rules.at(i))[shared:]), i})
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if a.lead != b.lead {
			return cmp.Compare(a.lead, b.lead)
		}
		return cmp.Or(cmp.Compare(d.id(d.rules.at(a.ref)), d.id(d.rules.at(b.ref))), cmp.Compare(a.ref, b.ref))
	})
	refs := make([]uint32, len(all))
	for i := range all {
		refs[i] = all[i].ref
	}
	return refs
}

// keyed is a rule with the first bytes of its sort key.
type keyed struct {
	lead uint64
	ref  uint32
}

// sharedPrefix returns the length of the prefix that all IDs have.
func (d *draft) sharedPrefix() int {
	if d.rules.n < 2 {
		return 0
	}
	first := d.id(d.rules.at(1))
	n := len(first)
	for i := uint32(2); i < d.rules.n && n > 0; i++ {
		id := d.id(d.rules.at(i))
		n = min(n, len(id))
		for n > 0 && id[:n] != first[:n] {
			n--
		}
	}
	return n
}

// lead returns the first eight bytes of a text as a number that sorts in the same order.
func lead(text string) (n uint64) {
	for i := range 8 {
		n <<= 8
		if i < len(text) {
			n |= uint64(text[i])
		}
	}
	return n
}
