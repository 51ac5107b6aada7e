package memory

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"stint"
	"stint/migrate"
)

// shard holds the keys whose fingerprints share their top bits. Takes on the table
// need no lock. mu guards the replacement of the table, and the map.
type shard struct {
	table *atomic.Pointer[table] // in Store.tables
	cells atomic.Int32           // len(wide), read without mu

	mu   sync.Mutex
	wide map[uint64]*cell
	born stint.Instant // latest time at which an expired cell was dropped
}

// table is an open-addressed hash table of one-word states. A slot is claimed once
// and never moves: room is made only by copying what lives into another table.
type table struct {
	slots []slot
	room  atomic.Int32  // slots that may still be claimed
	born  stint.Instant // latest time at which an expired state was dropped
}

// slot is one key. mark is its fingerprint, or empty, or closed. word is
//
//	bit 63      busy: a call of several takes holds the slot
//	bits 52-62  the numbers under which the state was written, see registry
//	bits 0-51   the state, as stint.StoreLimit.Pack writes it; one that does not fit lives in the map
//
// or untouched, moved or frozen.
type slot struct {
	mark atomic.Uint64
	word atomic.Uint64
}

const (
	empty  = 0              // mark: nobody's
	closed = math.MaxUint64 // mark: nobody's, and the table is being replaced

	untouched = 0              // word: no state
	moved     = frozen - 1     // word: the state lives in the map
	frozen    = math.MaxUint64 // word: the table is being replaced

	stateBits = 52
	stateMask = 1<<stateBits - 1
	busy      = 1 << 63
	unheld    = busy      // no slot's word before it is held, see part
	maxID     = 1<<11 - 2 // the last number belongs to moved and frozen
)

// outcome says how an attempt on the table went.
type outcome int

const (
	decided   outcome = iota
	again             // the slot or the table changed meanwhile
	elsewhere         // the map has to decide
)

// quick is the way that nearly every take goes: the key has a slot, written under
// the same numbers, and nobody else is at it. Where it returns false nothing has
// been done and narrow finds out why.
func (s *Store) quick(fp uint64, limit *stint.Limit, cost uint64, now stint.Instant, d *stint.Decision) bool {
	slots := s.tables[fp>>s.shift].Load().slots
	i := home(fp, len(slots))
	for ; i < len(slots); i++ {
		sl := &slots[i]
		if mark := sl.mark.Load(); mark != fp {
			if mark == empty {
				return false
			}
			continue
		}
		word := sl.word.Load()
		if known := s.limits.of(word); known != limit && (known == nil || !known.ForStores().Same(limit)) {
			return false
		}
		state := limit.ForStores().TakeWord(word&stateMask, now, cost, d)
		if state > stateMask || state < word&stateMask { // or it is later than now, see present
			return false
		}
		next := word&^stateMask | state
		return next == word || sl.word.CompareAndSwap(word, next)
	}
	return false
}

// narrow decides a query on the table, by one compare-and-swap.
func (s *Store) narrow(sh *shard, q *query, d *stint.Decision) outcome {
	t := sh.table.Load()
	sl, end := t.find(q.fp)
	if sl == nil {
		return s.absent(sh, t, end, q, d)
	}
	word := sl.word.Load()
	if word&busy != 0 || word < 1<<stateBits {
		return s.unusual(sh, t, sl, word, q, d)
	}
	s.present(q)
	if known := s.limits.of(word); known != q.limit && !known.ForStores().Same(q.limit) {
		return s.renumber(sl, word, known, q, d)
	}
	state := q.applyWord(word&stateMask, q.now, d)
	if state > stateMask {
		return elsewhere
	}
	next := word&^stateMask | state
	if next == word || sl.word.CompareAndSwap(word, next) {
		return decided
	}
	return again
}

// unusual decides where the word of a slot is not a state: nobody has taken yet, or
// somebody else has the slot.
func (s *Store) unusual(sh *shard, t *table, sl *slot, word uint64, q *query, d *stint.Decision) outcome {
	switch {
	case word == moved:
		return elsewhere
	case word == frozen:
		sh.await()
		return again
	case word != untouched:
		return again // busy, or somebody else was quicker
	}
	id := s.limits.id(q.limit)
	if id == 0 {
		return elsewhere
	}
	at := since(q.now, t.born)
	state := q.applyWord(0, at, d)
	if state > stateMask {
		return elsewhere
	}
	if state != 0 && !sl.word.CompareAndSwap(untouched, id<<stateBits|state) {
		return again
	}
	late(q.now, at, q.limit, d)
	return decided
}

