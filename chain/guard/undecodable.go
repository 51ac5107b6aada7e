package guard

import (
	"context"
	"errors"
	"slices"
	"time"

	"stint"
	"stint/internal/transaction"
)

// undecodable returns the CorruptState of an error, nil if it has none.
func undecodable(err error) *stint.CorruptState {
	if corrupt, ok := errors.AsType[*stint.CorruptState](err); ok && len(corrupt.Takes) > 0 {
		return corrupt
	}
	return nil
}

// decideWithout decides a call of which the store cannot decide some takes. Those follow their
// policies, and the store decides what is decided as one with them, as a call without them. All
// other takes were decided already; with all they were not, and the store decides them too.
func (s *Store) decideWithout(ctx context.Context, call *stint.Call, takes []int, all bool, storeErr error) error {
	defer untried(call)
	policyPart, rest := s.part(call), s.part(call)
	defer s.release(policyPart)
	defer s.release(rest)
	call.SizeResults()
	separate(call, takes, all, policyPart, rest)
	if slices.ContainsFunc(policyPart.call.Takes, lacksPolicy) {
		return storeErr
	}
	if err := policyPart.decide(ctx, policies{s, storeErr}, call, true); err != nil {
		return err
	}
	denied, units := transaction.Denied(&policyPart.call), transaction.ChargedAtMost(&policyPart.call)
	switch {
	case denied:
		rest.peek()
	case units > 0:
		transaction.BoundAtMost(&rest.call, units)
	}
	if err := rest.decide(ctx, guarded{s}, call, false); err != nil {
		if !denied {
			_ = s.giveBack(ctx, policyPart, call) // a store in memory cannot fail
		}
		return err
	}
	if !denied && transaction.Denied(&rest.call) {
		return s.giveBack(ctx, policyPart, call)
	}
	if kept := transaction.ChargedAtMost(&rest.call); !denied && kept > 0 {
		return s.trim(ctx, policyPart, call, kept)
	}
	return nil
}

// untried answers the candidates whose charge depends on other takes as if no store had decided them, as a
// policy decided some of these.
func untried(call *stint.Call) {
	for i := range call.Takes {
		if call.Takes[i].InsteadOf() > 0 && i < len(call.Results) {
			call.Results[i] = transaction.Untried(timeOf(call))
		}
	}
}

// trim is called for a call that passes. It gives back the units that the local store charged above
// those that the shared store charged.
func (s *Store) trim(ctx context.Context, charged *part, call *stint.Call, units uint32) error {
	local := func(t *stint.Take) (stint.Take, bool) { return localTake(t), s.policy(t) == stint.Local }
	if err := transaction.Trim(ctx, s.options.Local, &charged.call, units, local); err != nil {
		return err
	}
	for n, i := range charged.of {
		call.Results[i] = charged.call.Results[n]
	}
	transaction.SetCharged(call, units)
	return nil
}

// policies is a store that decides takes by their policies, because of storeErr.
type policies struct {
	*Store
	storeErr error
}

// Decide implements stint.Store.
func (p policies) Decide(ctx context.Context, call *stint.Call) error {
	return p.fallBack(ctx, call, p.storeErr)
}

// separate divides the takes of a call that were not decided, or all, into policyPart, those with
// an undecodable state and their sources, and rest. A take whose source is undecodable does not
// borrow.
func separate(call *stint.Call, undecodable []int, all bool, policyPart, rest *part) {
	together := slices.ContainsFunc(undecodable, func(i int) bool { return !call.Takes[i].Independent })
	for i := 0; i < len(call.Takes); i++ {
		t, end := call.Takes[i], i+int(call.Takes[i].Borrows)
		borrows := slices.ContainsFunc(undecodable, func(n int) bool { return i < n && n <= end })
		into := rest
		switch listed := slices.Contains(undecodable, i); {
		case !all && (t.Independent && !listed && !borrows || !t.Independent && !together):
			i = end
			continue
		case listed:
			into = policyPart
		case borrows:
			t.Borrows = 0
		}
		into.add(i, t)
		for i++; i <= end; i++ {
			if t.Borrows > 0 {
				into.add(i, call.Takes[i])
			} else {
				call.Results[i] = uncounted(timeOf(call))
			}
		}
		i = end
	}
}

// timeOf returns the time of a call.
func timeOf(call *stint.Call) stint.Instant {
	if call.At != 0 {
		return call.At
	}
	return stint.At(time.Now())
}

// peek turns all takes that are decided as one into peeks, except those that are charged even if
// denied.
func (p *part) peek() {
	for i := range p.call.Takes {
		peek(&p.call.Takes[i])
	}
}

// peek turns a take of a denied call into a peek, unless it is Independent or leaves a debt.
func peek(t *stint.Take) {
	if !t.Independent && !debited(t) {
		transaction.Peek(t)
	}
}

// debited reports whether a take is charged even if it is denied.
func debited(t *stint.Take) bool { return t.Op == stint.Ask && t.Limit.ForStores().Overdraws() }

// giveBack undoes what the local store charged for a part of a call that is denied, or fails.
func (s *Store) giveBack(ctx context.Context, charged *part, call *stint.Call) error {
	back := s.part(call)
	defer s.release(back)
	for n := 0; n < len(charged.of); n += 1 + int(charged.call.Takes[n].Borrows) {
		t, d := &charged.call.Takes[n], &charged.call.Results[n]
		if s.policy(t) != stint.Local || t.Cost == 0 || t.Independent {
			continue
		}
		if undo := localTake(t); !debited(&undo) {
			undo.Op, undo.Cost, undo.Undo = stint.Refund, t.Charged(d), d
			back.add(charged.of[n], undo)
		}
	}
	ctx, cancel := transaction.UndoContext(ctx)
	defer cancel()
	err := back.decide(ctx, s.options.Local, call, true)
	transaction.SetCharged(call, 0)
	return err
}
