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
	mu    sync.Mutex // of who changes it
	used  int        // places that are not nil
}

// slots are entries, each at its fingerprint or as near behind it as there was room. At
// least half of them are nil; their number is a power of two.
type slots []atomic.Pointer[entry]

// dropped is in the place of an entry that was dropped: what was added behind it stays there.
// No key is like its own.
var dropped = new(entry)

// minSlots is how many places there are at least.
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

// add adds an entry, and returns the one that is there for its key then.
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

// growLocked moves all entries to as many new places as leave three of four free.
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

// put puts an entry in its place.
func (p slots) put(e *entry) {
	i := e.fp
	for p[i&uint64(len(p)-1)].Load() != nil {
		i++
	}
	p[i&uint64(len(p)-1)].Store(e)
}

// drop takes an entry out.
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
