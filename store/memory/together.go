package memory

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"stint"
	"stint/carry"
)

// call is the work of a call of several takes that stand or fall together.
//
// All their keys are held at once: those in maps by the locks of their shards,
// taken in the order of shards, then those in tables by the busy bit of their
// slots, taken in the order of fingerprints. Slots are claimed before anything is
// held, and nothing that is held waits for a lock or a replacement of a table, so
// two calls never wait for each other in a circle.
type call struct {
	parts  []part
	of     []int // the part of each take; -1 for takes of another call
	leans  []lean
	order  []int // the parts by their fingerprints: the order in which they are held
	locked []*shard
}

// part is one key of a call. Takes of the same key are one part with the sum of
// their costs.
type part struct {
	query
	sh *shard
	id uint64 // of the limit's numbers, 0 for one whose states live in the map

	slot   *slot  // where its word is held; nil: in the map, or nothing to hold
	word   uint64 // as it was before
	inMap  bool
	cell   *cell
	record carry.Record
	at     stint.Instant
	result stint.Decision

	asked  bool   // by a take that leans on nothing and is not leaned on
	leans  uint8  // as the take
	leaned bool   // by another part
	owed   uint64 // debited unasked, see stint.Take.Leans
}

// lean says that one part leans on another with so many units.
type lean struct {
	part, on int
	cost     uint64
}

// whole is the group of all takes of a call that are not apart.
const whole = -1

// together decides a group of takes of c, all or none: the whole of those that are not
// apart, or the take of a number with those it leans on.
func (s *Store) together(c *stint.Call, group int, now stint.Instant) error {
	w := s.calls.Get().(*call)
	defer s.calls.Put(w)
	if err := s.collect(w, c, group, now); err != nil {
		return err
	}
	for !s.hold(w, now) {
		s.release(w)
		runtime.Gosched()
	}
	s.read(w, now)
	w.decide()
	s.write(w, now)
	s.release(w)
	for i, p := range w.of {
		if p >= 0 {
			c.Results[i] = w.parts[p].result
		}
	}
	for i := range w.parts {
		w.parts[i] = part{} // keep nobody's limits and states alive
	}
	return nil
}

// collect turns the takes of a group into parts.
func (s *Store) collect(w *call, c *stint.Call, group int, now stint.Instant) error {
	w.parts, w.of, w.leans, w.order = w.parts[:0], w.of[:0], w.leans[:0], w.order[:0]
	leader, last := -1, -1 // who leans on the takes up to last
	for i := range c.Takes {
		t := &c.Takes[i]
		in := !t.Apart
		if group != whole {
			in = i >= group && i <= group+int(c.Takes[group].Leans)
		}
		if !in {
			w.of = append(w.of, -1)
			continue
		}
		leaned := i <= last
		n, err := s.part(w, t, leaned, now)
		if err != nil {
			return fmt.Errorf("take %d: %w", i, err)
		}
		w.of = append(w.of, n)
		if leaned {
			w.leans = append(w.leans, lean{part: leader, on: n, cost: uint64(t.Cost)})
		} else if t.Leans > 0 {
			leader, last = n, i+int(t.Leans)
		}
	}
	slices.SortFunc(w.order, func(a, b int) int { return cmp.Compare(w.parts[a].fp, w.parts[b].fp) })
	return nil
}

// part returns the number of the part of a take's key.
func (s *Store) part(w *call, t *stint.Take, leaned bool, now stint.Instant) (int, error) {
	fp := s.print(t.Limit.Algorithm(), t.Key)
	n := 0
	for n < len(w.parts) && w.parts[n].fp != fp {
		n++
	}
	if n == len(w.parts) {
		w.order = append(w.order, n)
		w.parts = append(w.parts, part{
			query: query{fp: fp, limit: t.Limit, op: t.Op, undo: t.Undo, now: now},
			sh:    s.shard(fp), word: unheld, leans: t.Leans,
		})
		if t.Limit.Packed() {
			w.parts[n].id = s.limits.id(t.Limit)
		}
	} else if !w.parts[n].joins(t) {
		return 0, stint.ErrMixedLimits
	}
	p := &w.parts[n]
	if t.Loan != nil {
		if p.loan = s.loan(t); p.loan != nil {
			p.id = 0 // what is lent lives in the map
		}
	}
	switch {
	case leaned:
		p.leaned = true // what it is asked for is seen when the others are
	default:
		p.asked = p.asked || t.Leans == 0
		p.cost += uint64(t.Cost)
	}
	return n, nil
}

