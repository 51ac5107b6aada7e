package memory

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"stint"
)

// entry is a state on its way from one table to the next.
type entry struct {
	fp, word uint64
	rank     uint64 // in which order to forget, see rank
}

const (
	slotBytes = int64(unsafe.Sizeof(slot{}))
	minSlots  = 8

	// A table is replaced when 17/20 of its slots are claimed, by one of which 17/25
	// are: each step grows it by a quarter.
	fullNum, fullDen   = 17, 20
	freshNum, freshDen = 17, 25

	overLimit = 1 << 63        // in a rank: the key could not take now
	rankBits  = 63 - stateBits // what is left beside that and an instant
)

// counters count what was forgotten, see Stats.
type counters struct {
	expired, idle, over atomic.Int64
}

// replace puts a table with more room in place of t, unless somebody just did.
func (s *Store) replace(sh *shard, t *table, now stint.Instant) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load() == t {
		s.replaceLocked(sh, t, now, nil)
	}
}

// replaceLocked copies what lives in t into a new table, in which the wanted fingerprints, in
// their order, have slots. It takes about 30 ns a slot. Other slots that are claimed and not
// written lose their claim.
func (s *Store) replaceLocked(sh *shard, t *table, now stint.Instant, wanted []uint64) {
	buffer := s.scratch.Get().(*[]entry)
	entries := t.drain((*buffer)[:0])
	born := t.born
	live := entries[:0]
	missing := len(wanted)
	for _, e := range entries {
		limit := s.limits.of(e.word)
		st := limit.ForStores().Unpack(e.word & stateMask)
		expiry := limit.ForStores().Expiry(&st)
		if expiry <= now {
			born = since(now, born)
			continue
		}
		e.rank = rank(e.fp, limit, &st, min(expiry, stint.MaxInstant), now)
		if _, ok := slices.BinarySearch(wanted, e.fp); ok {
			missing--
			e.rank = math.MaxUint64
		}
		live = append(live, e)
	}
	s.counts.expired.Add(int64(len(entries) - len(live)))

	next := s.newTable(t, len(live)+max(missing, 1), len(wanted))
	most := len(next.slots) * fullNum / fullDen
	if short := len(live) + max(missing, 1) - most; short > 0 {
		unwanted := len(live) - (len(wanted) - missing)
		live = live[s.forget(live, short, min(most/16, max(0, unwanted-short))):]
	}
	next.born = born
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

// newTable returns an empty table for so many states, or for as many as the budget
// allows, but always for the least that are told.
func (s *Store) newTable(old *table, states, least int) *table {
	want := slotsFor(states)
	had := int64(len(old.slots)) * slotBytes
	if left := s.budget - s.bytes.Load() + had; int64(want)*slotBytes > left {
		want = min(want, max(len(old.slots), int(left/slotBytes)))
	}
	want = max(want, slotsFor(least))
	// Growing an empty slice fills the size class that the allocator has to give.
	slots := append([]slot(nil), make([]slot, want)...)
	slots = slots[:cap(slots)]
	s.bytes.Add(int64(len(slots))*slotBytes - had)
	return &table{slots: slots}
}

// slotsFor returns how many slots a new table has for so many states.
func slotsFor(states int) int {
	return max(minSlots, (states*freshDen+freshNum-1)/freshNum)
}

// rank returns when to forget a live state: the smallest first. Keys that could
// take come before those over their limit, and those nearest their reset before
// others. Among equals the fingerprint decides, by bits that have no part in where
// a state stands: taking neighbours away would leave the rest in clusters.
func rank(fp uint64, limit *stint.Limit, st *stint.State, expiry, now stint.Instant) uint64 {
	r := uint64(expiry)<<rankBits | fp>>32&(1<<rankBits-1)
	if !limit.Test(st, now, 1).Allowed {
		r |= overLimit
	}
	return r
}

// forget chooses states to forget, moves them to the front and returns how many
// they are: at least need, and up to extra more so that the work is not soon to be
// done again. Of those over their limit it takes only what it must, and a quarter
// of extra.
func (s *Store) forget(live []entry, need, extra int) int {
	idle := 0
	for i := range live {
		if live[i].rank < overLimit {
			idle++
		}
	}
	n := need + extra
	if n > idle {
		n = max(idle, need+extra/4)
	}
	n = min(n, len(live))
	smallest(live, n)
	idle = min(idle, n)
	s.counts.idle.Add(int64(idle))
	s.counts.over.Add(int64(n - idle))
	return n
}

// smallest moves the n entries of least rank to the front (Hoare's selection).
func smallest(e []entry, n int) {
	for lo, hi := 0, len(e)-1; lo < hi && n > lo && n <= hi; {
		pivot := e[lo+(hi-lo)/2].rank
		i, j := lo, hi
		for i <= j {
			for e[i].rank < pivot {
				i++
			}
			for e[j].rank > pivot {
				j--
			}
			if i <= j {
				e[i], e[j] = e[j], e[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n <= j:
			hi = j
		case n >= i:
			lo = i
		default:
			return
		}
	}
}

// Stats says what a store holds and what it had to forget.
type Stats struct {
	Keys   int64 // states, those that have expired but not been dropped among them
	Bytes  int64 // of their tables, cells and logs
	Budget int64

	Expired     int64 // dropped because they had expired
	EvictedIdle int64 // dropped for want of room while they could still take
	EvictedOver int64 // dropped for want of room while they were over their limit
}

// Stats counts. It goes through all tables without holding anybody up, at about
// 1 ns a slot.
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

// Sweep drops expired states and gives back the memory of tables that have become
// too large, and follows the wall clock where that was set forward. A store bounds
// itself without it; call it every few seconds to give memory back to the process.
// It holds the lock of one shard at a time, for well under 1 ms.
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
		if sh.cells.Load() > 0 {
			sh.mu.Lock()
			s.dropExpiredLocked(sh, now, sweepCells)
			sh.mu.Unlock()
		}
	}
}

// wasteful says whether at least half of what a table could hold is unused or
// expired, and something can be gained.
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
