package memory

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/transaction"
)

// shard has the keys whose fingerprints share their top bits. Takes on the table need no lock. mu
// guards the replacement of the table, and the map.
type shard struct {
	table *atomic.Pointer[table] // element of Store.tables
	cells atomic.Int32           // len(cellMap), read without mu

	mu       sync.Mutex
	cellMap  map[uint64]*cell
	meters   map[uint64]*meter // histories of keys, whose states are in the map while they have any
	lastDrop stint.Instant     // latest time at which an expired cell was dropped
}

// table is an open-addressed hash table of one-word states. A slot is claimed once and never moves;
// only copying the live states into another table makes room.
type table struct {
	slots    []slot
	room     atomic.Int32  // number of slots that may still be claimed
	lastDrop stint.Instant // latest time at which an expired state was dropped
	made     stint.Instant
}

// slot is one key. mark is its fingerprint, or empty, or closed. word is
//
//	bit 63      busy: a call of several takes holds the slot
//	bits 52-62  the numbers under which the state was written, see registry
//	bits 0-51   the state, as stint.StoreLimit.Pack writes it; a state that does not fit is in the map
//
// or untouched, moved or frozen.
type slot struct {
	mark atomic.Uint64
	word atomic.Uint64
}

const (
	empty  = 0              // mark: no key
	closed = math.MaxUint64 // mark: no key, and the table is being replaced

	untouched = 0              // word: no state
	moved     = frozen - 1     // word: the state is in the map
	frozen    = math.MaxUint64 // word: the table is being replaced

	stateBits = 52
	stateMask = 1<<stateBits - 1
	busy      = 1 << 63
	unheld    = busy      // place.word before its slot is held
	maxID     = 1<<11 - 2 // the last number belongs to moved and frozen
)

// outcome is the result of an attempt on the table.
type outcome int

const (
	decided   outcome = iota
	again             // try again: the slot or the table changed meanwhile
	elsewhere         // the map has to decide
)

// quick decides nearly all takes: the key has a slot, the state was written under the same numbers,
// and no other goroutine changes it. If it returns false it has changed nothing, and decideInTable
// takes the other cases.
func (s *Store) quick(fp uint64, limit *stint.Limit, cost uint64, now stint.Instant, d *stint.Decision) bool {
	slots := s.tables[fp>>s.shift].Load().slots
	i := firstSlot(fp, len(slots))
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
		if state > stateMask || state < word&stateMask { // the state is later than now, see setTime
			return false
		}
		next := word&^stateMask | state
		return next == word || sl.word.CompareAndSwap(word, next)
	}
	return false
}

// quickRun is quick for takes of one limit for one key, one after another. It changes the state once, so
// that processors which ask for the same key disturb each other less.
func (s *Store) quickRun(fp uint64, takes []stint.Take, results []stint.Decision, now stint.Instant) bool {
	sl, _ := s.tables[fp>>s.shift].Load().find(fp)
	if sl == nil {
		return false
	}
	limit, word := takes[0].Limit, sl.word.Load()
	if known := s.limits.of(word); known != limit && (known == nil || !known.ForStores().Same(limit)) {
		return false
	}
	state := word & stateMask
	for i := range takes {
		next := limit.ForStores().TakeWord(state, now, uint64(takes[i].Cost), &results[i])
		if next > stateMask || next < state {
			return false
		}
		state = next
	}
	next := word&^stateMask | state
	return next == word || sl.word.CompareAndSwap(word, next)
}

