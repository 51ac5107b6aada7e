package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
)

// backTimeout is how long it may take to give back what a call charged that is denied
// after all, also where the caller waits no longer.
const backTimeout = time.Second

// giveBack gives back what the stores before a step charged for takes that are not apart.
func (w *work) giveBack(ctx context.Context, s *Store, before int) error {
	var errs []error
	for i := range before {
		errs = append(errs, w.parts[i].giveBack(ctx, s.stores[i], w.whole, false))
	}
	return errors.Join(errs...)
}

// fail ends a call of which one store could not decide its part.
func (w *work) fail(ctx context.Context, s *Store, at int, err error) error {
	lasting := false
	for i := range at {
		p := &w.parts[i]
		failed := p.giveBack(ctx, s.stores[i], w.whole, true)
		lasting = lasting || failed != nil || p.lasts()
	}
	if lasting {
		return unknown(err)
	}
	return err
}

// unknown is an error of a call that charged something.
func unknown(err error) error { return fmt.Errorf("join: %w: %w", stint.ErrUnknown, err) }

// lasts says whether the part has done what cannot be undone.
func (p *part) lasts() bool {
	for i := range p.of {
		t := &p.call.Takes[i]
		if t.Op != stint.Ask || t.Cost > 0 && !p.call.Results[i].Allowed && t.Limit.Spec().Overdraw {
			return true
		}
	}
	return false
}

// bucket is what takes are charged to as one.
type bucket struct {
	key       stint.Key
	algorithm stint.Algorithm
	apart     bool
}

// giveBack gives back what the part charged: all of it, or what is not apart. Takes of one
// key are given back as one, as they were charged.
func (p *part) giveBack(ctx context.Context, by stint.Store, whole *stint.Call, all bool) error {
	if len(p.of) == 0 || !all && p.denies() {
		return nil
	}
	back, of := stint.Call{At: whole.At}, map[bucket]int{} // each take of back
	denied := p.denies()
	charged := func(i int) bool {
		t := &p.call.Takes[i]
		passed := !denied
		if t.Apart {
			passed = p.call.Results[i].Allowed
		}
		return passed && t.Op == stint.Ask && t.Cost > 0 && (all || !t.Apart) &&
			t.Limit.Algorithm() != stint.Unlimited && (all || !t.Limit.Spec().Overdraw)
	}
	key := func(i int) bucket {
		t := &p.call.Takes[i]
		return bucket{t.Key, t.Limit.Algorithm(), t.Apart}
	}
	for i := range p.of {
		if !charged(i) {
			continue
		}
		n, known := of[key(i)]
		if !known {
			n = len(back.Takes)
			t := p.call.Takes[i]
			t.Op, t.Cost, t.Undo, t.Apart = stint.Refund, 0, &p.call.Results[i], true
			back.Takes = append(back.Takes, t)
			of[key(i)] = n
		}
		t := &back.Takes[n]
		t.Cost = uint32(min(uint64(t.Cost)+uint64(p.call.Takes[i].Cost), stint.MaxCost))
	}
	if len(back.Takes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout)
	defer cancel()
	if err := by.Decide(ctx, &back); err != nil {
		return err
	}
	for i := range p.of {
		if n, known := of[key(i)]; known && (charged(i) || p.call.Takes[i].Cost == 0) {
			whole.Results[p.of[i]] = back.Results[n]
		}
	}
	return nil
}

// finish does what was postponed, now that all has passed.
func (w *work) finish(ctx context.Context, s *Store, last int) error {
	for i := range last {
		p := &w.parts[i]
		var late stint.Call
		var of []int
		for _, n := range p.of {
			if t := &w.whole.Takes[n]; t.Op != stint.Ask && !t.Apart {
				late.Takes, of = append(late.Takes, *t), append(of, n)
			}
		}
		if len(of) == 0 {
			continue
		}
		late.At = w.whole.At
		if err := s.stores[i].Decide(ctx, &late); err != nil {
			return unknown(err)
		}
		for n, at := range of {
			w.whole.Results[at] = late.Results[n]
		}
	}
	return nil
}
