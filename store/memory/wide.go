package memory

import (
	"runtime"
	"unsafe"

	"stint"
	"stint/migrate"
)

// cell is the state of a key that does not fit into one word.
type cell struct {
	migrate.Record
	bytes int64 // what it was last counted as
}

// cellBytes is what a cell costs with its place in the map, without its log.
const cellBytes = int64(unsafe.Sizeof(cell{})) + 24

// sweepCells is how many cells are looked at under one hold of a lock.
const sweepCells = 4096

// wide decides a query on the map.
func (s *Store) wide(sh *shard, q *query, d *stint.Decision) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c, fresh := s.cellLocked(sh, q.fp, q.limit, q.now)
	s.present(q)
	at := q.now
	if fresh {
		at = sh.freshLocked(q.now)
	}
	if q.loan == nil {
		*d = q.apply(&c.Record, at)
	} else {
		*d = q.lend(&c.Record, at, s.epoch)
	}
	late(q.now, at, q.limit, d)
	s.keepLocked(sh, q.fp, c, q.now)
}

// cellLocked returns the cell of a key, and whether it is a fresh one under limit, as there was
// none.
func (s *Store) cellLocked(sh *shard, fp uint64, limit *stint.Limit, now stint.Instant) (c *cell, fresh bool) {
	if c, ok := sh.wide[fp]; ok {
		return c, false
	}
	if c := s.fromTableLocked(sh, fp); c != nil {
		s.keepLocked(sh, fp, c, now) // the table has it no more
		return c, false
	}
	return &cell{Record: migrate.Record{Limit: limit}}, true
}

// freshLocked returns when to decide for a key at now of which nothing is known.
func (sh *shard) freshLocked(now stint.Instant) stint.Instant {
	return since(since(now, sh.born), sh.table.Load().born)
}

// fromTableLocked takes over a state that the table holds, written when the limit
// had other numbers; nil if there is none.
func (s *Store) fromTableLocked(sh *shard, fp uint64) *cell {
	sl, _ := sh.table.Load().find(fp)
	if sl == nil {
		return nil
	}
	for {
		word := sl.word.Load() // never frozen: who replaces the table holds the lock
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
		return &cell{Record: migrate.Record{State: old.ForStores().Unpack(word & stateMask), Limit: old}}
	}
}

// inMap says whether the map holds the key.
func (s *Store) inMap(sh *shard, fp uint64) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, ok := sh.wide[fp]
	return ok
}

// keepLocked puts a decided cell into the map, or takes it out where there is
// nothing to remember, and keeps the count of bytes.
func (s *Store) keepLocked(sh *shard, fp uint64, c *cell, now stint.Instant) {
	_, there := sh.wide[fp]
	// Where a log was emptied, its time may not run back behind what it forgot.
	if c.Limit.ForStores().Expiry(&c.State) == 0 && (c.State.T == 0 || c.State.Log == nil) {
		if there {
			s.dropLocked(sh, fp, c)
		}
		return
	}
	if !there {
		if sh.wide == nil {
			sh.wide = make(map[uint64]*cell)
		}
		sh.wide[fp] = c
		sh.cells.Add(1)
	}
	grown := cellBytes + int64(c.State.Size()) - c.bytes
	c.bytes += grown
	if s.bytes.Add(grown) > s.budget && grown > 0 {
		s.shrinkLocked(sh, fp, now)
	}
}

func (s *Store) dropLocked(sh *shard, fp uint64, c *cell) {
	delete(sh.wide, fp)
	sh.cells.Add(-1)
	s.bytes.Add(-c.bytes)
	c.bytes = 0 // a call may hold the cell, and put it back
}

// dropExpiredLocked drops expired cells, looking at no more than most.
func (s *Store) dropExpiredLocked(sh *shard, now stint.Instant, most int) {
	for fp, c := range sh.wide {
		if c.Limit.Untouched(&c.State, now) {
			s.dropLocked(sh, fp, c)
			s.counts.expired.Add(1)
			sh.born = since(now, sh.born)
		}
		if most--; most == 0 {
			return
		}
	}
}

// shrinkLocked makes room in the map of a shard whose store is over its budget: it
// drops what has expired, then of the rest what forget says, never the key that is
// being decided.
func (s *Store) shrinkLocked(sh *shard, deciding uint64, now stint.Instant) {
	s.dropExpiredLocked(sh, now, len(sh.wide))
	if s.bytes.Load() <= s.budget || len(sh.wide) < 2 {
		return
	}
	buffer := s.scratch.Get().(*[]entry)
	all := (*buffer)[:0]
	for fp, c := range sh.wide {
		if fp != deciding {
			all = append(all, entry{fp: fp, rank: rank(fp, c.Limit, &c.State, min(c.Limit.ForStores().Expiry(&c.State), stint.MaxInstant), now)})
		}
	}
	for _, e := range all[:s.forget(all, 1, len(all)/16)] {
		s.dropLocked(sh, e.fp, sh.wide[e.fp])
	}
	*buffer = all[:0]
	s.scratch.Put(buffer)
}
