// Package router decides calls whose takes are coordinated in different ways, all or none.
package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Stores are the stores for takes, by their Coordination. The takes of a nil store go to Asks.
type Stores struct {
	// Asks decides Strict and Leased takes. It is required.
	Asks stint.Store

	// Strict decides calls whose takes are all Strict. It must use the same states as Asks: Asks
	// may have more layers, which such calls do not need.
	Strict stint.Store

	// Eventual and Gossip decide in this process, without a network.
	Eventual, Gossip stint.Store
}

// Store is a stint.Store that sends each take to the store of its Coordination. It is safe for
// concurrent use and starts no goroutine; the zero Store is not usable, see New.
//
// If all takes of a call go to one store, the router passes the call on unchanged. That costs a
// look at each take and allocates nothing. A take that borrows, and the takes it borrows from,
// always go to Asks.
//
// # Calls of several stores
//
// Such a call is all or none too. The router first sends takes to the stores of this process, which
// charge what passes, and then to Asks. If Asks denies or fails, the router gives back what was
// charged before. If an earlier store denies, the router still sends takes to the later ones, so
// that the call can answer when all of it will pass; these then charge nothing. Takes that force,
// refund, settle or reset are done last, when everything has passed.
//
// So never more passes than the limits allow. While a call is decided, other callers may see units
// charged that are given back later, and may be denied for that. Independent takes are decided by
// their own store, in the same step as its other takes.
//
// An AskAtMost asks each store for no more than the stores before have charged. When all have
// passed, those that charged more than the last one get the rest back.
//
// # Errors
//
// The error of a store is the error of the call. It wraps [stint.ErrUnknown] if something was
// charged and could not be given back. A Degraded answer counts like any other.
//
// If a store cannot read some states (see [stint.CorruptState]), all takes that are not decided
// together with these are still decided. The error has the indexes of the takes in the call.
type Store struct {
	stores [steps]stint.Store
	strict stint.Store
	of     [stint.Gossip + 1]uint8 // step of each Coordination
	works  sync.Pool               // of *work
}

var _ stint.Store = (*Store)(nil)

// The steps of a call, in this order.
const (
	gossip = iota
	eventual
	asks
	steps
)

// New returns a store that sends the takes of a call to other stores.
func New(s Stores) *Store {
	j := &Store{stores: [steps]stint.Store{s.Gossip, s.Eventual, s.Asks}, strict: cmp.Or(s.Strict, s.Asks)}
	j.of = [...]uint8{stint.Strict: asks, stint.Leased: asks, stint.Eventual: asks, stint.Gossip: asks}
	if s.Gossip != nil {
		j.of[stint.Gossip] = gossip
	}
	if s.Eventual != nil {
		j.of[stint.Eventual] = eventual
	}
	j.works.New = func() any { return new(work) }
	return j
}

// Decide decides the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if strict(call) {
		return s.strict.Decide(ctx, call)
	}
	first, several := uint8(asks), false
	for i := 0; i < len(call.Takes); i++ {
		at := s.step(&call.Takes[i])
		several = several || i > 0 && at != first
		first = at
		i += int(call.Takes[i].Borrows)
	}
	if !several {
		return s.stores[first].Decide(ctx, call)
	}
	if err := check(call); err != nil {
		return err
	}
	if transaction.Depends(call) {
		return transaction.Apart(ctx, call, s.Decide)
	}
	w := s.works.Get().(*work)
	defer s.release(w)
	w.divide(s, call)
	return w.decide(ctx, s)
}

// strict reports whether all takes of a call are Strict.
func strict(call *stint.Call) bool {
	for i := range call.Takes {
		if call.Takes[i].Coordination() != stint.Strict {
			return false
		}
	}
	return true
}

// check returns an error for a call that no store may decide. If a call goes to several stores,
// none of them has all takes, so none can check it.
func check(call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	for i := range call.Takes {
		t := &call.Takes[i]
		for j := range i {
			o := &call.Takes[j]
			same := !t.Independent && !o.Independent && transaction.IDOf(t) == transaction.IDOf(o)
			if same && !transaction.MayJoin(t, o) {
				return fmt.Errorf("take %d: %w", i, stint.ErrMixedLimits)
			}
		}
	}
	return nil
}

// step returns the step of a take. The take is not a source: sources go with the take that borrows
// from them.
func (s *Store) step(t *stint.Take) uint8 {
	if t.Borrows > 0 || int(t.Coordination()) >= len(s.of) {
		return asks
	}
	return s.of[t.Coordination()]
}

// work is the state of a call for several stores while it is decided.
type work struct {
	whole  *stint.Call
	parts  [steps]part
	denied bool    // a take that is not Independent was denied
	units  uint32  // what the stores so far have charged AskAtMost takes; 0: none has
	lost   bool    // the state of such a take cannot be read, so none of them is decided
	errs   []error // errors about states that cannot be read

	charged transaction.Charges // by step, of all steps before added
	added   int                 // 0 until something must be given back
	refunds stint.Call          // to one store
}

// part is the call to one store.
type part struct {
	call        stint.Call
	of          []int               // index of each take in the whole call
	undecodable *stint.CorruptState // the takes that were not decided; nil if all were
}

