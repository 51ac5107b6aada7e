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
	seed system.Seed
	n    atomic.Int64
	part [shards]shard
}

// shard is a part of a table. Whoever changes it holds mu. Places are filled and marked as
// gone where they are; when too few are free they are made anew, and readers of the old ones
// find entries that are dead, or none, and look again.
type shard struct {
	mu   sync.Mutex
	now  atomic.Pointer[places]
	full int // places that are not free
	live int // places that hold an entry
}

// places are entries, each at its fingerprint or as near behind it as there was room. There
// is always room; their number is a power of two.
type places []atomic.Pointer[entry]

// gone stands where an entry was.
var gone = new(entry)

func (p places) home(fp uint64) int { return int(fp>>32) & (len(p) - 1) }

func (t *table) init() {
	t.seed = system.NewSeed()
	for i := range t.part {
		p := make(places, 8)
		t.part[i].now.Store(&p)
	}
}

// print returns the fingerprint of a take's key.
func (t *table) print(take *stint.Take) uint64 {
	return t.seed.Sum(uint8(take.Limit.Algorithm()), string(take.Key))
}

// find returns the entry of a take's key, nil if there is none.
func (t *table) find(fp uint64, take *stint.Take) *entry {
	p := *t.part[fp%shards].now.Load()
	for i := p.home(fp); ; i = (i + 1) & (len(p) - 1) {
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
	s := &t.part[e.fp%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := t.find(e.fp, take); there != nil {
		return there
	}
	if p := *s.now.Load(); 4*(s.full+1) > 3*len(p) {
		s.renewLocked()
	}
	p := *s.now.Load()
	s.full += p.put(e)
	s.live++
	t.n.Add(1)
	return nil
}

// put puts an entry into the first place that is free or was; it returns how many free ones
// that took.
func (p places) put(e *entry) int {
	i := p.home(e.fp)
	for {
		switch old := p[i].Load(); old {
		case nil, gone:
			p[i].Store(e)
			if old == nil {
				return 1
			}
			return 0
		}
		i = (i + 1) & (len(p) - 1)
	}
}

// renewLocked makes room: at least half of all places are free after it.
func (s *shard) renewLocked() {
	n := 8
	for n < 2*(s.live+1) {
		n *= 2
	}
	p := make(places, n)
	old := *s.now.Load()
	for i := range old {
		if e := old[i].Load(); e != nil && e != gone {
			p.put(e)
		}
	}
	s.full = s.live
	s.now.Store(&p)
}

// drop takes an entry out.
func (t *table) drop(e *entry) {
	s := &t.part[e.fp%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	p := *s.now.Load()
	for i := p.home(e.fp); ; i = (i + 1) & (len(p) - 1) {
		switch p[i].Load() {
		case nil:
			return
		case e:
			p[i].Store(gone)
			s.live--
			t.n.Add(-1)
			return
		}
	}
}

// all yields all entries.
func (t *table) all(yield func(e *entry) bool) {
	for i := range t.part {
		p := *t.part[i].now.Load()
		for j := range p {
			if e := p[j].Load(); e != nil && e != gone && !yield(e) {
				return
			}
		}
	}
}
