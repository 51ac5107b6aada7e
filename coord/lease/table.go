package lease

import (
	"slices"
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/fingerprint"
)

// shards is how many parts a table has. A key is added or dropped by making its part anew.
const shards = 256

// table finds the entries of busy keys without a lock. The zero table is not usable.
type table struct {
	seed fingerprint.Seed
	n    atomic.Int64
	part [shards]struct {
		mu  sync.Mutex // of who changes it
		now atomic.Pointer[places]
	}
}

// places are entries, each at its fingerprint or as near behind it as there was room. There
// is always room; their number is a power of two.
type places []*entry

// placed returns the places of entries.
func placed(list []*entry) *places {
	n := 4
	for n < 2*len(list) {
		n *= 2
	}
	all := make(places, n)
	for _, e := range list {
		i := all.home(e.fp)
		for all[i] != nil {
			i = (i + 1) & (n - 1)
		}
		all[i] = e
	}
	return &all
}

func (p places) home(fp uint64) int { return int(fp>>32) & (len(p) - 1) }

// entries returns all entries.
func (p places) entries() []*entry {
	return slices.DeleteFunc(slices.Clone(p), func(e *entry) bool { return e == nil })
}

func (t *table) init() {
	t.seed = fingerprint.NewSeed()
	for i := range t.part {
		t.part[i].now.Store(placed(nil))
	}
}

// print returns the fingerprint of a take's key.
func (t *table) print(take *stint.Take) uint64 {
	return t.seed.Sum(uint8(take.Limit.Algorithm()), string(take.Key))
}

// find returns the entry of a take's key, nil if there is none.
func (t *table) find(fp uint64, take *stint.Take) *entry {
	p := *t.part[fp%shards].now.Load()
	for i := p.home(fp); p[i] != nil; i = (i + 1) & (len(p) - 1) {
		if e := p[i]; e.fp == fp && e.key == take.Key && e.algorithm == take.Limit.Algorithm() {
			return e
		}
	}
	return nil
}

// add adds an entry, and returns the one that is there for its key then.
func (t *table) add(e *entry, take *stint.Take) *entry {
	p := &t.part[e.fp%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	if there := t.find(e.fp, take); there != nil {
		return there
	}
	p.now.Store(placed(append(p.now.Load().entries(), e)))
	t.n.Add(1)
	return e
}

// drop takes an entry out.
func (t *table) drop(e *entry) {
	p := &t.part[e.fp%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := slices.DeleteFunc(p.now.Load().entries(), func(other *entry) bool { return other == e })
	p.now.Store(placed(rest))
	t.n.Add(-1)
}

// all yields all entries.
func (t *table) all(yield func(e *entry) bool) {
	if t.n.Load() == 0 {
		return
	}
	for i := range t.part {
		for _, e := range *t.part[i].now.Load() {
			if e != nil && !yield(e) {
				return
			}
		}
	}
}
