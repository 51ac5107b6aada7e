// Package order keeps the numbers of rules in the order of their IDs, for a catalog whose versions
// share what does not change between them. It knows the numbers alone: callers compare the rules.
package order

import "slices"

// blockLen is the most rules in one block of the order.
const blockLen = 512

// Order is a list of rules ordered by ID. Copies share its blocks: a change copies those that it
// changes, so older copies do not see it. Each change has an owner, a unique number; an owner modifies
// the blocks that it has copied in place. The zero Order has no rules.
type Order struct {
	blocks []*block
	owner  uint64 // owner of the slice blocks
}

// block is a part of the order. It is never empty.
type block struct {
	owner uint64
	n     int
	refs  [blockLen]uint32
}

// New returns the order of rules that are sorted already.
func New(sorted []uint32, owner uint64) Order {
	o := Order{owner: owner}
	for part := range slices.Chunk(sorted, blockLen*3/4) {
		b := &block{owner: owner, n: len(part)}
		copy(b.refs[:], part)
		o.blocks = append(o.blocks, b)
	}
	return o
}

// Place is the position of a rule in the order. The zero Place is the first one.
type Place struct{ block, at int }

// Search returns the place of the first rule for which less returns false. less must return true
// for all rules before some rule, and false from there on.
func (o *Order) Search(less func(ref uint32) bool) Place {
	n, _ := slices.BinarySearchFunc(o.blocks, 0, func(b *block, _ int) int { return before(less(b.refs[0])) })
	if n == 0 {
		return Place{}
	}
	b := o.blocks[n-1]
	at, _ := slices.BinarySearchFunc(b.refs[:b.n], 0, func(ref uint32, _ int) int { return before(less(ref)) })
	if at == b.n && n < len(o.blocks) {
		return Place{n, 0}
	}
	return Place{n - 1, at}
}

func before(yes bool) int {
	if yes {
		return -1
	}
	return 1
}

// At returns the rule at a place; 0 at the end of the order.
func (o *Order) At(p Place) uint32 {
	if p.block < len(o.blocks) && p.at < o.blocks[p.block].n {
		return o.blocks[p.block].refs[p.at]
	}
	return 0
}

// Next returns the following place.
func (o *Order) Next(p Place) Place {
	if p.at++; p.at == o.blocks[p.block].n {
		return Place{p.block + 1, 0}
	}
	return p
}

// edit returns a block for modification.
func (o *Order) edit(i int, owner uint64) *block {
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

func (o *Order) own(owner uint64) {
	if o.owner != owner {
		o.blocks, o.owner = slices.Clone(o.blocks), owner
	}
}

// Insert inserts a rule at a place that Search returned.
func (o *Order) Insert(p Place, ref uint32, owner uint64) {
	if p.at == 0 && p.block > 0 { // append to the block before
		p = Place{p.block - 1, o.blocks[p.block-1].n}
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

// Remove removes the rule at a place.
func (o *Order) Remove(p Place, owner uint64) {
	b := o.edit(p.block, owner)
	copy(b.refs[p.at:], b.refs[p.at+1:b.n])
	if b.n--; b.n == 0 {
		o.own(owner)
		o.blocks = slices.Delete(o.blocks, p.block, p.block+1)
	}
}