// joins says whether another take of the same key may stand in the same call.
func (p *part) joins(t *stint.Take) bool {
	return p.op == stint.Ask && t.Op == stint.Ask && p.leans == t.Leans && p.limit.Same(t.Limit)
}

// hold takes hold of all parts; false if it has to be tried again.
func (s *Store) hold(w *call, now stint.Instant) bool {
	for i := range w.parts {
		if p := &w.parts[i]; !p.inMap && !s.place(p, now) {
			return false
		}
	}
	for _, i := range w.order {
		p := &w.parts[i]
		if p.inMap && (len(w.locked) == 0 || w.locked[len(w.locked)-1] != p.sh) {
			p.sh.mu.Lock()
			w.locked = append(w.locked, p.sh)
		}
	}
	for _, i := range w.order {
		if p := &w.parts[i]; p.slot != nil && !p.seize() {
			return false
		}
	}
	for i := range w.parts {
		if p := &w.parts[i]; p.appeared() {
			return false
		}
	}
	return true
}

// appeared says whether a key that had no slot when the part was placed has one now
// that the others are held: the call has to see all keys at one moment.
func (p *part) appeared() bool {
	if p.slot != nil || p.inMap || p.id == 0 {
		return false
	}
	sl, _ := p.sh.table.Load().find(p.fp)
	return sl != nil
}

// place finds where the part's state is or will be; false if that has to be tried
// again.
func (s *Store) place(p *part, now stint.Instant) bool {
	p.slot = nil
	if p.limit.Algorithm() == stint.Unlimited {
		return true
	}
	t := p.sh.table.Load()
	end := 0
	if p.id != 0 {
		p.slot, end = t.find(p.fp)
	}
	if p.slot != nil {
		return true
	}
	if p.id == 0 || p.sh.cells.Load() > 0 && s.inMap(p.sh, p.fp) {
		p.inMap = true
		return true
	}
	if p.limit.Most() == 0 || p.op != stint.Force && !p.leaned && (p.op != stint.Ask || p.cost == 0 || p.cost > uint64(p.limit.Most()) && !p.limit.Spec().Overdraw) {
		return true // nothing that would have to be remembered
	}
	if p.slot = t.claim(p.fp, end); p.slot == nil {
		s.replace(p.sh, t, now)
		return false
	}
	return true
}

// seize takes hold of the part's slot; false if the state is elsewhere by now.
func (p *part) seize() bool {
	for {
		word := p.slot.word.Load()
		switch {
		case word == moved:
			p.inMap, p.slot = true, nil
			return false
		case word == frozen:
			return false
		case word&busy == 0 && p.slot.word.CompareAndSwap(word, word|busy):
			p.word = word
			return true
		}
		runtime.Gosched()
	}
}

// release lets go of everything. Slots that were not written get their old word.
func (s *Store) release(w *call) {
	for i := range w.parts {
		if p := &w.parts[i]; p.slot != nil && p.word != unheld {
			p.slot.word.Store(p.word)
			p.word = unheld
		}
	}
	for _, sh := range w.locked {
		sh.mu.Unlock()
	}
	w.locked = w.locked[:0]
}

// read loads the states of the parts that are held.
func (s *Store) read(w *call, now stint.Instant) {
	for i := range w.parts {
		p := &w.parts[i]
		p.at = now
		switch {
		case p.inMap:
			p.cell, p.at = s.cellLocked(p.sh, p.fp, p.limit, now)
			p.record = p.cell.Record
		case p.slot == nil || p.word == untouched:
			p.at = max(now, p.sh.table.Load().born)
		default:
			known := s.limits.of(p.word)
			p.record = carry.Record{State: known.Unpack(p.word & stateMask), Limit: known}
		}
		if p.loan != nil {
			p.record.Report(p.limit, p.at, p.loan, s.epoch)
		}
	}
}

