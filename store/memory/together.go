package memory

import (
	"context"
	"runtime"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// maxTries is how often a call tries to hold its keys with the locks of only those shards that need
// it. After that it locks the shards of all its keys, which cannot fail.
const maxTries = 3

// call is the work of a group of takes that is decided all or none.
//
// It holds all their keys at once. It first locks the shards of keys that are in the map of their
// shard, or have no slot yet, in the order of shards: nobody else replaces the tables of locked
// shards, and the slots that the call claims there stay until it is decided. Then it holds the
// slots of all keys by their busy bit, in the order of fingerprints. A call that holds a slot waits
// only for slots of greater fingerprints, so two calls never wait for each other in a circle.
type call struct {
	transaction.Plan[uint64]
	held   []place // place of each part's state
	order  []int   // indexes of the parts by fingerprint, the order in which they are held
	locked []*shard
	wanted []uint64 // fingerprints that need a slot of one shard, in ascending order
}

// place is the place of a part's state: a slot, the map, or none if there is nothing to store.
type place struct {
	sh    *shard
	inMap bool   // its state has to be in the map: it is lent to nodes, or its key has a history
	id    uint64 // number of the limit, 0 if its states are in the map
	slot  *slot  // slot that the call holds; nil: in the map, or nothing to hold
	word  uint64 // word of the slot before the call
	claim bool   // the part needs a slot, if it has none a new one
	lock  bool   // the place can only be found under the lock of its shard
	cell  *cell  // nil: not in the map
	fresh bool   // the cell is new, as the key had no state
	grows bool   // after the call the state may not fit into a word
}

// together decides a group of takes of c, all or none: all that are not independent, or the take
// with the index group and its sources. If ctx ends before it holds all keys it changes nothing.
func (s *Store) together(ctx context.Context, c *stint.Call, group int) error {
	w := s.calls.Get().(*call)
	defer s.calls.Put(w)
	if err := w.Collect(c, group); err != nil {
		return err
	}
	s.find(w, c)
	for try := 1; ; try++ {
		now, held := s.hold(w, c.At, try > maxTries)
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

// find finds the shard and the loan of each part.
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
		if t.Loan() == nil && !t.Metered() && !transaction.Durable(t) {
			continue
		}
		if n := w.Of(i); n >= 0 {
			w.Parts[n].Loan = s.loan(t)
			w.held[n].inMap = w.held[n].inMap || w.Parts[n].Loan != nil || t.Metered() || transaction.Durable(t)
		}
	}
}

// hold holds the states of all parts, and returns the time of that: at, or by the clock if at is 0.
// It returns false if it must be tried again, because other goroutines moved states. With all it
// locks the shards of all parts, and never fails.
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
			sh.mu.Lock()
			w.locked = append(w.locked, sh)
			s.placeLocked(w, sh, rest[:n], at)
		}
		rest = rest[n:]
	}
	for _, i := range w.order {
		if h := &w.held[i]; h.slot != nil && !h.holdSlot() {
			return 0, false
		}
	}
	now = s.now(at) // after all states are held, see setTime
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

// outgrows reports whether the state of a held part may not fit into a word after the call.
func (s *Store) outgrows(w *call, part int, now stint.Instant) bool {
	p, h := &w.Parts[part], &w.held[part]
	r := transaction.Record{Limit: p.Take.Limit}
	if h.word != untouched {
		r.Limit = s.limits.of(h.word)
		r.State = r.Limit.ForStores().Unpack(h.word & stateMask)
	}
	units, unasked := w.Debits(part)
	if r.Limit.Algorithm() == stint.FixedWindow && r.State.T > int64(now) {
		return true // a state from the future may be moved to now
	}
	if units == 0 || !unasked && r.Limit.ForStores().Same(p.Take.Limit) {
		return false
	}
	r.Force(p.Take.Limit, transaction.DecisionTime(now, h.sh.table.Load().lastDrop), units)
	return r.Limit.ForStores().Pack(&r.State) > stateMask
}

// moveLocked moves the state of a part from its held slot to the map.
func (s *Store) moveLocked(h *place, p *transaction.Part[uint64], now stint.Instant) {
	h.cell = &cell{Record: transaction.Record{Limit: p.Take.Limit}}
	h.fresh = h.word == untouched
	if !h.fresh {
		h.cell.Limit = s.limits.of(h.word)
		h.cell.State = h.cell.Limit.ForStores().Unpack(h.word & stateMask)
		s.storeLocked(h.sh, p.Name, h.cell, now)
	}
	h.slot.word.Store(moved)
	h.slot, h.word = nil, unheld
}

