package catalog

// table finds the number of something by the hash of its name. It is shared by many
// versions as a paged is. Those who look have to compare the names: two of them may
// have one hash.
type table struct {
	slots paged[slot]
	used  uint32
}

// slot is a place of a table. ref 0 is a free one. The place where a hash belongs is
// its part of the table, so that a larger table has all in the same order.
type slot struct{ hash, ref uint32 }

// leastTable is how many slots a table begins with.
const leastTable = 64

// home returns the slot where a hash belongs.
func (t *table) home(hash uint32) uint32 {
	return uint32(uint64(hash) * uint64(t.slots.n) >> 32)
}

// after returns the slot behind another one.
func (t *table) after(i uint32) uint32 {
	if i++; i == t.slots.n {
		return 0
	}
	return i
}

// put adds what is not there yet.
func (t *table) put(hash, ref uint32, owner uint64) {
	if t.used+1 > t.slots.n-t.slots.n/4 {
		t.grow(owner)
	}
	t.used++
	t.place(slot{hash, ref}, owner)
}

func (t *table) place(s slot, owner uint64) {
	i := t.home(s.hash)
	for t.slots.at(i).ref != 0 {
		i = t.after(i)
	}
	*t.slots.edit(i, owner) = s
}

// grow makes the table half as large again.
func (t *table) grow(owner uint64) {
	larger := table{used: t.used}
	larger.slots.resize(max(leastTable, t.slots.n+t.slots.n/2), owner)
	for i := range t.slots.n {
		if s := t.slots.at(i); s.ref != 0 {
			larger.place(*s, owner)
		}
	}
	*t = larger
}

// find returns the slot of what is there.
func (t *table) find(hash, ref uint32) uint32 {
	i := t.home(hash)
	for t.slots.at(i).ref != ref {
		i = t.after(i)
	}
	return i
}

// replace puts something else of the same name in the place of what is there.
func (t *table) replace(hash, ref, by uint32, owner uint64) {
	t.slots.edit(t.find(hash, ref), owner).ref = by
}

// remove takes out what is there, and moves up what it kept from its home.
func (t *table) remove(hash, ref uint32, owner uint64) {
	t.used--
	gap := t.find(hash, ref)
	for i := t.after(gap); ; i = t.after(i) {
		s := *t.slots.at(i)
		if s.ref == 0 {
			break
		}
		// It may move up unless its home lies behind the gap, on the way round.
		if home := t.home(s.hash); (i-home+t.slots.n)%t.slots.n >= (i-gap+t.slots.n)%t.slots.n {
			*t.slots.edit(gap, owner) = s
			gap = i
		}
	}
	*t.slots.edit(gap, owner) = slot{}
}
