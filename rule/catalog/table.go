package catalog

// table is a hash table from hashes of names to numbers. Versions share it, as with paged. Callers
// must compare the names, because two names may have the same hash.
type table struct {
	slots paged[slot]
	used  uint32
}

// slot is an entry of a table; it is free if ref is 0. The home of a hash is proportional to the
// hash, so a larger table keeps all entries in the same order.
type slot struct{ hash, ref uint32 }

// leastTable is the initial number of slots.
const leastTable = 64

// home returns the first slot for a hash.
func (t *table) home(hash uint32) uint32 {
	return uint32(uint64(hash) * uint64(t.slots.n) >> 32)
}

// after returns the following slot; the first one follows the last.
func (t *table) after(i uint32) uint32 {
	if i++; i == t.slots.n {
		return 0
	}
	return i
}

// put adds an entry that is not in the table.
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

// find returns the slot of an existing entry.
func (t *table) find(hash, ref uint32) uint32 {
	i := t.home(hash)
	for t.slots.at(i).ref != ref {
		i = t.after(i)
	}
	return i
}

// replace replaces ref by another number with the same name.
func (t *table) replace(hash, ref, by uint32, owner uint64) {
	t.slots.edit(t.find(hash, ref), owner).ref = by
}

// remove removes an entry and moves up the entries that it displaced.
func (t *table) remove(hash, ref uint32, owner uint64) {
	t.used--
	gap := t.find(hash, ref)
	for i := t.after(gap); ; i = t.after(i) {
		s := *t.slots.at(i)
		if s.ref == 0 {
			break
		}
		// An entry may move up unless its home is behind the gap, counted around the end of the
		// table.
		if home := t.home(s.hash); (i-home+t.slots.n)%t.slots.n >= (i-gap+t.slots.n)%t.slots.n {
			*t.slots.edit(gap, owner) = s
			gap = i
		}
	}
	*t.slots.edit(gap, owner) = slot{}
}
