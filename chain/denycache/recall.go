package denycache

import (
	"context"
	"fmt"
	"time"

	"stint"
)

// ask is a call on its way to memory or to the store.
type ask struct {
	began moment
	fresh bool // others can be heard, so the answer can be remembered
	slots [maxTakes]slot

	gated *record // whose gate it is to go through, or went; nil for none
	at    int     // the take that this record is about
}

// slot is where a take's key is remembered.
type slot struct {
	hash  uint64
	seq   uint64  // of its shard when the call began
	renew *record // what is known of the key and grows old, which this call asks for anew
}

// recall answers the call from memory, if all that it takes is known there. If not, the caller has
// to ask the store, and to tell learn what came of it.
func (s *Store) recall(ctx context.Context, call *stint.Call, a *ask) (known bool, err error) {
	for {
		a.began, a.gated = s.now(), nil
		a.fresh = s.fresh(a.began)
		if s.look(call, a) {
			s.answered.Add(1)
			return true, nil
		}
		wait := s.enter(call, a)
		if wait == nil {
			return false, nil
		}
		s.renewed(call, a)
		select {
		case <-wait:
		case <-ctx.Done():
			return false, fmt.Errorf("denycache: not asked, another call waits for an answer about the same key: %w", ctx.Err())
		}
	}
}

// look answers the call if all is known that this takes.
func (s *Store) look(call *stint.Call, a *ask) bool {
	call.SizeResults()
	known, denied, whole := a.fresh, false, false
	for i := range call.Takes {
		refused, ok := s.lookAt(&call.Takes[i], &call.Results[i], a, i)
		known = known && ok
		if !call.Takes[i].Independent {
			whole, denied = true, denied || refused
		}
	}
	return known && (denied || !whole)
}

// lookAt looks at take i: whether it is surely refused, and whether its answer is known
// if the call is denied. What grows old is not known to one call, which asks for it anew.
func (s *Store) lookAt(t *stint.Take, d *stint.Decision, a *ask, i int) (refused, known bool) {
	hash := hashOf(t.Key, t.Limit.Algorithm())
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, stale := sh.get(hash, t)
	if stale {
		sh.seq++
		s.remove(sh, hash)
		s.dropped.Add(1)
		s.tell(hash)
	}
	a.slots[i] = slot{hash: hash, seq: sh.seq}
	if r == nil || !a.fresh {
		return false, false
	}
	if t.Cost > 0 {
		var age time.Duration
		if *d, age, refused = r.refuses(t.Cost, a.began, s.maxAge); refused {
			return true, !s.renews(r, age, a, i)
		}
		if a.gated == nil && r.gate.open > 0 && t.Cost >= r.gate.cost {
			a.gated, a.at = r, i
		}
	}
	if !t.Independent {
		*d, known = r.fits(t.Cost, a.began, s.maxAge)
		known = known && !s.renews(r, a.began.since(r.asked), a, i)
	}
	return false, known
}

// renews says whether a call has to ask anew for what is known of the key of take i since so
// long: when that is nearly as old as it may get, and no other call does.
func (s *Store) renews(r *record, age time.Duration, a *ask, i int) bool {
	if r.renewing || age < s.maxAge-s.maxAge/renewPart {
		return false
	}
	r.renewing, a.slots[i].renew = true, r
	return true
}

// renewPart says in which part of its time what is remembered is asked for anew, the last one
// of so many.
const renewPart = 10

// renewed lets others ask for what a call was to ask for anew, whatever came of it.
func (s *Store) renewed(call *stint.Call, a *ask) {
	for i := range call.Takes {
		o := &a.slots[i]
		if o.renew == nil {
			continue
		}
		sh := s.shard(o.hash)
		sh.mu.Lock()
		o.renew.renewing = false
		sh.mu.Unlock()
		o.renew = nil
	}
}

