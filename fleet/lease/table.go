package lease

import (
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/system"
)

// table finds the entries of busy keys without a lock. The zero table is not usable.
type table struct {
	seed system.Seed
	n    atomic.Int64
	now  atomic.Pointer[places]
	mu   sync.Mutex // of who changes it
	used int        // places that are not nil
}

// places are entries, each at its fingerprint or as near behind it as there was room. At
// least half of them are nil; their number is a power of two.
type places []atomic.Pointer[entry]

// gone is in the place of an entry that was dropped: what was added behind it stays there.
// No key is like its own.
var gone = new(entry)

// fewest is how many places there are at least.
const fewest = 64

func (t *table) init() {
	t.seed = system.NewSeed()
	t.now.Store(new(make(places, fewest)))
}

// print returns the fingerprint of a take's key.
func (t *table) print(take *stint.Take) uint64 {
	return t.seed.Sum(uint8(take.Limit.Algorithm()), string(take.Key))
}

// find returns the entry of a take's key, nil if there is none.
func (t *table) find(fp uint64, take *stint.Take) *entry {
	p := *t.now.Load()
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
	if p := *t.now.Load(); 2*t.used >= len(p) {
		t.roomLocked(p)
	}
	t.now.Load().put(e)
	t.used++
	t.n.Add(1)
	return e
}

// roomLocked moves all entries to as many new places as leave three of four free.
func (t *table) roomLocked(old places) {
	n := fewest
	for n < 4*int(t.n.Load()) {
		n *= 2
	}
	p := make(places, n)
	t.used = 0
	for i := range old {
		if e := old[i].Load(); e != nil && e != gone {
			p.put(e)
			t.used++
		}
	}
	t.now.Store(&p)
}

// put puts an entry in its place.
func (p places) put(e *entry) {
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
	p := *t.now.Load()
	for i := e.fp; ; i++ {
		switch place := &p[i&uint64(len(p)-1)]; place.Load() {
		case e:
			place.Store(gone)
			t.n.Add(-1)
			return
		case nil:
			return
		}
	}
}

// all yields all entries.
func (t *table) all(yield func(e *entry) bool) {
	p := *t.now.Load()
	for i := range p {
		if e := p[i].Load(); e != nil && e != gone && !yield(e) {
			return
		}
	}
}
