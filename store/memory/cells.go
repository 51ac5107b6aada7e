package memory

import (
	"runtime"
	"unsafe"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// cell is the state of a key that does not fit into one word.
type cell struct {
	transaction.Record
	bytes int64 // bytes that Store.bytes counts for it
}

// cellBytes is the size of a cell with its place in the map, without its log.
const cellBytes = int64(unsafe.Sizeof(cell{})) + 24

// sweepCells is how many cells Sweep reads under one lock.
const sweepCells = 4096

// decideInMap decides a query on the map.
func (s *Store) decideInMap(sh *shard, q *query, d *stint.Decision) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c, fresh := s.cellLocked(sh, q.fp, q.limit, q.at)
	s.setTime(q) // others can write a state that is still in the table
	at := q.now
	if fresh {
		at = sh.freshLocked(q.now)
	}
	switch {
	case q.take != nil:
		var change transaction.UseChange
		book := sh.bookLocked(q.fp, q.take)
		if book != nil {
			f := limits.FundsOf(&c.Record, book, q.limit, q.take.Handling.Meter, at)
			*d, change = f.Apply(q.op, q.cost, q.undo)
		} else {
			*d, change = c.Record.Metered(q.op, q.limit, at, q.cost, q.undo)
		}
		s.meterLocked(sh, q.fp, q.take, book, change, at)
	case q.loan == nil:
		*d = q.apply(&c.Record, at)
	default:
		*d = q.lend(&c.Record, at, s.epoch)
	}
	transaction.CorrectTime(q.now, at, q.limit, d)
	s.storeLocked(sh, q.fp, c, q.now)
	if q.durable && recordsChange(q.op, q.limit, q.cost, d) {
		s.recordLocked(sh, q.fp)
	}
}

// cellLocked returns the cell of a key. If there is none it returns a new one under limit, and
// fresh is true. It reads the clock only if it moves a state out of the table; at is Call.At.
func (s *Store) cellLocked(sh *shard, fp uint64, limit *stint.Limit, at stint.Instant) (c *cell, fresh bool) {
	if c, ok := sh.cellMap[fp]; ok {
		return c, false
	}
	if c := s.fromTableLocked(sh, fp); c != nil {
		s.storeLocked(sh, fp, c, s.now(at)) // it is no longer in the table
		return c, false
	}
	return &cell{Record: transaction.Record{Limit: limit}}, true
}

// freshLocked returns the time for deciding a key without a state at now.
func (sh *shard) freshLocked(now stint.Instant) stint.Instant {
	return transaction.DecisionTime(transaction.DecisionTime(now, sh.lastDrop), sh.table.Load().lastDrop)
}

// fromTableLocked takes a state out of the table, which may have been written under other numbers.
// It returns nil if there is none.
func (s *Store) fromTableLocked(sh *shard, fp uint64) *cell {
	sl, _ := sh.table.Load().find(fp)
	if sl == nil {
		return nil
	}
	for {
		word := sl.word.Load() // never frozen: only a goroutine with the lock replaces the table
		if word == moved {
			return nil
		}
		if word&busy != 0 || !sl.word.CompareAndSwap(word, moved) {
			runtime.Gosched()
			continue
		}
		if word == untouched {
			return nil
		}
		old := s.limits.of(word)
		return &cell{Record: transaction.Record{State: old.ForStores().Unpack(word & stateMask), Limit: old}}
	}
}

// inMap reports whether the map has the key.
func (s *Store) inMap(sh *shard, fp uint64) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, ok := sh.cellMap[fp]
	return ok
}

// storeLocked stores a decided cell in the map, or removes it if its state is untouched, and counts
// its bytes.
func (s *Store) storeLocked(sh *shard, fp uint64, c *cell, now stint.Instant) {
	_, there := sh.cellMap[fp]
	// An emptied log keeps its time, so that time does not go back before the entries it dropped.
	if c.Limit.ForStores().Expiry(&c.State) == 0 && (c.State.T == 0 || c.State.Log == nil) {
		if there {
			s.dropLocked(sh, fp, c)
		}
		return
	}
	if !there {
		if c.Limit.Algorithm() == stint.Penalty && !s.penalties.Load() {
			s.penalties.Store(true)
		}
		if sh.cellMap == nil {
			sh.cellMap = make(map[uint64]*cell)
		}
		sh.cellMap[fp] = c
		sh.cells.Add(1)
	}
	grown := cellBytes + int64(c.State.Size()) - c.bytes
	c.bytes += grown
	if s.bytes.Add(grown) > s.budget && grown > 0 {
		s.shrinkLocked(sh, fp, now)
	}
}

func (s *Store) dropLocked(sh *shard, fp uint64, c *cell) {
	delete(sh.cellMap, fp)
	sh.cells.Add(-1)
	s.bytes.Add(-c.bytes)
	c.bytes = 0 // a call may still use the cell, and store it again
}

// dropExpiredLocked drops expired cells. It reads at most most cells.
func (s *Store) dropExpiredLocked(sh *shard, now stint.Instant, most int) {
	for fp, c := range sh.cellMap {
		if c.Limit.Untouched(&c.State, now) {
			s.dropLocked(sh, fp, c)
			s.counts.expired.Add(1)
			sh.lastDrop = transaction.DecisionTime(now, sh.lastDrop)
		}
		if most--; most == 0 {
			return
		}
	}
}

// shrinkLocked makes room in the map of a shard if the store is over its budget. It drops expired
// cells, then evicts those that forget chooses, but never the key that is being decided.
func (s *Store) shrinkLocked(sh *shard, deciding uint64, now stint.Instant) {
	s.dropExpiredLocked(sh, now, len(sh.cellMap))
	if s.bytes.Load() <= s.budget || len(sh.cellMap) < 2 {
		return
	}
	buffer := s.scratch.Get().(*[]entry)
	all := (*buffer)[:0]
	for fp, c := range sh.cellMap {
		if fp != deciding {
			all = append(all, entry{Key: fp, Rank: limits.Rank(fp, c.Limit, &c.State, min(c.Limit.ForStores().Expiry(&c.State), stint.MaxInstant), now)})
		}
	}
	for _, e := range all[:s.forget(all, 1, len(all)/16)] {
		s.dropLocked(sh, e.Key, sh.cellMap[e.Key])
	}
	*buffer = all[:0]
	s.scratch.Put(buffer)
}
