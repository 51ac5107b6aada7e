package catalog

import "slices"

// blockLen is the most rules in one block of the order.
const blockLen = 512

// order is the list of rules ordered by ID. Versions share its blocks, as with paged.
type order struct {
	blocks []*block
	owner  uint64 // owner of the slice blocks
}

// block is a part of the order. It is never empty.
type block struct {
	owner uint64
	n     int
	refs  [blockLen]uint32
}

// newOrder returns the order of rules that are sorted already.
func newOrder(sorted []uint32, owner uint64) order {
	o := order{owner: owner}
	for part := range slices.Chunk(sorted, blockLen*3/4) {
		b := &block{owner: owner, n: len(part)}
		copy(b.refs[:], part)
		o.blocks = append(o.blocks, b)
	}
	return o
}

// place is the position of a rule in the order.
type place struct{ block, at int }

// search returns the place of the first rule for which less returns false. less must return true
// for all rules before some rule, and false from there on.
func (o *order) search(less func(ref uint32) bool) place {
	n, _ := slices.BinarySearchFunc(o.blocks, 0, func(b *block, _ int) int { return before(less(b.refs[0])) })
	if n == 0 {
		return place{}
	}
	b := o.blocks[n-1]
	at, _ := slices.BinarySearchFunc(b.refs[:b.n], 0, func(ref uint32, _ int) int { return before(less(ref)) })
	if at == b.n && n < len(o.blocks) {
		return place{n, 0}
	}
	return place{n - 1, at}
}

func before(yes bool) int {
	if yes {
		return -1
	}
	return 1
}

// at returns the rule at a place; 0 at the end of the order.
func (o *order) at(p place) uint32 {
	if p.block < len(o.blocks) && p.at < o.blocks[p.block].n {
		return o.blocks[p.block].refs[p.at]
	}
	return 0
}

// next returns the following place.
func (o *order) next(p place) place {
	if p.at++; p.at == o.blocks[p.block].n {
		return place{p.block + 1, 0}
	}
	return p
}

// edit returns a block for modification.
func (o *order) edit(i int, owner uint64) *block {
	b := o.blocks[i]
	if b.owner != owner {
		o.own(owner)
		changed := *b
		b = &changed
		b.owner = owner
		o.blocks[i] = b
	}
	return b
}

func (o *order) own(owner uint64) {
	if o.owner != owner {
		o.blocks, o.owner = slices.Clone(o.blocks), owner
	}
}

// insert inserts a rule at a place that search returned.
func (o *order) insert(p place, ref uint32, owner uint64) {
	if p.at == 0 && p.block > 0 { // append to the block before
		p = place{p.block - 1, o.blocks[p.block-1].n}
	}
	if len(o.blocks) == 0 {
		o.own(owner)
		o.blocks = append(o.blocks, &block{owner: owner})
	}
	b := o.edit(p.block, owner)
	if b.n == blockLen {
		half := &block{owner: owner, n: blockLen / 2}
		copy(half.refs[:], b.refs[blockLen/2:])
		b.n = blockLen / 2
		o.own(owner)
		o.blocks = slices.Insert(o.blocks, p.block+1, half)
		if p.at > b.n {
			b, p.at = half, p.at-b.n
		}
	}
	copy(b.refs[p.at+1:b.n+1], b.refs[p.at:b.n])
	b.refs[p.at] = ref
	b.n++
}

// remove removes the rule at a place.
func (o *order) remove(p place, owner uint64) {
	b := o.edit(p.block, owner)
	copy(b.refs[p.at:], b.refs[p.at+1:b.n])
	if b.n--; b.n == 0 {
		o.own(owner)
		o.blocks = slices.Delete(o.blocks, p.block, p.block+1)
	}
}
