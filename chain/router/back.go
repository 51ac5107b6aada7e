package router

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// giveBack gives back what the stores of earlier steps charged: the charges that which selects, nil
// for all.
func (w *work) giveBack(ctx context.Context, s *Store, before int, which func(transaction.Charged) bool) error {
	for ; w.added < before; w.added++ {
		p := &w.parts[w.added]
		w.charged.Add(w.added, &p.call, p.undecodable)
	}
	back := w.charged.Refunds(which)
	if len(back) == 0 {
		return nil
	}
	var errs []error
	for i := range before {
		w.refunds.At, w.refunds.Takes = w.whole.At, w.refunds.Takes[:0]
		for _, c := range back {
			if c.On == i {
				w.refunds.Takes = append(w.refunds.Takes, transaction.Refund(*c.Take, c.Cost, c.By))
			}
		}
		if len(w.refunds.Takes) > 0 {
			errs = append(errs, w.parts[i].giveBack(ctx, s.stores[i], &w.refunds, w.whole))
		}
	}
	return errors.Join(errs...)
}

// giveBack executes a call of refunds, and shows the new states in the results of the whole call.
func (p *part) giveBack(ctx context.Context, by stint.Store, back, whole *stint.Call) error {
	ctx, cancel := transaction.UndoContext(ctx)
	defer cancel()
	if err := by.Decide(ctx, back); err != nil {
		return transaction.WithoutTakes(err)
	}
	for n := range back.Takes {
		for i, of := range p.of {
			if t := &p.call.Takes[i]; !t.Independent && transaction.IDOf(t) == transaction.IDOf(&back.Takes[n]) {
				whole.Results[of] = back.Results[n]
			}
		}
	}
	return nil
}

// joined reports whether a charge is part of the all-or-none of the call.
func joined(c transaction.Charged) bool { return !c.Take.Independent }

// freed reports whether a charge is given back if the call is denied.
func freed(c transaction.Charged) bool { return joined(c) && !debt(c.Take) }

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
	if failed := w.giveBack(ctx, s, at, nil); failed != nil || w.charged.Lasting {
		return unknown(err)
	}
	return err
}

// unknown wraps the error of a call that left something charged.
func unknown(err error) error { return fmt.Errorf("router: %w: %w", stint.ErrUnknown, err) }

// trim gives back what AskAtMost takes of earlier stores were charged above that of the last one.
func (w *work) trim(ctx context.Context, s *Store) error {
	own := func(t *stint.Take) (stint.Take, bool) { return *t, true }
	for i := range w.parts {
		p := &w.parts[i]
		if w.units == 0 || len(p.of) == 0 {
			continue
		}
		if err := transaction.Trim(ctx, s.stores[i], &p.call, w.units, own); err != nil {
			return unknown(err)
		}
		for n, of := range p.of {
			if p.call.Takes[n].Op == stint.AskAtMost {
				w.whole.Results[of] = p.call.Results[n]
			}
		}
	}
	transaction.SetCharged(w.whole, w.units)
	return nil
}

// finish does the postponed takes, after all takes have passed.
func (w *work) finish(ctx context.Context, s *Store, last int) error {
	for i := range last {
		p := &w.parts[i]
		var late stint.Call
		var of []int
		for _, n := range p.of {
			if t := &w.whole.Takes[n]; !t.Op.Asks() && !t.Independent {
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
