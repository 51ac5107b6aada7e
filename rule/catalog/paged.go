package catalog

import "slices"

const (
	pageBits = 9
	pageLen  = 1 << pageBits
)

// paged is an array that many versions share: a change copies the page that it is on,
// and the list of pages. Whoever has an older copy of the paged sees none of it. Each
// change is made for an owner, a number that no other change has; what an owner has
// copied once it changes in place.
type paged[T any] struct {
	pages []*page[T]
	owner uint64 // of the list
	n     uint32 // how many elements there are
}

type page[T any] struct {
	owner uint64
	items [pageLen]T
}

// at returns an element to be read.
func (p *paged[T]) at(i uint32) *T { return &p.pages[i>>pageBits].items[i%pageLen] }

// edit returns an element to be changed.
func (p *paged[T]) edit(i uint32, owner uint64) *T {
	one := p.pages[i>>pageBits]
	if one.owner != owner {
		p.own(owner)
		changed := *one
		one = &changed
		one.owner = owner
		p.pages[i>>pageBits] = one
	}
	return &one.items[i%pageLen]
}

// own makes the list of pages the owner's.
func (p *paged[T]) own(owner uint64) {
	if p.owner != owner {
		p.pages, p.owner = slices.Clone(p.pages), owner
	}
}

// add makes one more element, and returns its index.
func (p *paged[T]) add(owner uint64) uint32 {
	p.resize(p.n+1, owner)
	return p.n - 1
}

// resize makes room for n elements, which is more than there are.
func (p *paged[T]) resize(n uint32, owner uint64) {
	for uint32(len(p.pages))<<pageBits < n {
		p.own(owner)
		p.pages = append(p.pages, &page[T]{owner: owner})
	}
	p.n = n
}
