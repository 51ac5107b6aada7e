package denycache

import (
	"context"
	"fmt"
	"time"

	"stint"
	"stint/internal/transaction"
)

// ask is a call on its way to the cache or to the store.
type ask struct {
	began moment
	fresh bool // notices arrive, so the answer can be cached
	slots [maxTakes]slot

	gated *record // record whose gate the call must pass, or has passed; nil: none
	at    int     // index of the take of this record
}

// slot is the place of a take's key in the cache.
type slot struct {
	hash  uint64
	seq   uint64  // shard.seq when the call began
	renew *record // old record that this call renews; nil: none
}

// recall answers the call from the cache, if that has the answers for all takes. If not, the caller
// must call the store, and then finish.
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
			return false, fmt.Errorf("denycache: not sent, another call waits for an answer about the same key: %w", ctx.Err())
		}
	}
}

// look answers the call if the cache has the answers for all takes.
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
	return known && (denied || !whole) && (!denied || allBeside(call))
}

// allBeside reports whether all candidates of a call that the cache answers as passing are surely not
// charged, because another take denies.
func allBeside(call *stint.Call) bool {
	for i := range call.Takes {
		if call.Takes[i].InsteadOf() > 0 && call.Results[i].Allowed && !transaction.DeniedBeside(call, i) {
			return false
		}
	}
	return true
}

// lookAt looks up take i: whether it is surely denied, and whether its answer is known if the call
// is denied. For the one call that renews an old record the answer is not known.
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
		s.notify(hash)
	}
	a.slots[i] = slot{hash: hash, seq: sh.seq}
	if r == nil || !a.fresh {
		return false, false
	}
	cost := transaction.DeniedCost(t)
	if cost > 0 {
		var age time.Duration
		if *d, age, refused = r.refuses(cost, a.began, s.maxAge); refused {
			return true, !s.renews(r, age, a, i)
		}
		if a.gated == nil && r.gate.open > 0 && cost >= r.gate.cost && !t.Candidate() {
			a.gated, a.at = r, i
		}
	}
	if !t.Independent || t.InsteadOf() > 0 {
		*d, known = r.fits(cost, a.began, s.maxAge)
		known = known && !s.renews(r, a.began.since(r.asked), a, i)
	}
	return false, known
}

// renews reports whether a call must renew the record of take i, whose answer has that age: if it
// is nearly as old as allowed, and no other call renews it.
func (s *Store) renews(r *record, age time.Duration, a *ask, i int) bool {
	if r.renewing || age < s.maxAge-s.maxAge/renewPart {
		return false
	}
	r.renewing, a.slots[i].renew = true, r
	return true
}

// renewPart is the number of parts of MaxAge; a record is renewed in the last
// one.
const renewPart = 10

// renewed ends the renewals of a call, with or without an answer, so that other calls may renew.
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

// lookAgain is a closed channel, for callers that need not wait.
var lookAgain = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enter admits a call to the store and returns nil, or returns what the call must wait for before
// it looks again.
func (s *Store) enter(call *stint.Call, a *ask) (wait <-chan struct{}) {
	if a.gated == nil {
		return nil
	}
	sh := s.shard(a.slots[a.at].hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, cost := a.gated, transaction.DeniedCost(&call.Takes[a.at])
	if _, _, refused := r.refuses(cost, a.began, s.maxAge); refused || sh.seq != a.slots[a.at].seq || r.gate.open == 0 {
		return lookAgain
	}
	return r.gate.enter()
}

// finish caches the store's answer to a call, if it answered, and wakes the calls that wait for it.
func (s *Store) finish(call *stint.Call, a *ask, answered bool) {
	if answered {
		s.remember(call, a)
	} else {
		s.failed(call, a)
	}
	s.renewed(call, a)
	s.leave(a)
}

// degraded reports whether a failure policy has decided in place of the store.
func degraded(results []stint.Decision) bool {
	for i := range results {
		if results[i].Degraded {
			return true
		}
	}
	return false
}

// leave wakes the calls that wait for the answer.
func (s *Store) leave(a *ask) {
	if a.gated == nil {
		return
	}
	sh := s.shard(a.slots[a.at].hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a.gated.gate.leave()
}

// failed drops the keys that an unanswered call may have changed.
func (s *Store) failed(call *stint.Call, a *ask) {
	for i := range call.Takes {
		s.forget(a.slots[i].hash)
		if s.divided && len(call.Takes) > 1 {
			s.notify(a.slots[i].hash)
		}
	}
}

// remember caches the store's answer to a call.
func (s *Store) remember(call *stint.Call, a *ask) {
	passed := true
	for i := range call.Takes {
		passed = passed && (call.Takes[i].Independent || call.Results[i].Allowed)
	}
	for i := range call.Takes {
		t := &call.Takes[i]
		switch d := &call.Results[i]; {
		case !d.Allowed && t.InsteadOf() > 0 && d.RetryAfter == 0: // it was not asked
		case !d.Allowed:
			s.denied(t, d, a, i)
		case t.Cost > 0 && (t.Independent && !transaction.DeniedBeside(call, i) || passed):
			s.charged(t, d, a, i, len(call.Takes) == 1)
		default:
			s.updateRecord(t, d, a, i, !passed)
			if s.divided && t.Cost > 0 {
				s.notify(a.slots[i].hash) // it may have been charged and given back
			}
		}
	}
}

// denied caches a denial, unless something was dropped since the call began.
func (s *Store) denied(t *stint.Take, d *stint.Decision, a *ask, i int) {
	hash := a.slots[i].hash
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !a.fresh || sh.seq != a.slots[i].seq || !countable(t, d) {
		return
	}
	r, _ := sh.get(hash, t)
	if r == nil {
		if r = s.add(sh, hash, t, a.began); r == nil {
			return
		}
	}
	if r.update(*d, a.began, 0) {
		cost := transaction.DeniedCost(t)
		r.deny(cost, a.began, d.RetryAfter)
		r.gate.cost, r.gate.open = cost, 1
	}
}

// charged updates the record of a key after a take was charged: its denials are no longer valid,
// and the remaining units are new.
func (s *Store) charged(t *stint.Take, d *stint.Decision, a *ask, i int, alone bool) {
	hash := a.slots[i].hash
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, _ := sh.get(hash, t)
	if r == nil || !r.update(*d, a.began, 0) {
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

// updateRecord updates the record of a key after a take that was not charged.
func (s *Store) updateRecord(t *stint.Take, d *stint.Decision, a *ask, i int, beside bool) {
	hash := a.slots[i].hash
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, _ := sh.get(hash, t)
	if r == nil && beside && a.fresh && sh.seq == a.slots[i].seq {
		r = s.add(sh, hash, t, a.began)
	}
	if r != nil {
		r.update(*d, a.began, transaction.DeniedCost(t))
	}
}
