package memory

import (
	"context"
	"runtime"
	"slices"

	"stint"
	"stint/internal/transaction"
	"stint/migrate"
)

// patience is how often a call tries to hold its keys by locking only the shards that it has
// to; after that it locks the shards of all its keys, which cannot fail.
const patience = 3

// call is the work of a call of several takes that stand or fall together.
//
// All their keys are held at once. Of keys that are in the map of their shard, or have no slot
// yet, the shards are locked first, in the order of shards: nobody else replaces the tables of
// locked shards, and the slots that the call claims there stay until it is decided. Then the
// slots of all keys are held by their busy bit, in the order of fingerprints. Who holds a slot
// waits for nothing but slots of greater fingerprints, so two calls never wait for each other
// in a circle.
type call struct {
	transaction.Plan[uint64]
	held   []place // where the state of each part is
	order  []int   // the parts by their fingerprints: the order in which they are held
	locked []*shard
	wanted []uint64 // fingerprints that need a slot of one shard, in their order
}

// place is where the state of a part is: in a slot, in the map, or nowhere where nothing has
// to be remembered.
type place struct {
	sh    *shard
	lent  bool   // to nodes: that lives in the map
	id    uint64 // of the limit's numbers, 0 for one whose states live in the map
	slot  *slot  // where its word is held; nil: in the map, or nothing to hold
	word  uint64 // as it was before
	claim bool   // without a slot it needs a new one
	lock  bool   // only under the lock of its shard it is seen where the state is
	cell  *cell  // nil: not in the map
	fresh bool   // it holds nothing, as nothing was known of the key
	grows bool   // it may not fit into a word when the call is done
}

// together decides a group of takes of c, all or none: the whole of those that are not
// apart, or the take of a number with those it leans on. Where ctx ends before it has hold of
// all keys nothing was done.
func (s *Store) together(ctx context.Context, c *stint.Call, group int) error {
	w := s.calls.Get().(*call)
	defer s.calls.Put(w)
	if err := w.Collect(c, group); err != nil {
		return err
	}
	s.find(w, c)
	for try := 1; ; try++ {
		now, held := s.hold(w, c.At, try > patience)
		if held {
			s.read(w, now)
			w.Decide()
			s.write(w, now)
			s.release(w)
			w.Answer(c)
			return nil
		}
		s.release(w)
		if err := ctx.Err(); err != nil {
			w.Release()
			return err
		}
		runtime.Gosched()
	}
}

// find finds out which shard holds each part, and what has to be told of loans.
func (s *Store) find(w *call, c *stint.Call) {
	w.held, w.order = w.held[:0], w.order[:0]
	for i := range w.Parts {
		w.held = append(w.held, place{sh: s.shard(w.Parts[i].Name), word: unheld})
		w.order = append(w.order, i)
		for at := i; at > 0 && w.Parts[w.order[at-1]].Name > w.Parts[i].Name; at-- {
			w.order[at-1], w.order[at] = i, w.order[at-1]
		}
	}
	for i := range c.Takes {
		t := &c.Takes[i]
		if t.Loan() == nil {
			continue
		}
		if n := w.Of(i); n >= 0 {
			w.Parts[n].Loan = s.loan(t)
			w.held[n].lent = w.held[n].lent || w.Parts[n].Loan != nil
		}
	}
}

