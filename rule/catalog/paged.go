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
	pages  []*[pageLen]T
	owners []uint64 // of the pages
	owner  uint64   // of the lists
	n      uint32   // how many elements there are
}

// at returns an element to be read.
func (p *paged[T]) at(i uint32) *T { return &p.pages[i>>pageBits][i%pageLen] }

// edit returns an element to be changed.
func (p *paged[T]) edit(i uint32, owner uint64) *T {
	n := i >> pageBits
	if p.owners[n] != owner {
		p.own(owner)
		changed := *p.pages[n]
		p.pages[n], p.owners[n] = &changed, owner
	}
	return &p.pages[n][i%pageLen]
}

// own makes the lists of pages the owner's.
func (p *paged[T]) own(owner uint64) {
	if p.owner != owner {
		p.pages, p.owners, p.owner = slices.Clone(p.pages), slices.Clone(p.owners), owner
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
		p.pages, p.owners = append(p.pages, new([pageLen]T)), append(p.owners, owner)
	}
	p.n = n
}
