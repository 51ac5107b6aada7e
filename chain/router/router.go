// Package router decides calls whose takes are coordinated in different ways, all or none.
package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Stores are those that takes go to, by their Coordination. Nil ones: their takes go to
// Asks.
type Stores struct {
	// Asks decides what is Strict or Leased. It must be given.
	Asks stint.Store

	// Strict decides calls of which every take is Strict. It and Asks must be the same in the end:
	// Asks with layers around that such calls have no use for.
	Strict stint.Store

	// Eventual and Gossip decide by themselves, in this process.
	Eventual, Gossip stint.Store
}

// Store is a stint.Store that puts each take to the store of its Coordination. It is safe
// for concurrent use and starts nothing; the zero Store is not usable, see New.
//
// A call of which all takes go to one store is handed on as it is: that costs a look at
// each take, and no memory. Takes that lean on others, and those, are decided by Asks,
// whatever they say.
//
// # Calls of several stores
//
// They are all or none all the same. The stores in this process are asked first and charge
// what passes; then the one that asks others. If that denies, or fails, what was charged
// before is given back. If one denies before that, the others are still asked, so that the
// call can say when all of it will pass, but charge nothing. What is forced, given back,
// settled or reset is done when all has passed.
//
// So no more ever passes than limits allow. Others may see units charged for the length of
// a call that are then given back, and be denied meanwhile. Takes that are Independent are decided
// by their own store, in the same step as its others.
//
// # Errors
//
// An error of one store is the error of the call. It wraps [stint.ErrUnknown] where
// something charged could not be given back, or cannot be. An answer that is Degraded
// counts like any other.
//
// Where a store cannot read some states (see [stint.CorruptState]) all that is not decided as one
// with these is decided all the same, and the error names the takes as the call does.
type Store struct {
	stores [steps]stint.Store
	strict stint.Store
	of     [stint.Gossip + 1]uint8 // the step of each Coordination
	works  sync.Pool               // *work
}

var _ stint.Store = (*Store)(nil)

// The steps of a call, in their order.
const (
	gossip = iota
	eventual
	asks
	steps
)

// New returns a store that divides calls among others.
func New(s Stores) *Store {
	j := &Store{stores: [steps]stint.Store{s.Gossip, s.Eventual, s.Asks}, strict: s.Strict}
	if s.Strict == nil {
		j.strict = s.Asks
	}
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

// Decide answers the call, see stint.Store.
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
	w := s.works.Get().(*work)
	defer s.release(w)
	w.divide(s, call)
	return w.decide(ctx, s)
}

// strict says whether every take of a call is.
func strict(call *stint.Call) bool {
	for i := range call.Takes {
		if call.Takes[i].Coordination != stint.Strict {
			return false
		}
	}
	return true
}

// check says what is wrong with a call of several stores: no store sees all of it.
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

// step returns the step in which a take is decided that nobody leans on.
func (s *Store) step(t *stint.Take) uint8 {
	if t.Borrows > 0 || int(t.Coordination) >= len(s.of) {
		return asks
	}
	return s.of[t.Coordination]
}

// work is a call of several stores on its way.
type work struct {
	whole  *stint.Call
	parts  [steps]part
	denied bool    // by some take that is not apart
	lost   bool    // the state of such a one cannot be read, so none of them is decided
	said   []error // about states that cannot be read
}

// part is what one store is asked.
type part struct {
	call        stint.Call
	of          []int               // which take of the whole each is
	undecodable *stint.CorruptState // what was not decided; nil: all was
	undone      bool                // nothing that is not apart is charged any more, but debts
}

func (s *Store) release(w *work) {
	w.whole, w.denied, w.lost, w.said = nil, false, false, nil
	for i := range w.parts {
		p := &w.parts[i]
		clear(p.call.Takes) // the keys are the caller's
		p.call.Takes, p.of, p.undecodable, p.undone = p.call.Takes[:0], p.of[:0], nil, false
	}
	s.works.Put(w)
}

// divide gives each take of a call to its store.
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

// decide asks one store after the other.
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
	if !w.denied && !w.lost {
		if err := w.finish(ctx, s, last); err != nil {
			return err
		}
	}
	return w.undecodable()
}

// conclude gives back what was charged before a step whose part does not pass.
func (w *work) conclude(ctx context.Context, s *Store, step int) error {
	p := &w.parts[step]
	switch {
	case w.lost:
	case p.lost():
		p.undone, w.lost = true, true
		if w.denied && w.owes(step) {
			return errOwes
		}
		return w.giveBack(ctx, s, step, charged{debts: true})
	case !w.denied && p.denies():
		p.undone, w.denied = true, true
		return w.giveBack(ctx, s, step, charged{})
	}
	return nil
}

// undecodable returns what was said of states that cannot be read; nil: nothing.
func (w *work) undecodable() error {
	if len(w.said) < 2 {
		return errors.Join(w.said...)
	}
	var takes []int
	for _, err := range w.said {
		takes = append(takes, transaction.Undecodable(err).Takes...)
	}
	return transaction.WithTakes(errors.Join(w.said...), takes)
}

// postpone makes a look of what can be done only when all has passed.
func (p *part) postpone() {
	for i := range p.call.Takes {
		if t := &p.call.Takes[i]; t.Op != stint.Ask && !t.Independent {
			transaction.Peek(t)
		}
	}
}

// bar denies every call that it is part of, and its key is never written.
var bar = stint.Take{Key: "join", Limit: stint.MustLimit(stint.Spec{Per: time.Second}), Cost: 1, OnFailure: stint.Deny}

// ask asks a store, so that it charges nothing where the call is denied already, or not decided.
func (p *part) ask(ctx context.Context, by stint.Store, w *work) error {
	p.call.At = w.whole.At
	switch {
	case w.lost:
		p.look()
	case w.denied:
		p.bar()
		p.undone = true
	}
	err := by.Decide(ctx, &p.call)
	if p.undecodable = transaction.Undecodable(err); p.undecodable != nil {
		w.said = append(w.said, transaction.Renumber(err, p.of))
	} else if err != nil {
		return err
	}
	for n, i := range p.of {
		if transaction.Decided(&p.call, p.undecodable, n) {
			w.whole.Results[i] = p.call.Results[n]
		}
	}
	return nil
}

// look makes looks of all that is not apart.
func (p *part) look() {
	for i := range p.call.Takes {
		if t := &p.call.Takes[i]; !t.Independent {
			transaction.Peek(t)
		}
	}
}

// lost says whether what is not apart was not decided.
func (p *part) lost() bool {
	for i := range p.call.Takes {
		if !p.call.Takes[i].Independent && !transaction.Decided(&p.call, p.undecodable, i) {
			return true
		}
	}
	return false
}

// bar adds a take that denies all that is not apart, on the same server.
func (p *part) bar() {
	for i := range p.call.Takes {
		if t := &p.call.Takes[i]; !t.Independent {
			b := bar
			if b.Place = t.Place; b.Place == "" {
				b.Place = t.Key
			}
			p.call.Takes = append(p.call.Takes, b)
			return
		}
	}
}

// denies says whether the part denies the call. What others lean on denies nobody.
func (p *part) denies() bool {
	for i := 0; i < len(p.of); i++ {
		t := &p.call.Takes[i]
		if !t.Independent && !p.call.Results[i].Allowed {
			return true
		}
		i += int(t.Borrows)
	}
	return false
}
