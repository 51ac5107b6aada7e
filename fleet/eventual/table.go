package eventual

import (
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/system"
)

// shards is the number of parts of a table, each with its own lock.
const shards = 256

// table finds entries without a lock. The zero table is not usable.
type table struct {
	seed   system.Seed
	n      atomic.Int64
	shards [shards]shard
}

// shard is a part of a table. Changes hold mu. They fill slots and mark them as dropped in place.
// When too few are free, growLocked makes new slots. A reader of the old slots may then find a
// dead entry or none, and must look again.
type shard struct {
	mu     sync.Mutex
	slots  atomic.Pointer[slots]
	filled int // slots that are not nil
	live   int // slots with an entry
}

// slots is a hash table with linear probing: an entry is in the slot of its fingerprint or in the
// next free one. Some slots are always nil. Their number is a power of two.
type slots []atomic.Pointer[entry]

// dropped takes the slot of an entry that was dropped.
var dropped = new(entry)

func (p slots) slotOf(fp uint64) int { return int(fp>>32) & (len(p) - 1) }

func (t *table) init() {
	t.seed = system.NewSeed()
	for i := range t.shards {
		p := make(slots, 8)
		t.shards[i].slots.Store(&p)
	}
}

// fingerprint returns the fingerprint of a take's key.
func (t *table) fingerprint(take *stint.Take) uint64 {
	return t.seed.Sum(uint8(take.Limit.Algorithm()), string(take.Key))
}

// find returns the entry of a take's key, nil if there is none.
func (t *table) find(fp uint64, take *stint.Take) *entry {
	p := *t.shards[fp%shards].slots.Load()
	for i := p.slotOf(fp); ; i = (i + 1) & (len(p) - 1) {
		switch e := p[i].Load(); {
		case e == nil:
			return nil
		case e.fp == fp && e.key == take.Key && e.algorithm == take.Limit.Algorithm():
			return e
		}
	}
}

// add adds an entry unless there is one for its key, which it then returns.
func (t *table) add(e *entry, take *stint.Take) (there *entry) {
	s := &t.shards[e.fp%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := t.find(e.fp, take); there != nil {
		return there
	}
	if p := *s.slots.Load(); 4*(s.filled+1) > 3*len(p) {
		s.growLocked()
	}
	p := *s.slots.Load()
	s.filled += p.put(e)
	s.live++
	t.n.Add(1)
	return nil
}

// put stores an entry in the first slot that is nil or dropped. It returns the number of nil
// slots that this used.
func (p slots) put(e *entry) int {
	i := p.slotOf(e.fp)
	for {
		switch old := p[i].Load(); old {
		case nil, dropped:
			p[i].Store(e)
			if old == nil {
				return 1
			}
			return 0
		}
		i = (i + 1) & (len(p) - 1)
	}
}

// growLocked makes new slots, at least half of which are free.
func (s *shard) growLocked() {
	n := 8
	for n < 2*(s.live+1) {
		n *= 2
	}
	p := make(slots, n)
	old := *s.slots.Load()
	for i := range old {
		if e := old[i].Load(); e != nil && e != dropped {
			p.put(e)
		}
	}
	s.filled = s.live
	s.slots.Store(&p)
}

// drop removes an entry.
func (t *table) drop(e *entry) {
	s := &t.shards[e.fp%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	p := *s.slots.Load()
	for i := p.slotOf(e.fp); ; i = (i + 1) & (len(p) - 1) {
		switch p[i].Load() {
		case nil:
			return
		case e:
			p[i].Store(dropped)
			s.live--
			t.n.Add(-1)
			return
		}
	}
}

// all yields all entries.
func (t *table) all(yield func(e *entry) bool) {
	for i := range t.shards {
		p := *t.shards[i].slots.Load()
		for j := range p {
			if e := p[j].Load(); e != nil && e != dropped && !yield(e) {
				return
			}
		}
	}
}
