package eventual

import (
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/system"
)

// shards is how many parts a table has.
const shards = 256

// table finds entries without a lock. The zero table is not usable.
type table struct {
	seed   system.Seed
	n      atomic.Int64
	shards [shards]shard
}

// shard is a part of a table. Whoever changes it holds mu. Places are filled and marked as
// gone where they are; when too few are free they are made anew, and readers of the old ones
// find entries that are dead, or none, and look again.
type shard struct {
	mu     sync.Mutex
	slots  atomic.Pointer[slots]
	filled int // places that are not free
	live   int // places that hold an entry
}

// slots are entries, each at its fingerprint or as near behind it as there was room. There
// is always room; their number is a power of two.
type slots []atomic.Pointer[entry]

// dropped stands where an entry was.
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

// add adds an entry unless there is one for its key, which it returns.
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

// put puts an entry into the first place that is free or was; it returns how many free ones
// that took.
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

// growLocked makes room: at least half of all places are free after it.
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

// drop takes an entry out.
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
