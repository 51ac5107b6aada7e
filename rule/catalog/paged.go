package catalog

import "slices"

const (
	pageBits = 9
	pageLen  = 1 << pageBits
)

// paged is an array that several versions share. A change copies the page of the element and the
// list of pages, so older copies of the paged do not see it. Each change has an owner, a unique
// number; an owner modifies the pages that it has copied in place.
type paged[T any] struct {
	pages  []*[pageLen]T
	owners []uint64 // owners of the pages
	owner  uint64   // owner of the slices pages and owners
	n      uint32   // number of elements
}

// at returns an element for reading.
func (p *paged[T]) at(i uint32) *T { return &p.pages[i>>pageBits][i%pageLen] }

// edit returns an element for modification.
func (p *paged[T]) edit(i uint32, owner uint64) *T {
	n := i >> pageBits
	if p.owners[n] != owner {
		p.own(owner)
		changed := *p.pages[n]
		p.pages[n], p.owners[n] = &changed, owner
	}
	return &p.pages[n][i%pageLen]
}

// own copies the lists of pages, unless the owner has done so already.
func (p *paged[T]) own(owner uint64) {
	if p.owner != owner {
		p.pages, p.owners, p.owner = slices.Clone(p.pages), slices.Clone(p.owners), owner
	}
}

// add appends an element and returns its index.
func (p *paged[T]) add(owner uint64) uint32 {
	p.resize(p.n+1, owner)
	return p.n - 1
}

// resize grows the array to n elements.
func (p *paged[T]) resize(n uint32, owner uint64) {
	for uint32(len(p.pages))<<pageBits < n {
		p.own(owner)
		p.pages, p.owners = append(p.pages, new([pageLen]T)), append(p.owners, owner)
	}
	p.n = n
}