// decideInTable decides a query on the table, by one compare-and-swap.
func (s *Store) decideInTable(sh *shard, q *query, d *stint.Decision) outcome {
	t := sh.table.Load()
	sl, end := t.find(q.fp)
	if sl == nil {
		s.setTime(q)
		return s.decideNewKey(sh, t, end, q, d)
	}
	word := sl.word.Load()
	s.setTime(q)
	if word&busy != 0 || word < 1<<stateBits {
		return s.decideOnMark(sh, t, sl, word, q, d)
	}
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

// decideOnMark decides if the word of a slot is not a state: nothing was taken yet, or another
// goroutine has the slot.
func (s *Store) decideOnMark(sh *shard, t *table, sl *slot, word uint64, q *query, d *stint.Decision) outcome {
	switch {
	case word == moved:
		return elsewhere
	case word == frozen:
		sh.await()
		return again
	case word != untouched:
		return again // busy, or another goroutine was faster
	}
	id := s.limits.id(q.limit)
	if id == 0 {
		return elsewhere
	}
	at := transaction.DecisionTime(q.now, t.lastDrop)
	state := q.applyWord(0, at, d)
	if state > stateMask {
		return elsewhere
	}
	if state != 0 && !sl.word.CompareAndSwap(untouched, id<<stateBits|state) {
		return again
	}
	transaction.CorrectTime(q.now, at, q.limit, d)
	return decided
}

// await waits until the shard's table is replaced.
func (sh *shard) await() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

// decideNewKey decides for a key without a slot. If its state is not untouched it claims a slot,
// from end on.
func (s *Store) decideNewKey(sh *shard, t *table, end int, q *query, d *stint.Decision) outcome {
	if sh.cells.Load() > 0 && s.inMap(sh, q.fp) || s.limits.id(q.limit) == 0 {
		return elsewhere
	}
	at := transaction.DecisionTime(q.now, t.lastDrop)
	switch state := q.applyWord(0, at, d); {
	case state == 0:
		transaction.CorrectTime(q.now, at, q.limit, d)
		return decided
	case state > stateMask:
		return elsewhere
	}
	sl := t.claim(q.fp, end)
	if sl == nil {
		return s.decideInFullTable(sh, q, d)
	}
	return s.decideOnMark(sh, t, sl, sl.word.Load(), q, d)
}

// decideInFullTable decides for a key without a slot in a table without room. It makes room under
// the lock, so that nobody else replaces the table before.
func (s *Store) decideInFullTable(sh *shard, q *query, d *stint.Decision) outcome {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, there := sh.cellMap[q.fp]; there {
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
	return s.decideOnMark(sh, t, sl, sl.word.Load(), q, d)
}

// renumber decides on a state that was written under other numbers, see transaction.Record.
func (s *Store) renumber(sl *slot, word uint64, old *stint.Limit, q *query, d *stint.Decision) outcome {
	id := s.limits.id(q.limit)
	if id == 0 {
		return elsewhere // the map takes over the state
	}
	r := transaction.Record{State: old.ForStores().Unpack(word & stateMask), Limit: old}
	*d = q.apply(&r, q.now)
	if r.Limit == old {
		id = word >> stateBits // it stays under the old numbers
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

// firstSlot returns the index among n slots at which the search for fp begins: the start of a cache
// line, which has four slots, so that most searches end in the line in which they begin.
func firstSlot(fp uint64, n int) int { return int(uint64(uint32(fp)) * uint64(n/4) >> 32 * 4) }

// find returns the slot of fp, or nil and the index at which the search ended.
func (t *table) find(fp uint64) (*slot, int) {
	if len(t.slots) == 0 {
		return nil, 0
	}
	for i := firstSlot(fp, len(t.slots)); ; {
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

// claim returns the slot of fp, if need be a new one; i is the index at which find ended. It
// returns nil if the table has no more room or is being replaced.
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

// put adds a state to a table that no other goroutine uses yet.
func (t *table) put(e entry) {
	i := firstSlot(e.Key, len(t.slots))
	for t.slots[i].mark.Load() != empty {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i].mark.Store(e.Key)
	t.slots[i].word.Store(e.Word)
}

// drain closes the table and appends its states to out. From then on nobody can change the table:
// other goroutines find frozen and wait for the next one.
func (t *table) drain(out []entry) []entry {
	for i := range t.slots {
		sl := &t.slots[i]
		if sl.mark.CompareAndSwap(empty, closed) {
			continue
		}
		word := sl.word.Load()
		for word&busy != 0 && word != moved || !sl.word.CompareAndSwap(word, frozen) {
			runtime.Gosched() // a call of several takes will release it soon
			word = sl.word.Load()
		}
		if word != untouched && word != moved {
			out = append(out, entry{Key: sl.mark.Load(), Word: word})
		}
	}
	return out
}
