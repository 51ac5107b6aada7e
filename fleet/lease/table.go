package lease

import (
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/system"
)

// table finds the entries of busy keys without a lock. The zero table is not usable.
type table struct {
	seed  system.Seed
	n     atomic.Int64
	slots atomic.Pointer[slots]
	mu    sync.Mutex // held to change the table
	used  int        // slots that are not nil
}

// slots is a hash table with linear probing: an entry is in the slot of its fingerprint or in the
// next free one. At least half of the slots are nil. Their number is a power of two.
type slots []atomic.Pointer[entry]

// dropped takes the slot of an entry that was dropped, so that entries behind it are still found.
// No key equals its key.
var dropped = new(entry)

// minSlots is the least number of slots.
const minSlots = 64

func (t *table) init() {
	t.seed = system.NewSeed()
	t.slots.Store(new(make(slots, minSlots)))
}

// fingerprint returns the fingerprint of a take's key.
func (t *table) fingerprint(take *stint.Take) uint64 {
	return t.seed.Sum(uint8(take.Limit.Algorithm()), string(take.Key))
}

// find returns the entry of a take's key, nil if there is none.
func (t *table) find(fp uint64, take *stint.Take) *entry {
	p := *t.slots.Load()
	for i := fp; ; i++ {
		e := p[i&uint64(len(p)-1)].Load()
		if e == nil || e.fp == fp && e.key == take.Key {
			return e
		}
	}
}

// add adds an entry unless there is one for its key. It returns the entry in the table.
func (t *table) add(e *entry, take *stint.Take) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there := t.find(e.fp, take); there != nil {
		return there
	}
	if p := *t.slots.Load(); 2*t.used >= len(p) {
		t.growLocked(p)
	}
	t.slots.Load().put(e)
	t.used++
	t.n.Add(1)
	return e
}

// growLocked moves all entries to new slots, of which three in four are free.
func (t *table) growLocked(old slots) {
	n := minSlots
	for n < 4*int(t.n.Load()) {
		n *= 2
	}
	p := make(slots, n)
	t.used = 0
	for i := range old {
		if e := old[i].Load(); e != nil && e != dropped {
			p.put(e)
			t.used++
		}
	}
	t.slots.Store(&p)
}

// put stores an entry in its slot.
func (p slots) put(e *entry) {
	i := e.fp
	for p[i&uint64(len(p)-1)].Load() != nil {
		i++
	}
	p[i&uint64(len(p)-1)].Store(e)
}

// drop removes an entry.
func (t *table) drop(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := *t.slots.Load()
	for i := e.fp; ; i++ {
		switch place := &p[i&uint64(len(p)-1)]; place.Load() {
		case e:
			place.Store(dropped)
			t.n.Add(-1)
			return
		case nil:
			return
		}
	}
}

// all yields all entries.
func (t *table) all(yield func(e *entry) bool) {
	p := *t.slots.Load()
	for i := range p {
		if e := p[i].Load(); e != nil && e != dropped && !yield(e) {
			return
		}
	}
}
