package memory

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// entry is a state that moves from one table to the next.
type entry = limits.Entry

const (
	slotBytes = int64(unsafe.Sizeof(slot{}))
	minSlots  = 8

	// A table is replaced when 17/20 of its slots are claimed; in the new table 17/25 are. So each
	// step grows it by a quarter.
	fullNum, fullDen   = 17, 20
	freshNum, freshDen = 17, 25

	// A table that fills up in this time keeps room for expired states, see replaceLocked.
	soon = time.Second
)

// counters count dropped states, see Stats.
type counters struct {
	expired, idle, over atomic.Int64
}

// replace replaces t by a table with more room, unless another goroutine just did.
func (s *Store) replace(sh *shard, t *table, now stint.Instant) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load() == t {
		s.replaceLocked(sh, t, now, nil)
	}
}

// replaceLocked copies the live states of t into a new table, in which the wanted fingerprints, in
// ascending order, have slots. It takes about 30 ns a slot. Other slots without a state lose their
// claim.
//
// If t filled up soon, there is room for as many keys as it had, expired ones too: busy keys whose states
// expire between two takes would else lose their slots all the time.
func (s *Store) replaceLocked(sh *shard, t *table, now stint.Instant, wanted []uint64) {
	buffer := s.scratch.Get().(*[]entry)
	entries := t.drain((*buffer)[:0])
	lastDrop := t.lastDrop
	live := entries[:0]
	missing := len(wanted)
	for _, e := range entries {
		limit := s.limits.of(e.Word)
		st := limit.ForStores().Unpack(e.Word & stateMask)
		expiry := limit.ForStores().Expiry(&st)
		if expiry <= now {
			lastDrop = transaction.DecisionTime(now, lastDrop)
			continue
		}
		e.Rank = limits.Rank(e.Key, limit, &st, min(expiry, stint.MaxInstant), now)
		if _, ok := slices.BinarySearch(wanted, e.Key); ok {
			missing--
			e.Rank = math.MaxUint64
		}
		live = append(live, e)
	}
	s.counts.expired.Add(int64(len(entries) - len(live)))

	states := len(live) + max(missing, 1)
	if len(wanted) > 0 && now.Sub(t.made) < soon && s.bytes.Load() < s.budget/2 {
		states = max(states, len(entries)+missing)
	}
	next := s.newTable(t, states, len(wanted))
	most := len(next.slots) * fullNum / fullDen
	if short := len(live) + max(missing, 1) - most; short > 0 {
		unwanted := len(live) - (len(wanted) - missing)
		live = live[s.forget(live, short, min(most/16, max(0, unwanted-short))):]
	}
	next.lastDrop, next.made = lastDrop, now
	for _, e := range live {
		next.put(e)
	}
	for _, fp := range wanted {
		if sl, end := next.find(fp); sl == nil {
			next.slots[end].mark.Store(fp)
		}
	}
	next.room.Store(int32(most - len(live) - missing))
	sh.table.Store(next)
	*buffer = entries[:0]
	s.scratch.Put(buffer)
}

// newTable returns an empty table for that many states, or for as many as the budget allows, but
// for at least least.
func (s *Store) newTable(old *table, states, least int) *table {
	want := slotsFor(states)
	had := int64(len(old.slots)) * slotBytes
	if left := s.budget - s.bytes.Load() + had; int64(want)*slotBytes > left {
		want = min(want, max(len(old.slots), int(left/slotBytes)))
	}
	want = max(want, slotsFor(least))
	// append rounds the capacity up to the allocator's size class.
	slots := append([]slot(nil), make([]slot, want)...)
	slots = slots[:cap(slots)]
	s.bytes.Add(int64(len(slots))*slotBytes - had)
	return &table{slots: slots}
}

// slotsFor returns the number of slots of a new table for that many states.
func slotsFor(states int) int {
	return max(minSlots, (states*freshDen+freshNum-1)/freshNum)
}

// forget chooses the states to evict, see limits.Evict, counts them and returns how many they are.
func (s *Store) forget(live []entry, need, extra int) int {
	idle, over := limits.Evict(live, need, extra)
	s.counts.idle.Add(int64(idle))
	s.counts.over.Add(int64(over))
	return idle + over
}

// Stats are the numbers of a store's states and evictions.
type Stats struct {
	Keys   int64 // number of states, including expired ones that are not dropped yet
	Bytes  int64 // size of their tables, cells and logs
	Budget int64

	Expired     int64 // states dropped because they had expired
	EvictedIdle int64 // states evicted while they could still take
	EvictedOver int64 // states evicted while they were over their limit
}

// Stats returns the present numbers. It reads all tables without a lock, at about 1 ns a slot.
func (s *Store) Stats() Stats {
	stats := Stats{
		Bytes: s.bytes.Load(), Budget: s.budget,
		Expired: s.counts.expired.Load(), EvictedIdle: s.counts.idle.Load(), EvictedOver: s.counts.over.Load(),
	}
	for i := range s.shards {
		sh := &s.shards[i]
		stats.Keys += int64(sh.cells.Load())
		t := sh.table.Load()
		for j := range t.slots {
			if w := t.slots[j].word.Load(); w&^busy != untouched && w < moved {
				stats.Keys++
			}
		}
	}
	return stats
}

// Sweep drops expired states, frees the memory of tables that have become too large, and follows
// the wall clock if it was set forward. A store keeps its budget without it; call it every few
// seconds to give memory back to the process. It holds the lock of one shard at a time, for well
// under 1 ms.
func (s *Store) Sweep() {
	if s.clock == nil {
		s.own.Follow()
	}
	now := s.now(0)
	for i := range s.shards {
		sh := &s.shards[i]
		if t := sh.table.Load(); s.wasteful(t, now) {
			s.replace(sh, t, now)
		}
		if s.metered.Load() || sh.cells.Load() > 0 {
			sh.mu.Lock()
			s.dropExpiredLocked(sh, now, sweepCells)
			s.dropMetersLocked(sh, now, sweepCells)
			sh.mu.Unlock()
		}
	}
}

// wasteful reports whether at least half of a table's capacity is unused or expired, and a smaller
// table is possible.
func (s *Store) wasteful(t *table, now stint.Instant) bool {
	if len(t.slots) <= minSlots {
		return false
	}
	live := 0
	for i := range t.slots {
		word := t.slots[i].word.Load()
		if word&^busy == untouched || word >= moved {
			continue
		}
		limit := s.limits.of(word &^ busy)
		st := limit.ForStores().Unpack(word & stateMask)
		if !limit.Untouched(&st, now) {
			live++
		}
	}
	return live < len(t.slots)*fullNum/fullDen/2
}