// await returns when nobody is replacing the shard's table any more.
func (sh *shard) await() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

// absent decides for a key that has no slot: it claims one, where the search for it
// ended, if there is anything to remember.
func (s *Store) absent(sh *shard, t *table, end int, q *query, d *stint.Decision) outcome {
	if sh.cells.Load() > 0 && s.inMap(sh, q.fp) || s.limits.id(q.limit) == 0 {
		return elsewhere
	}
	at := since(q.now, t.born)
	switch state := q.applyWord(0, at, d); {
	case state == 0:
		late(q.now, at, q.limit, d)
		return decided
	case state > stateMask:
		return elsewhere
	}
	sl := t.claim(q.fp, end)
	if sl == nil {
		return s.crowded(sh, q, d)
	}
	return s.unusual(sh, t, sl, sl.word.Load(), q, d)
}

// crowded decides for a key that has no slot in a table without room: it makes room, and
// lets nobody else replace the table before it is done.
func (s *Store) crowded(sh *shard, q *query, d *stint.Decision) outcome {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, there := sh.wide[q.fp]; there {
		return elsewhere
	}
	t := sh.table.Load()
	sl, end := t.find(q.fp)
	if sl == nil {
		sl = t.claim(q.fp, end)
	}
	if sl == nil {
		s.replaceLocked(sh, t, q.now, []uint64{q.fp})
		t = sh.table.Load()
		sl, _ = t.find(q.fp)
	}
	return s.unusual(sh, t, sl, sl.word.Load(), q, d)
}

// renumber decides on a state that was written under other numbers, see migrate.Record.
func (s *Store) renumber(sl *slot, word uint64, old *stint.Limit, q *query, d *stint.Decision) outcome {
	id := s.limits.id(q.limit)
	if id == 0 {
		return elsewhere // the map takes the state over
	}
	r := migrate.Record{State: old.ForStores().Unpack(word & stateMask), Limit: old}
	*d = q.apply(&r, q.now)
	if r.Limit == old {
		id = word >> stateBits // it stays under the old ones
	}
	state := r.Limit.ForStores().Pack(&r.State)
	if state > stateMask {
		return elsewhere
	}
	next := id<<stateBits | state
	if next == word || sl.word.CompareAndSwap(word, next) {
		return decided
	}
	return again
}

// home returns where the search for fp begins among n slots: at the start of a cache
// line, which holds four, so that most searches end in the line they began with.
func home(fp uint64, n int) int { return int(uint64(uint32(fp)) * uint64(n/4) >> 32 * 4) }

// find returns the slot of fp, or nil and where the search for it ended.
func (t *table) find(fp uint64) (*slot, int) {
	if len(t.slots) == 0 {
		return nil, 0
	}
	for i := home(fp, len(t.slots)); ; {
		sl := &t.slots[i]
		switch sl.mark.Load() {
		case fp:
			return sl, i
		case empty, closed:
			return nil, i
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// claim returns the slot of fp, a new one if need be, where find ended at i; nil if
// the table has no more room or is being replaced.
func (t *table) claim(fp uint64, i int) *slot {
	for len(t.slots) > 0 {
		sl := &t.slots[i]
		mark := sl.mark.Load()
		if mark == empty {
			if t.room.Add(-1) < 0 {
				t.room.Add(1)
				return nil
			}
			if sl.mark.CompareAndSwap(empty, fp) {
				return sl
			}
			t.room.Add(1)
			mark = sl.mark.Load()
		}
		switch mark {
		case fp:
			return sl
		case closed:
			return nil
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return nil
}

// put adds a state to a table that nobody else sees yet.
func (t *table) put(e entry) {
	i := home(e.fp, len(t.slots))
	for t.slots[i].mark.Load() != empty {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i].mark.Store(e.fp)
	t.slots[i].word.Store(e.word)
}

// drain closes the table and appends its states to out. From then on nobody can
// change it: whoever tries finds frozen and waits for the next one.
func (t *table) drain(out []entry) []entry {
	for i := range t.slots {
		sl := &t.slots[i]
		if sl.mark.CompareAndSwap(empty, closed) {
			continue
		}
		word := sl.word.Load()
		for word&busy != 0 && word != moved || !sl.word.CompareAndSwap(word, frozen) {
			runtime.Gosched() // a call of several takes is about to let go
			word = sl.word.Load()
		}
		if word != untouched && word != moved {
			out = append(out, entry{fp: sl.mark.Load(), word: word})
		}
	}
	return out
}
