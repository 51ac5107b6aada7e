package servers

import (
	"context"
	"slices"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// work is a call whose keys lie on several servers.
type work struct {
	store           *Store
	call            *stint.Call
	charged         transaction.Charges // by server, given back if the call fails
	undecodable     []int               // indexes of takes whose states cannot be read
	undecodableErrs []error             // errors about these
}

// ask is the call to one server in one step.
type ask struct {
	server      int
	call        stint.Call
	of          []int // index of what each take belongs to: a take of the whole call, or a step
	err         error
	undecodable *stint.CorruptState // the takes that were not decided; nil: all were, or it is unknown
}

// scatter decides a call whose keys lie on several servers, or on none.
func (s *Store) scatter(ctx context.Context, call *stint.Call) error {
	w := &work{store: s, call: call}
	groups, err := w.gather()
	if err != nil {
		return err
	}
	var alone []*group // groups whose keys lie on one server each
	for _, g := range groups {
		if _, several := s.placeOf(g); !several {
			alone = append(alone, g)
			continue
		}
		// In this order, as groups may have the same keys.
		if err = w.decideOnOne(ctx, alone); err == nil {
			err = w.spread(ctx, g)
		}
		if alone = alone[:0]; err != nil {
			break
		}
	}
	if err == nil {
		err = w.decideOnOne(ctx, alone)
	}
	if err == nil {
		return w.undecodableErr()
	}
	failed := w.giveBack(ctx)
	if failed == nil && w.charged.Lasting {
		failed = stint.ErrUnknown
	}
	return joinErrors(err, failed)
}

// time returns the time of decisions without a server.
func (w *work) time() stint.Instant {
	if w.call.At != 0 {
		return w.call.At
	}
	return stint.At(time.Now())
}

// gather plans the groups of the call.
func (w *work) gather() (groups []*group, err error) {
	for take := range transaction.Groups(w.call) {
		g := &group{Name: transaction.IDOf}
		if err := g.Collect(w.call, take); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// placeOf is place for the takes of a group.
func (s *Store) placeOf(g *group) (server int, several bool) {
	return s.place(len(g.Parts), func(i int) *stint.Take { return g.Parts[i].Take })
}

// undecodableErr returns the error about states that cannot be read, nil if there are none.
func (w *work) undecodableErr() error {
	if len(w.undecodable) == 0 {
		return nil
	}
	return transaction.WithTakes(joinErrors(w.undecodableErrs...), w.undecodable)
}

// decideOnOne decides groups whose keys lie on one server each, by one call to each server.
func (w *work) decideOnOne(ctx context.Context, groups []*group) error {
	var asks asks
	for _, g := range groups {
		server, _ := w.store.placeOf(g)
		if server == nowhere {
			g.DecideUnlimited(w.time())
			g.Answer(w.call)
			continue
		}
		for i := range g.Takes() {
			asks.add(server, i, w.call.Takes[i])
		}
	}
	err := w.send(ctx, asks)
	for _, a := range asks {
		if a.err != nil && a.undecodable == nil {
			continue
		}
		for n, i := range a.of {
			if transaction.Decided(&a.call, a.undecodable, n) {
				w.call.Results[i] = a.call.Results[n]
			}
		}
		w.charged.Add(a.server, &a.call, a.undecodable)
		w.addUndecodable(a, func(n int) []int { return a.of[n : n+1] })
	}
	return err
}

// addUndecodable adds the takes whose states a server could not read. of returns the indexes in the
// call for the nth take of a.
func (w *work) addUndecodable(a *ask, of func(n int) []int) {
	if a.undecodable == nil {
		return
	}
	w.undecodableErrs = append(w.undecodableErrs, a.err)
	for _, n := range a.undecodable.Takes {
		w.undecodable = append(w.undecodable, of(n)...)
	}
}

// asks are the calls to servers in one step.
type asks []*ask

// add adds a take to the call to a server. about is its ask.of.
func (l *asks) add(server, about int, t stint.Take) {
	at := slices.IndexFunc(*l, func(a *ask) bool { return a.server == server })
	if at < 0 {
		at = len(*l)
		*l = append(*l, &ask{server: server})
	}
	a := (*l)[at]
	a.call.Takes = append(a.call.Takes, t)
	a.of = append(a.of, about)
}

// send sends the calls to all servers at once. It does not return errors about states that cannot
// be read: they are in each ask.
func (w *work) send(ctx context.Context, all asks) error {
	one := func(a *ask) {
		a.call.At = w.call.At
		a.err = w.store.withName(a.server, w.store.servers[a.server].Store.Decide(ctx, &a.call))
	}
	var others sync.WaitGroup
	for i, a := range all {
		if i+1 < len(all) {
			others.Go(func() { one(a) })
			continue
		}
		one(a)
	}
	others.Wait()
	errs := make([]error, 0, len(all))
	for _, a := range all {
		if a.undecodable = transaction.Undecodable(a.err); a.undecodable == nil {
			errs = append(errs, transaction.WithoutTakes(a.err))
		}
	}
	return joinErrors(errs...)
}

// giveBack undoes all that the call charged. If the caller has stopped waiting it goes on in the
// background, and the error is ErrUnknown.
func (w *work) giveBack(ctx context.Context) error {
	back := w.charged.Refunds(nil)
	if len(back) == 0 {
		return nil
	}
	undo := func(ctx context.Context) error { return w.undo(ctx, back) }
	later, err := transaction.Revert(ctx, undo, func() (func(context.Context) error, *transaction.Background) {
		for i := range back {
			back[i].Take = new(back[i].Take.Clone())
		}
		own := &work{store: w.store, call: &stint.Call{At: w.call.At}}
		return func(ctx context.Context) error { return own.undo(ctx, back) }, &w.store.background
	})
	switch {
	case later:
		return stint.ErrUnknown
	case err != nil:
		return joinErrors(err, stint.ErrUnknown)
	}
	return nil
}

// undo gives back charges, all servers at once.
func (w *work) undo(ctx context.Context, back []transaction.Charged) error {
	var asks asks
	for i, c := range back {
		asks.add(c.On, i, transaction.Refund(*c.Take, c.Cost, c.By))
	}
	if err := w.send(ctx, asks); err != nil {
		return err
	}
	for _, a := range asks {
		if a.undecodable != nil {
			return transaction.WithoutTakes(a.err)
		}
	}
	return nil
}