// decide answers all parts: everything is done, or nothing.
func (w *call) decide() {
	for i := range w.parts {
		if p := &w.parts[i]; p.op == stint.Ask {
			p.result = p.record.Test(p.limit, p.at, p.cost)
		}
	}
	if len(w.leans) > 0 {
		w.lean()
	}
	pass := true
	for i := range w.parts {
		p := &w.parts[i]
		pass = pass && (p.op != stint.Ask || p.result.Allowed || p.leaned && !p.asked)
	}
	for i := range w.parts {
		p := &w.parts[i]
		switch {
		case p.result.Over:
			p.result = p.record.Test(p.limit, p.at, 0)
			p.result.Over = pass
		case p.leaned:
			p.debit(pass)
		case pass:
			p.result = p.apply(&p.record, p.at)
		case p.op == stint.Ask && (!p.result.Allowed || p.limit.Spec().Overdraw):
			retry := p.result.RetryAfter
			p.result = p.apply(&p.record, p.at)
			if p.leans > 0 {
				p.result.RetryAfter = min(p.result.RetryAfter, retry)
			}
		default:
			p.result = p.record.Test(p.limit, p.at, 0)
		}
		if p.loan != nil {
			p.record.Lend(p.limit, p.at, p.loan, p.cost, &p.result)
		}
		p.late(p.at, &p.result)
	}
}

// lean lets the parts that do not fit their own limits lean on others. Those that
// may pass so are Over.
func (w *call) lean() {
	for _, l := range w.leans {
		on := &w.parts[l.on]
		if w.parts[l.part].result.Allowed {
			on.owed += l.cost
		} else {
			on.cost += l.cost
		}
	}
	for i := range w.parts {
		if p := &w.parts[i]; p.leaned {
			p.result = p.record.Test(p.limit, p.at, p.cost)
		}
	}
	for i := range w.parts {
		if p := &w.parts[i]; p.leans > 0 && !p.result.Allowed {
			retry, room := w.room(i)
			p.result.Allowed, p.result.Over = room, room
			p.result.RetryAfter = min(p.result.RetryAfter, retry)
		}
	}
}

// room says whether all that a part leans on has room, and when it has.
func (w *call) room(part int) (retry time.Duration, room bool) {
	room = true
	for _, l := range w.leans {
		if on := &w.parts[l.on]; l.part == part && !on.result.Allowed {
			room = false
			wait := on.result.RetryAfter
			if wait != stint.Never {
				wait += on.at.Sub(w.parts[part].at)
			}
			retry = max(retry, wait)
		}
	}
	return retry, room
}

// debit charges a part that others lean on.
func (p *part) debit(pass bool) {
	switch {
	case !pass && p.result.Allowed:
		p.result = p.record.Test(p.limit, p.at, 0)
	case !pass || p.cost > 0:
		p.result = p.record.Take(p.limit, p.at, p.cost)
	}
	if pass && p.owed > 0 {
		p.result = p.record.Owe(p.limit, p.at, p.owed)
	}
}

// write puts the states back to where they are held.
func (s *Store) write(w *call, now stint.Instant) {
	for i := range w.parts {
		p := &w.parts[i]
		switch {
		case p.inMap:
			p.cell.Record = p.record
			s.keepLocked(p.sh, p.fp, p.cell, now)
		case p.slot != nil:
			p.word = p.written()
		}
	}
}

// written returns the word of the part's slot as the call leaves it.
func (p *part) written() uint64 {
	r := &p.record
	if r.Limit == nil {
		return p.word // nobody has looked
	}
	state := min(r.Limit.Pack(&r.State), stateMask)
	switch {
	case r.Limit == p.limit && (state != 0 || p.word != untouched):
		return p.id<<stateBits | state
	case r.Limit != p.limit: // it stays under the old numbers
		return p.word&^stateMask | state
	}
	return p.word
}