func (s *Store) release(w *work) {
	w.whole, w.denied, w.units, w.lost, w.errs, w.added = nil, false, 0, false, nil, 0
	clear(w.charged.List)
	clear(w.refunds.Takes)
	w.charged = transaction.Charges{List: w.charged.List[:0]}
	for i := range w.parts {
		p := &w.parts[i]
		clear(p.call.Takes) // release the caller's keys
		p.call.Takes, p.of, p.undecodable = p.call.Takes[:0], p.of[:0], nil
	}
	s.works.Put(w)
}

// divide adds each take of a call to the part of its store.
func (w *work) divide(s *Store, call *stint.Call) {
	w.whole = call
	call.SizeResults()
	for i := 0; i < len(call.Takes); i++ {
		p := &w.parts[s.step(&call.Takes[i])]
		for last := i + int(call.Takes[i].Borrows); ; i++ {
			p.call.Takes, p.of = append(p.call.Takes, call.Takes[i]), append(p.of, i)
			if i == last {
				break
			}
		}
	}
}

// decide sends the parts to their stores, one after the other.
func (w *work) decide(ctx context.Context, s *Store) error {
	last := 0
	for i := range w.parts {
		if len(w.parts[i].of) > 0 {
			last = i
		}
	}
	for i := range w.parts {
		p := &w.parts[i]
		if len(p.of) == 0 {
			continue
		}
		if i < last {
			p.postpone()
		}
		if err := p.ask(ctx, s.stores[i], w); err != nil {
			return w.fail(ctx, s, i, transaction.WithoutTakes(err))
		}
		if err := w.conclude(ctx, s, i); err != nil {
			return unknown(err)
		}
	}
	if w.denied {
		transaction.SetCharged(w.whole, 0)
	}
	if !w.denied && !w.lost {
		if err := w.trim(ctx, s); err != nil {
			return err
		}
		if err := w.finish(ctx, s, last); err != nil {
			return err
		}
	}
	return w.undecodable()
}

// conclude gives back what earlier steps charged if the part of this step does not pass.
func (w *work) conclude(ctx context.Context, s *Store, step int) error {
	p := &w.parts[step]
	switch {
	case w.lost:
	case p.lost():
		w.lost = true
		if w.denied && w.owes(step) {
			return errOwes
		}
		return w.giveBack(ctx, s, step, joined)
	case !w.denied && transaction.Denied(&p.call):
		w.denied = true
		return w.giveBack(ctx, s, step, freed)
	}
	return nil
}

// undecodable returns the error about all states that could not be read, or nil.
func (w *work) undecodable() error {
	if len(w.errs) < 2 {
		return errors.Join(w.errs...)
	}
	var takes []int
	for _, err := range w.errs {
		takes = append(takes, transaction.Undecodable(err).Takes...)
	}
	return transaction.WithTakes(errors.Join(w.errs...), takes)
}

// postpone turns takes that change something only after all have passed into peeks.
func (p *part) postpone() {
	for i := range p.call.Takes {
		if t := &p.call.Takes[i]; !t.Op.Asks() && !t.Independent {
			transaction.Peek(t)
		}
	}
}

// denyingTake is a take that is always denied. It makes a call fail as a whole; its key is never
// written.
var denyingTake = stint.Take{Key: "join", Limit: stint.MustLimit(stint.Spec{Per: time.Second}), Cost: 1}

// ask sends the part to its store. If the call is already denied or cannot be decided, the store
// charges nothing.
func (p *part) ask(ctx context.Context, by stint.Store, w *work) error {
	p.call.At = w.whole.At
	switch {
	case w.lost:
		p.peek()
	case w.denied:
		p.deny()
	case w.units > 0:
		transaction.BoundAtMost(&p.call, w.units)
	}
	err := by.Decide(ctx, &p.call)
	if p.undecodable = transaction.Undecodable(err); p.undecodable != nil {
		w.errs = append(w.errs, transaction.Renumber(err, p.of))
	} else if err != nil {
		return err
	}
	for n, i := range p.of {
		if transaction.Decided(&p.call, p.undecodable, n) {
			w.whole.Results[i] = p.call.Results[n]
		}
	}
	if units := transaction.ChargedAtMost(&p.call); units > 0 && !p.lost() {
		w.units = units
	}
	return nil
}

// peek turns all takes that are not Independent into peeks.
func (p *part) peek() {
	for i := range p.call.Takes {
		if t := &p.call.Takes[i]; !t.Independent {
			transaction.Peek(t)
		}
	}
}

// lost reports whether a take that is not Independent could not be decided.
func (p *part) lost() bool {
	for i := range p.call.Takes {
		if !p.call.Takes[i].Independent && !transaction.Decided(&p.call, p.undecodable, i) {
			return true
		}
	}
	return false
}

// deny adds a take that denies all takes that are not Independent, on the same server as the first
// of them.
func (p *part) deny() {
	for i := range p.call.Takes {
		if t := &p.call.Takes[i]; !t.Independent {
			d := denyingTake
			d.Handling = &stint.Handling{Place: t.Place(), OnFailure: stint.Deny}
			p.call.Takes = append(p.call.Takes, d)
			return
		}
	}
}
