package memory

import (
	"runtime"

	"stint"
	"stint/carry"
	"stint/internal/together"
)

// call is the work of a call of several takes that stand or fall together.
//
// All their keys are held at once: those in maps by the locks of their shards,
// taken in the order of shards, then those in tables by the busy bit of their
// slots, taken in the order of fingerprints. Slots are claimed before anything is
// held, and nothing that is held waits for a lock or a replacement of a table, so
// two calls never wait for each other in a circle.
type call struct {
	together.Work[uint64]
	held   []place // where the state of each part is
	order  []int   // the parts by their fingerprints: the order in which they are held
	locked []*shard
}

// place is where the state of a part is: in a slot, in the map, or nowhere where nothing has
// to be remembered.
type place struct {
	sh    *shard
	lent  bool   // to nodes: that lives in the map
	id    uint64 // of the limit's numbers, 0 for one whose states live in the map
	slot  *slot  // where its word is held; nil: in the map, or nothing to hold
	word  uint64 // as it was before
	inMap bool
	cell  *cell
}

// together decides a group of takes of c, all or none: the whole of those that are not
// apart, or the take of a number with those it leans on.
func (s *Store) together(c *stint.Call, group int, now stint.Instant) error {
	w := s.calls.Get().(*call)
	defer s.calls.Put(w)
	if err := w.Collect(c, group); err != nil {
		return err
	}
	s.find(w, c)
	for !s.hold(w, now) {
		s.release(w)
		runtime.Gosched()
	}
	s.read(w, now)
	w.Decide()
	s.write(w, now)
	s.release(w)
	w.Answer(c)
	return nil
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
		if t.Loan == nil {
			continue
		}
		if n := w.Of(i); n >= 0 {
			w.Parts[n].Loan = s.loan(t)
			w.held[n].lent = w.held[n].lent || w.Parts[n].Loan != nil
		}
	}
}

// hold takes hold of all parts; false if it has to be tried again.
func (s *Store) hold(w *call, now stint.Instant) bool {
	for i := range w.held {
		if h := &w.held[i]; !h.inMap && !s.place(h, &w.Parts[i], now) {
			return false
		}
	}
	for _, i := range w.order {
		h := &w.held[i]
		if h.inMap && (len(w.locked) == 0 || w.locked[len(w.locked)-1] != h.sh) {
			h.sh.mu.Lock()
			w.locked = append(w.locked, h.sh)
		}
	}
	for _, i := range w.order {
		if h := &w.held[i]; h.slot != nil && !h.seize() {
			return false
		}
	}
	for i := range w.held {
		if h := &w.held[i]; h.appeared(w.Parts[i].Name) {
			return false
		}
	}
	return true
}

// appeared says whether a key that had no slot when its part was placed has one now
// that the others are held: the call has to see all keys at one moment.
func (h *place) appeared(fp uint64) bool {
	if h.slot != nil || h.inMap || h.id == 0 {
		return false
	}
	sl, _ := h.sh.table.Load().find(fp)
	return sl != nil
}

// place finds where a part's state is or will be; false if that has to be tried
// again.
func (s *Store) place(h *place, p *together.Part[uint64], now stint.Instant) bool {
	limit := p.Take.Limit
	if limit.Algorithm() == stint.Unlimited {
		return true
	}
	t, end := h.sh.table.Load(), 0
	if limit.Packed() && !h.lent {
		h.slot, end = t.find(p.Name)
		h.id = s.number(limit, h.slot)
	}
	switch {
	case h.slot != nil && h.id != 0:
		return true
	case h.id == 0 || h.sh.cells.Load() > 0 && s.inMap(h.sh, p.Name):
		h.slot, h.inMap = nil, true
		return true
	case limit.Most() == 0 || !p.Charges():
		return true // nothing that would have to be remembered
	}
	if h.slot = t.claim(p.Name, end); h.slot == nil {
		s.replace(h.sh, t, now)
		return false
	}
	return true
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
		case word == moved:
			h.inMap, h.slot = true, nil
			return false
		case word == frozen:
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
		h.slot = nil
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
		case h.inMap:
			h.cell, p.At = s.cellLocked(h.sh, p.Name, p.Take.Limit, now)
			p.Record = h.cell.Record
		case h.slot == nil || h.word == untouched:
			p.At = max(now, h.sh.table.Load().born)
		default:
			known := s.limits.of(h.word)
			p.Record = carry.Record{State: known.Unpack(h.word & stateMask), Limit: known}
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
		late(now, p.At, &p.Result)
		switch {
		case h.inMap:
			h.cell.Record = p.Record
			s.keepLocked(h.sh, p.Name, h.cell, now)
			h.cell = nil
		case h.slot != nil:
			h.word = h.written(&p.Record, p.Take.Limit)
		}
	}
}

// written returns the word of a slot as the call leaves it.
func (h *place) written(r *carry.Record, limit *stint.Limit) uint64 {
	if r.Limit == nil {
		return h.word // nobody has looked
	}
	state := min(r.Limit.Pack(&r.State), stateMask)
	switch {
	case r.Limit == limit && (state != 0 || h.word != untouched):
		return h.id<<stateBits | state
	case r.Limit != limit: // it stays under the old numbers
		return h.word&^stateMask | state
	}
	return h.word
}