// hold takes hold of all parts, and returns the time then, by the clock where at is 0; false if it
// has to be tried again, because others changed where the states are. With all it locks the shards
// of all parts, and never fails.
func (s *Store) hold(w *call, at stint.Instant, all bool) (now stint.Instant, held bool) {
	for i := range w.held {
		s.look(&w.held[i], &w.Parts[i], all)
	}
	for rest := w.order; len(rest) > 0; {
		sh, lock, n := w.held[rest[0]].sh, false, 0
		for ; n < len(rest) && w.held[rest[n]].sh == sh; n++ {
			lock = lock || w.held[rest[n]].lock
		}
		if lock {
			if now == 0 {
				now = s.now(at)
			}
			sh.mu.Lock()
			w.locked = append(w.locked, sh)
			s.placeLocked(w, sh, rest[:n], now)
		}
		rest = rest[n:]
	}
	for _, i := range w.order {
		if h := &w.held[i]; h.slot != nil && !h.seize() {
			return 0, false
		}
	}
	now = s.now(at) // what the states are to be decided at, see present
	for i := range w.held {
		h := &w.held[i]
		if h.appeared(w.Parts[i].Name) {
			return 0, false
		}
		if h.slot == nil || !s.outgrows(w, i, now) {
			continue
		}
		if h.lock = slices.Contains(w.locked, h.sh); !h.lock {
			h.grows = true
			return 0, false
		}
		s.moveLocked(h, &w.Parts[i], now)
	}
	return now, true
}

// outgrows says whether the state of a part that is held may not fit into a word when the call
// is done.
func (s *Store) outgrows(w *call, part int, now stint.Instant) bool {
	p, h := &w.Parts[part], &w.held[part]
	r := migrate.Record{Limit: p.Take.Limit}
	if h.word != untouched {
		r.Limit = s.limits.of(h.word)
		r.State = r.Limit.ForStores().Unpack(h.word & stateMask)
	}
	units, unasked := w.Debits(part)
	if r.Limit.Algorithm() == stint.FixedWindow && r.State.T > int64(now) {
		return true // it may be moved to now
	}
	if units == 0 || !unasked && r.Limit.ForStores().Same(p.Take.Limit) {
		return false
	}
	r.Force(p.Take.Limit, since(now, h.sh.table.Load().born), units)
	return r.Limit.ForStores().Pack(&r.State) > stateMask
}

// moveLocked moves the state of a part from the slot that is held to the map.
func (s *Store) moveLocked(h *place, p *transaction.Part[uint64], now stint.Instant) {
	h.cell = &cell{Record: migrate.Record{Limit: p.Take.Limit}}
	h.fresh = h.word == untouched
	if !h.fresh {
		h.cell.Limit = s.limits.of(h.word)
		h.cell.State = h.cell.Limit.ForStores().Unpack(h.word & stateMask)
		s.keepLocked(h.sh, p.Name, h.cell, now)
	}
	h.slot.word.Store(moved)
	h.slot, h.word = nil, unheld
}

// look finds the slot of a part, and whether its shard has to be locked.
func (s *Store) look(h *place, p *transaction.Part[uint64], all bool) {
	h.id, h.slot, h.cell, h.claim, h.lock = 0, nil, nil, false, false
	limit := p.Take.Limit
	if limit.Algorithm() == stint.Unlimited {
		return
	}
	if limit.ForStores().Packed() && !h.lent {
		h.slot, _ = h.sh.table.Load().find(p.Name)
		h.id = s.number(limit, h.slot)
	}
	h.claim = all || limit.Capacity() != 0 && p.Charges() // else there is nothing to remember
	switch {
	case h.slot != nil:
		h.lock = all || h.id == 0 || h.slot.word.Load() == moved
	default:
		h.lock = h.claim || h.id == 0 || h.sh.cells.Load() > 0
	}
	h.lock = h.lock || h.grows
}

