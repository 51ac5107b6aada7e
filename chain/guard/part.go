package guard

import (
	"context"

	"stint"
	"stint/internal/transaction"
)

// part has some takes of a call, decided as a call of their own.
type part struct {
	call stint.Call
	of   []int // index of each take in the whole call; -1: none
}

func (s *Store) part(whole *stint.Call) *part {
	p := s.parts.Get().(*part)
	p.call.At = whole.At
	return p
}

func (s *Store) release(p *part) {
	clear(p.call.Takes) // release the caller's keys
	p.call.Takes, p.call.Results, p.of = p.call.Takes[:0], p.call.Results[:0], p.of[:0]
	s.parts.Put(p)
}

// add adds t as the take i of the whole call.
func (p *part) add(i int, t stint.Take) {
	p.call.Takes = append(p.call.Takes, t)
	p.of = append(p.of, i)
}

// decide sends the part to a store, and copies its answers into the results of the whole call. An
// error has the indexes of takes in the whole call.
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

// decidedHere reports whether a take undoes or settles the decision of a policy, which only this
// guard can do.
func decidedHere(t *stint.Take) bool {
	return t.Undo != nil && t.Undo.Degraded && (t.Op == stint.Refund || t.Op == stint.Settle)
}

// changesLocal reports whether a call changes the local store even if the store on the network
// answers.
func changesLocal(call *stint.Call) bool {
	for i := range call.Takes {
		if t := &call.Takes[i]; t.Op == stint.Reset || decidedHere(t) {
			return true
		}
	}
	return false
}

// divide decides a call of which some takes change the local store. It sends all others to the
// store first. If the store denies them, or cannot read a state, takes that are decided as one with
// them change nothing here either.
func (s *Store) divide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	at := timeOf(call)
	call.SizeResults()
	there, here := s.part(call), s.part(call)
	defer s.release(there)
	defer s.release(here)
	for i := range call.Takes {
		if t := &call.Takes[i]; decidedHere(t) {
			call.Results[i] = uncounted(at)
		} else {
			there.add(i, *t)
		}
	}
	storeErr := there.decide(ctx, guarded{s}, call, false)
	undecodable := transaction.Undecodable(storeErr)
	if storeErr != nil && undecodable == nil {
		return storeErr
	}
	s.addHere(here, call, undecodable)
	if transaction.Denied(&there.call) {
		here.peek()
	}
	if err := here.decide(ctx, s.options.Local, call, true); err != nil {
		return err
	}
	return storeErr
}

// addHere adds the takes for the local store, except those whose states cannot be read. A reset in
// the store resets the local key too.
func (s *Store) addHere(here *part, call *stint.Call, undecodable *stint.CorruptState) {
	for i := range call.Takes {
		t := &call.Takes[i]
		switch {
		case s.policy(t) != stint.Local || !transaction.Decided(call, undecodable, i):
		case decidedHere(t):
			here.add(i, localTake(t))
		case t.Op == stint.Reset:
			here.add(-1, localTake(t))
		}
	}
}

// guarded is the guarded store without the local one.
type guarded struct{ *Store }

// Decide implements stint.Store.
func (g guarded) Decide(ctx context.Context, call *stint.Call) error { return g.decideWhole(ctx, call) }