// look finds the slot of a part, and whether its shard must be locked.
func (s *Store) look(h *place, p *transaction.Part[uint64], all bool) {
	h.id, h.slot, h.cell, h.claim, h.lock = 0, nil, nil, false, false
	limit := p.Take.Limit
	if limit.Algorithm() == stint.Unlimited {
		return
	}
	if limit.ForStores().Packed() && !h.inMap {
		h.slot, _ = h.sh.table.Load().find(p.Name)
		h.id = s.number(limit, h.slot)
	}
	h.claim = all || limit.Capacity() != 0 && p.Charges() // otherwise there is nothing to store
	switch {
	case h.slot != nil:
		h.lock = all || h.id == 0 || h.slot.word.Load() == moved
	default:
		h.lock = h.claim || h.id == 0 || h.sh.cells.Load() > 0
	}
	h.lock = h.lock || h.grows
}

// placeLocked finds or makes the places of the parts of one shard. It reads the clock only to make
// room; at is Call.At.
func (s *Store) placeLocked(w *call, sh *shard, parts []int, at stint.Instant) {
	w.wanted = w.wanted[:0]
	t, room := sh.table.Load(), true
	for _, i := range parts {
		h, fp := &w.held[i], w.Parts[i].Name
		limit, end := w.Parts[i].Take.Limit, 0
		if limit.Algorithm() == stint.Unlimited {
			continue
		}
		_, there := sh.cellMap[fp]
		if h.slot, end = t.find(fp); there || h.id == 0 || h.slot != nil && h.slot.word.Load() == moved {
			h.slot = nil
			h.cell, h.fresh = s.cellLocked(sh, fp, limit, at)
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
	s.replaceLocked(sh, t, s.now(at), w.wanted)
	for _, i := range parts {
		if h := &w.held[i]; h.id != 0 && h.cell == nil {
			h.slot, _ = sh.table.Load().find(w.Parts[i].Name)
		}
	}
}

// appeared reports whether a key that had no slot when its part was placed has one now. All keys
// are held then, and the call must see them all at one moment.
func (h *place) appeared(fp uint64) bool {
	if h.slot != nil || h.cell != nil || h.id == 0 {
		return false
	}
	sl, _ := h.sh.table.Load().find(fp)
	return sl != nil
}

// number is registry.id, but first tries the limit that the slot names, which is nearly always the
// same.
func (s *Store) number(limit *stint.Limit, sl *slot) uint64 {
	if sl != nil {
		if word := sl.word.Load(); s.limits.of(word) == limit {
			return word >> stateBits
		}
	}
	return s.limits.id(limit)
}

// holdSlot holds a slot by its busy bit. It returns false if the state has moved.
func (h *place) holdSlot() bool {
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

// release releases all slots and locks. Slots that write did not change get their old word.
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

// read loads the states of the held parts.
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
			p.At = transaction.DecisionTime(now, h.sh.table.Load().lastDrop)
		default:
			known := s.limits.of(h.word)
			p.Record = transaction.Record{State: known.ForStores().Unpack(h.word & stateMask), Limit: known}
		}
		if p.Take.Metered() {
			p.Book = h.sh.bookLocked(p.Name, p.Take)
		}
		if p.Loan != nil {
			p.Record.Report(p.Take.Limit, p.At, p.Loan, s.epoch)
		}
	}
}

// write writes the states of the held parts.
func (s *Store) write(w *call, now stint.Instant) {
	for i := range w.Parts {
		p, h := &w.Parts[i], &w.held[i]
		transaction.CorrectTime(now, p.At, p.Take.Limit, &p.Result)
		switch {
		case h.cell != nil:
			h.cell.Record = p.Record
			s.storeLocked(h.sh, p.Name, h.cell, now)
			if p.Take.Metered() {
				s.meterLocked(h.sh, p.Name, p.Take, p.Book, p.Change, p.At)
			}
			if transaction.Durable(p.Take) && (p.Source || recordsChange(p.Take.Op, p.Take.Limit, p.Units(), &p.Result)) {
				s.recordLocked(h.sh, p.Name)
			}
		case h.slot != nil:
			h.word = h.written(&p.Record, p.Take.Limit)
		}
	}
}

// written returns the word of a slot after the call.
func (h *place) written(r *transaction.Record, limit *stint.Limit) uint64 {
	if r.Limit == nil {
		return h.word // the record was not used
	}
	r.State.Written = 0 // a state above full use is in the map
	state := r.Limit.ForStores().Pack(&r.State)
	switch {
	case r.Limit == limit && (state != 0 || h.word != untouched):
		return h.id<<stateBits | state
	case r.Limit != limit: // the state stays under the old numbers
		return h.word&^stateMask | state
	}
	return h.word
}