// placeLocked finds, for parts of one shard, where their states are or will be.
func (s *Store) placeLocked(w *call, sh *shard, parts []int, now stint.Instant) {
	w.wanted = w.wanted[:0]
	t, room := sh.table.Load(), true
	for _, i := range parts {
		h, fp := &w.held[i], w.Parts[i].Name
		limit, end := w.Parts[i].Take.Limit, 0
		if limit.Algorithm() == stint.Unlimited {
			continue
		}
		_, there := sh.wide[fp]
		if h.slot, end = t.find(fp); there || h.id == 0 || h.slot != nil && h.slot.word.Load() == moved {
			h.slot = nil
			h.cell, h.fresh = s.cellLocked(sh, fp, limit, now)
			continue
		}
		if h.slot == nil && h.claim && room {
			h.slot = t.claim(fp, end)
			room = h.slot != nil
		}
		if h.slot != nil || h.claim {
			w.wanted = append(w.wanted, fp)
		}
	}
	if room {
		return
	}
	s.replaceLocked(sh, t, now, w.wanted)
	for _, i := range parts {
		if h := &w.held[i]; h.id != 0 && h.cell == nil {
			h.slot, _ = sh.table.Load().find(w.Parts[i].Name)
		}
	}
}

// appeared says whether a key that had no slot when its part was placed has one now
// that the others are held: the call has to see all keys at one moment.
func (h *place) appeared(fp uint64) bool {
	if h.slot != nil || h.cell != nil || h.id == 0 {
		return false
	}
	sl, _ := h.sh.table.Load().find(fp)
	return sl != nil
}

// number is registry.id for a limit, which nearly always is the one that a slot names.
func (s *Store) number(limit *stint.Limit, sl *slot) uint64 {
	if sl != nil {
		if word := sl.word.Load(); s.limits.of(word) == limit {
			return word >> stateBits
		}
	}
	return s.limits.id(limit)
}

// seize takes hold of a slot; false if the state is elsewhere by now.
func (h *place) seize() bool {
	for {
		word := h.slot.word.Load()
		switch {
		case word == moved || word == frozen:
			return false
		case word&busy == 0 && h.slot.word.CompareAndSwap(word, word|busy):
			h.word = word
			return true
		}
		runtime.Gosched()
	}
}

// release lets go of everything. Slots that were not written get their old word.
func (s *Store) release(w *call) {
	for i := range w.held {
		h := &w.held[i]
		if h.slot != nil && h.word != unheld {
			h.slot.word.Store(h.word)
			h.word = unheld
		}
		h.slot, h.cell = nil, nil
	}
	for _, sh := range w.locked {
		sh.mu.Unlock()
	}
	w.locked = w.locked[:0]
}

// read loads the states of the parts that are held.
func (s *Store) read(w *call, now stint.Instant) {
	for i := range w.Parts {
		p, h := &w.Parts[i], &w.held[i]
		p.At = now
		switch {
		case h.cell != nil:
			p.Record = h.cell.Record
			if h.fresh {
				p.At = h.sh.freshLocked(now)
			}
		case h.slot == nil || h.word == untouched:
			p.At = since(now, h.sh.table.Load().born)
		default:
			known := s.limits.of(h.word)
			p.Record = migrate.Record{State: known.ForStores().Unpack(h.word & stateMask), Limit: known}
		}
		if p.Loan != nil {
			p.Record.Report(p.Take.Limit, p.At, p.Loan, s.epoch)
		}
	}
}

// write puts the states back to where they are held.
func (s *Store) write(w *call, now stint.Instant) {
	for i := range w.Parts {
		p, h := &w.Parts[i], &w.held[i]
		late(now, p.At, p.Take.Limit, &p.Result)
		switch {
		case h.cell != nil:
			h.cell.Record = p.Record
			s.keepLocked(h.sh, p.Name, h.cell, now)
		case h.slot != nil:
			h.word = h.written(&p.Record, p.Take.Limit)
		}
	}
}

// written returns the word of a slot as the call leaves it.
func (h *place) written(r *migrate.Record, limit *stint.Limit) uint64 {
	if r.Limit == nil {
		return h.word // nobody has looked
	}
	r.State.Written = 0 // else it would be in the map
	state := r.Limit.ForStores().Pack(&r.State)
	switch {
	case r.Limit == limit && (state != 0 || h.word != untouched):
		return h.id<<stateBits | state
	case r.Limit != limit: // it stays under the old numbers
		return h.word&^stateMask | state
	}
	return h.word
}
