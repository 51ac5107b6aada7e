package guard

import (
	"context"
	"errors"
	"slices"
	"time"

	"stint"
	"stint/internal/transaction"
)

// undecodable returns what an error says of states that cannot be read, nil if it is another.
func undecodable(err error) *stint.CorruptState {
	if said, ok := errors.AsType[*stint.CorruptState](err); ok && len(said.Takes) > 0 {
		return said
	}
	return nil
}

// without answers a call of which some takes cannot be decided by the store: those by their
// policies, and what is decided as one with them by the store, as a call without them. All others
// were decided already, or with all are too.
func (s *Store) without(ctx context.Context, call *stint.Call, takes []int, all bool, said error) error {
	bad, rest := s.part(call), s.part(call)
	defer s.release(bad)
	defer s.release(rest)
	call.SizeResults()
	separate(call, takes, all, bad, rest)
	if slices.ContainsFunc(bad.call.Takes, lacksPolicy) {
		return said
	}
	if err := bad.decide(ctx, policies{s, said}, call, true); err != nil {
		return err
	}
	denied := bad.denied()
	if denied {
		rest.look()
	}
	if err := rest.decide(ctx, guarded{s}, call, false); err != nil {
		if !denied {
			_ = s.giveBack(ctx, bad, call) // a store in memory cannot fail
		}
		return err
	}
	if !denied && rest.denied() {
		return s.giveBack(ctx, bad, call)
	}
	return nil
}

// policies answers by the policies of takes, as the store said this.
type policies struct {
	*Store
	said error
}

// Decide is part of stint.Store.
func (p policies) Decide(ctx context.Context, call *stint.Call) error {
	return p.fallBack(ctx, call, p.said)
}

// separate puts the takes of a call that were not decided, or all, into those that cannot be,
// with all they lean on, and the others. Who leans on such a one leans on nothing.
func separate(call *stint.Call, undecodable []int, all bool, bad, rest *part) {
	together := slices.ContainsFunc(undecodable, func(i int) bool { return !call.Takes[i].Independent })
	for i := 0; i < len(call.Takes); i++ {
		t, end := call.Takes[i], i+int(call.Takes[i].Borrows)
		leans := slices.ContainsFunc(undecodable, func(n int) bool { return i < n && n <= end })
		into := rest
		switch leads := slices.Contains(undecodable, i); {
		case !all && (t.Independent && !leads && !leans || !t.Independent && !together):
			i = end
			continue
		case leads:
			into = bad
		case leans:
			t.Borrows = 0
		}
		into.add(i, t)
		for i++; i <= end; i++ {
			if t.Borrows > 0 {
				into.add(i, call.Takes[i])
			} else {
				call.Results[i] = passing(present(call))
			}
		}
		i = end
	}
}

// present returns the time of a call.
func present(call *stint.Call) stint.Instant {
	if call.At != 0 {
		return call.At
	}
	return stint.At(time.Now())
}

// denied says whether a part denies the call that it is of.
func (p *part) denied() bool {
	for i := 0; i < len(p.call.Takes); i += 1 + int(p.call.Takes[i].Borrows) {
		if !p.call.Takes[i].Independent && !p.call.Results[i].Allowed {
			return true
		}
	}
	return false
}

// look makes looks of all that is decided as one, but for what is charged also where it is denied.
func (p *part) look() {
	for i := range p.call.Takes {
		look(&p.call.Takes[i])
	}
}

// look makes a look of a take of a call that is denied, unless it is apart or a debt.
func look(t *stint.Take) {
	if !t.Independent && !debited(t) {
		transaction.Peek(t)
	}
}

// debited says whether a take is charged also where it is denied.
func debited(t *stint.Take) bool { return t.Op == stint.Ask && t.Limit.ForStores().Overdraws() }

// giveBack undoes what the local store was charged with a part of a call that is denied, or fails.
func (s *Store) giveBack(ctx context.Context, charged *part, call *stint.Call) error {
	back := s.part(call)
	defer s.release(back)
	for n := 0; n < len(charged.of); n += 1 + int(charged.call.Takes[n].Borrows) {
		t := &charged.call.Takes[n]
		if s.policy(t) != stint.Local || t.Cost == 0 || t.Independent {
			continue
		}
		if undo := shared(t); !debited(&undo) {
			undo.Op, undo.Undo = stint.Refund, &charged.call.Results[n]
			back.add(charged.of[n], undo)
		}
	}
	return back.decide(ctx, s.options.Local, call, true)
}