// looked is the wait of those who have to look once more.
var looked = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enter lets a call ask the store, or returns what it has to wait for before it looks
// again.
func (s *Store) enter(call *stint.Call, a *ask) (wait <-chan struct{}) {
	if a.gated == nil {
		return nil
	}
	sh := s.shard(a.slots[a.at].hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, cost := a.gated, call.Takes[a.at].Cost
	if _, _, refused := r.refuses(cost, a.began, s.maxAge); refused || sh.seq != a.slots[a.at].seq || r.gate.open == 0 {
		return looked
	}
	return r.gate.enter()
}

// learn remembers what the store said about a call, if it answered, and lets those go on who wait
// for that.
func (s *Store) learn(call *stint.Call, a *ask, answered bool) {
	if answered {
		s.remember(call, a)
	} else {
		s.failed(call, a)
	}
	s.renewed(call, a)
	s.leave(a)
}

// degraded says whether somebody else answered in the store's place.
func degraded(results []stint.Decision) bool {
	for i := range results {
		if results[i].Degraded {
			return true
		}
	}
	return false
}

// leave lets those look again who wait for the answer.
func (s *Store) leave(a *ask) {
	if a.gated == nil {
		return
	}
	sh := s.shard(a.slots[a.at].hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a.gated.gate.leave()
}

// failed forgets what a call may have changed that was not answered.
func (s *Store) failed(call *stint.Call, a *ask) {
	for i := range call.Takes {
		s.forget(a.slots[i].hash)
		if s.divided && len(call.Takes) > 1 {
			s.tell(a.slots[i].hash)
		}
	}
}

// remember remembers what the store says about a call.
func (s *Store) remember(call *stint.Call, a *ask) {
	passed := true
	for i := range call.Takes {
		passed = passed && (call.Takes[i].Independent || call.Results[i].Allowed)
	}
	for i := range call.Takes {
		t := &call.Takes[i]
		switch d := &call.Results[i]; {
		case !d.Allowed:
			s.refused(t, d, a, i)
		case t.Cost > 0 && (t.Independent || passed):
			s.charged(t, d, a, i, len(call.Takes) == 1)
		default:
			s.seen(t, d, a, i, !passed)
			if s.divided && t.Cost > 0 {
				s.tell(a.slots[i].hash) // it may have been charged and given back
			}
		}
	}
}

// refused remembers a refusal, unless something was forgotten since the call began.
func (s *Store) refused(t *stint.Take, d *stint.Decision, a *ask, i int) {
	hash := a.slots[i].hash
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !a.fresh || sh.seq != a.slots[i].seq || !counts(t, d) {
		return
	}
	r, _ := sh.get(hash, t)
	if r == nil {
		if r = s.add(sh, hash, t, a.began); r == nil {
			return
		}
	}
	if r.learn(*d, a.began, 0) {
		r.deny(t.Cost, a.began, d.RetryAfter)
		r.gate.cost, r.gate.open = t.Cost, 1
	}
}

// charged takes note that something was taken of a key: what is known of it is out of
// date, but how much room is left.
func (s *Store) charged(t *stint.Take, d *stint.Decision, a *ask, i int, alone bool) {
	hash := a.slots[i].hash
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, _ := sh.get(hash, t)
	if r == nil || !r.learn(*d, a.began, 0) {
		return
	}
	r.denials = r.denials[:0]
	if g := &r.gate; g.open > 0 {
		g.open = int(min(max(r.room/max(g.cost, 1), 1), maxOpen))
		if g.open >= maxOpen {
			g.open = 0
			g.wake()
		}
	}
	if alone && r.gate.open == 0 {
		s.remove(sh, hash)
	}
}

// seen takes note of the answer to a take that was not charged.
func (s *Store) seen(t *stint.Take, d *stint.Decision, a *ask, i int, beside bool) {
	hash := a.slots[i].hash
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, _ := sh.get(hash, t)
	if r == nil && beside && a.fresh && sh.seq == a.slots[i].seq {
		r = s.add(sh, hash, t, a.began)
	}
	if r != nil {
		r.learn(*d, a.began, t.Cost)
	}
}
