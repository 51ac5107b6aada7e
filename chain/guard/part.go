package guard

import (
	"context"

	"stint"
	"stint/internal/transaction"
)

// part is some takes of a call, decided as a call of their own.
type part struct {
	call stint.Call
	of   []int // which takes of the whole they answer for; -1: none
}

func (s *Store) part(whole *stint.Call) *part {
	p := s.parts.Get().(*part)
	p.call.At = whole.At
	return p
}

func (s *Store) release(p *part) {
	clear(p.call.Takes) // the keys are the caller's
	p.call.Takes, p.call.Results, p.of = p.call.Takes[:0], p.call.Results[:0], p.of[:0]
	s.parts.Put(p)
}

// add adds a take of the whole call, as it is to be asked.
func (p *part) add(i int, t stint.Take) {
	p.call.Takes = append(p.call.Takes, t)
	p.of = append(p.of, i)
}

// decide has the part decided, and puts its answers into the results of the whole. An error
// names takes as the whole does.
func (p *part) decide(ctx context.Context, by stint.Store, whole *stint.Call, degraded bool) error {
	if len(p.call.Takes) == 0 {
		return nil
	}
	err := by.Decide(ctx, &p.call)
	undecodable := transaction.Undecodable(err)
	if err != nil && undecodable == nil {
		return err
	}
	for n, i := range p.of {
		if i < 0 || !transaction.Decided(&p.call, undecodable, n) {
			continue
		}
		d := &p.call.Results[n]
		d.Degraded = d.Degraded || degraded
		if degraded {
			d.RetryAfter = min(d.RetryAfter, retry)
		}
		whole.Results[i] = *d
	}
	return transaction.Renumber(err, p.of)
}

// decidedHere says whether a take undoes or settles what a policy decided: that is done
// where it was decided.
func decidedHere(t *stint.Take) bool {
	return t.Undo != nil && t.Undo.Degraded && (t.Op == stint.Refund || t.Op == stint.Settle)
}

// apart says whether a call does anything that concerns the local store, whatever the
// other one says.
func apart(call *stint.Call) bool {
	for i := range call.Takes {
		if t := &call.Takes[i]; t.Op == stint.Reset || decidedHere(t) {
			return true
		}
	}
	return false
}

// divide decides a call of which some takes concern the local store. The store is asked
// for all others first. Where what is decided as one with them is denied there, or its state
// cannot be read, nothing is done here either.
func (s *Store) divide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	at := present(call)
	call.SizeResults()
	there, here := s.part(call), s.part(call)
	defer s.release(there)
	defer s.release(here)
	for i := range call.Takes {
		if t := &call.Takes[i]; decidedHere(t) {
			call.Results[i] = passing(at)
		} else {
			there.add(i, *t)
		}
	}
	said := there.decide(ctx, guarded{s}, call, false)
	undecodable := transaction.Undecodable(said)
	if said != nil && undecodable == nil {
		return said
	}
	s.addHere(here, call, undecodable)
	if there.denied() {
		here.look()
	}
	if err := here.decide(ctx, s.options.Local, call, true); err != nil {
		return err
	}
	return said
}

// addHere adds what the local store is to do of a call of which these states cannot be read:
// what is reset in the store is reset here too.
func (s *Store) addHere(here *part, call *stint.Call, undecodable *stint.CorruptState) {
	for i := range call.Takes {
		t := &call.Takes[i]
		switch {
		case s.policy(t) != stint.Local || !transaction.Decided(call, undecodable, i):
		case decidedHere(t):
			here.add(i, shared(t))
		case t.Op == stint.Reset:
			here.add(-1, shared(t))
		}
	}
}

// guarded asks the store behind its guard.
type guarded struct{ *Store }

// Decide is part of stint.Store.
func (g guarded) Decide(ctx context.Context, call *stint.Call) error { return g.whole(ctx, call) }
