package lease

import (
	"maps"
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/fingerprint"
)

// shards is how many parts a table has. A key is added or dropped by copying its part.
const shards = 256

// table finds the entries of busy keys without a lock. The zero table is not usable.
type table struct {
	seed fingerprint.Seed
	n    atomic.Int64
	part [shards]struct {
		mu  sync.Mutex // of who changes it
		now atomic.Pointer[map[uint64]*entry]
	}
}

func (t *table) init() {
	t.seed = fingerprint.NewSeed()
	for i := range t.part {
		t.part[i].now.Store(&map[uint64]*entry{})
	}
}

// print returns the fingerprint of a take's key.
func (t *table) print(take *stint.Take) uint64 {
	return t.seed.Sum(uint8(take.Limit.Algorithm()), string(take.Key))
}

// find returns the entry of a take's key, nil if there is none.
func (t *table) find(fp uint64, take *stint.Take) *entry {
	e := (*t.part[fp%shards].now.Load())[fp]
	if e == nil || e.key != take.Key || e.algorithm != take.Limit.Algorithm() {
		return nil
	}
	return e
}

// add adds an entry; where another key has its fingerprint it changes nothing. It returns
// whoever is there then.
func (t *table) add(fp uint64, e *entry) *entry {
	p := &t.part[fp%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.now.Load()
	if there := old[fp]; there != nil {
		return there
	}
	next := maps.Clone(old)
	next[fp] = e
	p.now.Store(&next)
	t.n.Add(1)
	return e
}

// drop takes an entry out.
func (t *table) drop(fp uint64, e *entry) {
	p := &t.part[fp%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.now.Load()
	if old[fp] != e {
		return
	}
	next := maps.Clone(old)
	delete(next, fp)
	p.now.Store(&next)
	t.n.Add(-1)
}

// all yields all entries.
func (t *table) all(yield func(fp uint64, e *entry) bool) {
	for i := range t.part {
		now := *t.part[i].now.Load()
		if len(now) == 0 {
			continue
		}
		for fp, e := range now {
			if !yield(fp, e) {
				return
			}
		}
	}
}
