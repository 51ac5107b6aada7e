package router

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// charged selects which charged takes of a part are given back, beside the ordinary ones.
type charged struct {
	apart bool // also Independent takes
	debts bool // also takes that are charged although the call is denied
}

// giveBack gives back what the stores of earlier steps charged.
func (w *work) giveBack(ctx context.Context, s *Store, before int, what charged) error {
	var errs []error
	for i := range before {
		errs = append(errs, w.parts[i].giveBack(ctx, s.stores[i], w.whole, what))
	}
	return errors.Join(errs...)
}

// errOwes is the error of a denied call that left debts before the state of another key turned out
// to be unreadable.
var errOwes = errors.New("a denied take left a debt, and the state of another key cannot be read")

// owes reports whether earlier steps charged anything that stays charged when the call is denied.
func (w *work) owes(before int) bool {
	return slices.ContainsFunc(w.parts[:before], func(p part) bool {
		for i := range p.of {
			if t := &p.call.Takes[i]; !t.Independent && debt(t) {
				return true
			}
		}
		return false
	})
}

// debt reports whether a take is charged even if the call is denied.
func debt(t *stint.Take) bool {
	return t.Op == stint.Ask && t.Cost > 0 && t.Limit.ForStores().Overdraws()
}

// fail gives back what earlier steps charged after the store of a step failed, and returns the
// error of the call.
func (w *work) fail(ctx context.Context, s *Store, at int, err error) error {
	lasting := false
	for i := range at {
		p := &w.parts[i]
		failed := p.giveBack(ctx, s.stores[i], w.whole, charged{apart: true, debts: true})
		lasting = lasting || failed != nil || p.lasts()
	}
	if lasting {
		return unknown(err)
	}
	return err
}

// unknown wraps the error of a call that left something charged.
func unknown(err error) error { return fmt.Errorf("router: %w: %w", stint.ErrUnknown, err) }

// lasts reports whether the part has done something that cannot be undone.
func (p *part) lasts() bool {
	for i := range p.of {
		t := &p.call.Takes[i]
		if !transaction.Decided(&p.call, p.undecodable, i) {
			continue
		}
		if t.Op != stint.Ask || debt(t) && (!p.call.Results[i].Allowed || p.undone && !t.Independent) {
			return true
		}
	}
	return false
}

// bucket identifies the bucket that several takes of a part charge together.
type bucket struct {
	key       stint.Key
	algorithm stint.Algorithm
	apart     bool
}

// charged reports whether a take was charged and what selects it.
func (p *part) charged(i int, what charged) bool {
	t := &p.call.Takes[i]
	if t.Op != stint.Ask || t.Cost == 0 || t.Limit.Algorithm() == stint.Unlimited || !transaction.Decided(&p.call, p.undecodable, i) {
		return false
	}
	if t.Independent {
		return what.apart && p.call.Results[i].Allowed
	}
	return !p.undone && !p.denies() && (what.debts || !debt(t))
}

// giveBack gives back what the part charged. It gives back the takes of one key together, as they
// were charged.
func (p *part) giveBack(ctx context.Context, by stint.Store, whole *stint.Call, what charged) error {
	if len(p.of) == 0 {
		return nil
	}
	back, of := stint.Call{At: whole.At}, map[bucket]int{} // index in back.Takes of each bucket
	key := func(i int) bucket {
		t := &p.call.Takes[i]
		return bucket{t.Key, t.Limit.Algorithm(), t.Independent}
	}
	for i := range p.of {
		if !p.charged(i, what) {
			continue
		}
		n, known := of[key(i)]
		if !known {
			n = len(back.Takes)
			t := p.call.Takes[i]
			t.Op, t.Cost, t.Undo, t.Independent = stint.Refund, 0, &p.call.Results[i], true
			back.Takes = append(back.Takes, t)
			of[key(i)] = n
		}
		t := &back.Takes[n]
		t.Cost = uint32(min(uint64(t.Cost)+uint64(p.call.Takes[i].Cost), stint.MaxCost))
	}
	if len(back.Takes) == 0 {
		p.undone = true
		return nil
	}
	ctx, cancel := transaction.UndoContext(ctx)
	defer cancel()
	if err := by.Decide(ctx, &back); err != nil {
		return transaction.WithoutTakes(err)
	}
	for i := range p.of {
		if n, known := of[key(i)]; known && (p.charged(i, what) || p.call.Takes[i].Cost == 0) {
			whole.Results[p.of[i]] = back.Results[n]
		}
	}
	p.undone = true
	return nil
}

// finish does the postponed takes, after all takes have passed.
func (w *work) finish(ctx context.Context, s *Store, last int) error {
	for i := range last {
		p := &w.parts[i]
		var late stint.Call
		var of []int
		for _, n := range p.of {
			if t := &w.whole.Takes[n]; t.Op != stint.Ask && !t.Independent {
				late.Takes, of = append(late.Takes, *t), append(of, n)
			}
		}
		if len(of) == 0 {
			continue
		}
		late.At = w.whole.At
		if err := s.stores[i].Decide(ctx, &late); err != nil {
			return unknown(transaction.WithoutTakes(err))
		}
		for n, at := range of {
			w.whole.Results[at] = late.Results[n]
		}
	}
	return nil
}
