package servers

import (
	"context"
	"slices"
	"sync"

	"stint"
	"stint/internal/transaction"
)

// work is a call whose keys lie on several servers.
type work struct {
	store       *Store
	call        *stint.Call
	charged     []charge // so far, to be given back if the call fails
	lasting     bool     // something was done that cannot be given back
	undecodable []int    // takes whose states cannot be read
	said        []error  // of these
}

// charge is what was taken from a key.
type charge struct {
	server int
	take   stint.Take
	cost   uint64
	by     stint.Decision
}

// ask is what one server is asked in one step.
type ask struct {
	server      int
	call        stint.Call
	of          []int // what each take is about
	err         error
	undecodable *stint.CorruptState // what was not decided; nil: all was, or nobody can tell
}

// scatter decides a call whose keys lie on several servers, or on none.
func (s *Store) scatter(ctx context.Context, call *stint.Call) error {
	w := &work{store: s, call: call}
	groups, err := w.gather()
	if err != nil {
		return err
	}
	var alone []*group // that lie on one server each
	for _, g := range groups {
		if _, several := s.placeOf(g); !several {
			alone = append(alone, g)
			continue
		}
		// In this order, as groups may be about the same keys.
		if err = w.whole(ctx, alone); err == nil {
			err = w.spread(ctx, g)
		}
		if alone = alone[:0]; err != nil {
			break
		}
	}
	if err == nil {
		err = w.whole(ctx, alone)
	}
	if err == nil {
		return w.without()
	}
	failed := w.giveBack(ctx)
	if failed == nil && w.lasting {
		failed = stint.ErrUnknown
	}
	return together(err, failed)
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

// placeOf is place of the takes of a group.
func (s *Store) placeOf(g *group) (server int, several bool) {
	return s.place(len(g.Parts), func(i int) *stint.Take { return g.Parts[i].Take })
}

// without returns the error about states that cannot be read, nil where there are none.
func (w *work) without() error {
	if len(w.undecodable) == 0 {
		return nil
	}
	return transaction.WithTakes(together(w.said...), w.undecodable)
}

// whole decides groups that lie on one server each, as those decide.
func (w *work) whole(ctx context.Context, groups []*group) error {
	var asks asks
	for _, g := range groups {
		server, _ := w.store.placeOf(g)
		for i := range g.Takes() {
			if server == nowhere {
				w.call.Results[i] = unlimited(&w.call.Takes[i], w.call.At)
				continue
			}
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
		w.note(a)
		w.miss(a, func(n int) []int { return a.of[n : n+1] })
	}
	return err
}

// miss notes which takes of the call a server could not read the states of: those that each
// take it was asked stands for.
func (w *work) miss(a *ask, of func(n int) []int) {
	if a.undecodable == nil {
		return
	}
	w.said = append(w.said, a.err)
	for _, n := range a.undecodable.Takes {
		w.undecodable = append(w.undecodable, of(n)...)
	}
}

// asks are what servers are asked in one step.
type asks []*ask

// add adds a take about something to what a server is asked.
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

// send puts to all servers what they are asked, at once. Its error is not about states that
// cannot be read: each ask says that itself.
func (w *work) send(ctx context.Context, all asks) error {
	one := func(a *ask) {
		a.call.At = w.call.At
		a.err = w.store.said(a.server, w.store.servers[a.server].Store.Decide(ctx, &a.call))
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
	return together(errs...)
}

// note notes what a server charged that decided by itself what passes.
func (w *work) note(a *ask) {
	takes, results := a.call.Takes, a.call.Results
	decided := func(i int) bool { return transaction.Decided(&a.call, a.undecodable, i) }
	whole := true
	for i := 0; i < len(takes); i += 1 + int(takes[i].Borrows) {
		whole = whole && (takes[i].Independent || decided(i) && results[i].Allowed)
	}
	for i := 0; i < len(takes); i++ {
		leads, passed := i, whole
		if takes[i].Independent {
			passed = results[i].Allowed
		}
		for end := leads + int(takes[leads].Borrows); ; i++ {
			if decided(i) {
				w.noteOne(a.server, &takes[i], &results[i], passed)
			}
			if i == end {
				break
			}
		}
	}
}

// noteOne notes what one take charged, if its group passed.
func (w *work) noteOne(server int, t *stint.Take, d *stint.Decision, passed bool) {
	switch {
	case t.Limit.Algorithm() == stint.Unlimited:
	case t.Op != stint.Ask:
		w.lasting = w.lasting || passed
	case t.Cost == 0:
	case passed && !d.Over: // what is over was charged elsewhere, or not in full
		w.charged = append(w.charged, charge{server, *t, uint64(t.Cost), *d})
	case !passed:
		w.lasting = w.lasting || t.Limit.ForStores().Overdraws()
	}
}

// giveBack undoes all that the call charged. Where the caller waits no longer it goes on behind its
// back, and it is unknown.
func (w *work) giveBack(ctx context.Context) error {
	if len(w.charged) == 0 {
		return nil
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), transaction.UndoTimeout)
	if ctx.Err() != nil {
		back := &work{store: w.store, call: &stint.Call{At: w.call.At}, charged: slices.Clone(w.charged)}
		for i := range back.charged {
			back.charged[i].take = back.charged[i].take.Clone()
		}
		w.store.behind.Go(func() {
			defer cancel()
			_ = back.undo(own) // the caller has been told that it is unknown
		})
		return stint.ErrUnknown
	}
	defer cancel()
	if err := w.undo(own); err != nil {
		return together(err, stint.ErrUnknown)
	}
	return nil
}

// undo gives back what the call charged, the newest first, what one decision charged as one.
func (w *work) undo(ctx context.Context) error {
	type taken struct {
		id transaction.ID
		by stint.Decision
	}
	of := func(c *charge) taken { return taken{transaction.IDOf(&c.take), c.by} }
	costs := map[taken]uint64{}
	for i := range w.charged {
		costs[of(&w.charged[i])] += w.charged[i].cost
	}
	var asks asks
	for i := len(w.charged) - 1; i >= 0; i-- {
		c := &w.charged[i]
		if cost, first := costs[of(c)]; first {
			delete(costs, of(c))
			asks.add(c.server, i, refund(c.take, cost, &c.by))
		}
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
