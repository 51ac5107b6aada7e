package servers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// undoTimeout is how long it may take to give back what a call charged that is denied
// after all, also where the caller waits no longer.
const undoTimeout = time.Second

// work is a call whose keys lie on several servers.
type work struct {
	store   *Store
	call    *stint.Call
	charged []charge // so far, to be given back if the call fails
	lasting bool     // something was done that cannot be given back
	unread  []int    // takes whose states cannot be read
	said    []error  // of these
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
	server int
	call   stint.Call
	of     []int // what each take is about
	err    error
	unread *stint.CorruptState // what was not decided; nil: all was, or nobody can tell
}

// scatter decides a call whose keys lie on several servers, or on none.
func (s *Store) scatter(ctx context.Context, call *stint.Call) error {
	groups, err := s.gather(call.Takes)
	if err != nil {
		return err
	}
	w := &work{store: s, call: call}
	var alone []*group // that lie on one server each
	for _, g := range groups {
		if _, several := s.place(g.takes); !several {
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
	_, failed := w.giveBack(ctx, w.charged)
	if failed == nil && w.lasting {
		failed = stint.ErrUnknown
	}
	return together(err, failed)
}

// without returns the error about states that cannot be read, nil where there are none.
func (w *work) without() error {
	if len(w.unread) == 0 {
		return nil
	}
	return transaction.WithTakes(together(w.said...), w.unread)
}

// whole decides groups that lie on one server each, as those decide.
func (w *work) whole(ctx context.Context, groups []*group) error {
	var asks asks
	for _, g := range groups {
		server, _ := w.store.place(g.takes)
		for n, i := range g.of {
			if server == nowhere {
				w.call.Results[i] = unlimited(&g.takes[n], w.call.At)
				continue
			}
			asks.add(server, i, g.takes[n])
		}
	}
	err := w.send(ctx, asks)
	for _, a := range asks {
		if a.err != nil && a.unread == nil {
			continue
		}
		for n, i := range a.of {
			if transaction.Decided(&a.call, a.unread, n) {
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
	if a.unread == nil {
		return
	}
	w.said = append(w.said, a.err)
	for _, n := range a.unread.Takes {
		w.unread = append(w.unread, of(n)...)
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
		if a.unread = transaction.Undecodable(a.err); a.unread == nil {
			errs = append(errs, transaction.WithoutTakes(a.err))
		}
	}
	return together(errs...)
}

// note notes what a server charged that decided by itself what passes.
func (w *work) note(a *ask) {
	takes, results := a.call.Takes, a.call.Results
	decided := func(i int) bool { return transaction.Decided(&a.call, a.unread, i) }
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
		w.lasting = w.lasting || t.Limit.Spec().Overdraw
	}
}

// giveBack undoes charges, and returns how their keys are then. Where the caller waits no
// longer it goes on behind its back, and it is unknown.
func (w *work) giveBack(ctx context.Context, charges []charge) ([]stint.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	later := ctx.Err() != nil
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	if later {
		charges = clone(charges)
		back := &work{store: w.store, call: &stint.Call{At: w.call.At}}
		w.store.behind.Go(func() {
			defer cancel()
			_, _ = back.undo(own, charges) // the caller has been told that it is unknown
		})
		return nil, stint.ErrUnknown
	}
	defer cancel()
	results, err := w.undo(own, charges)
	if err != nil {
		return nil, together(err, stint.ErrUnknown)
	}
	return results, nil
}

// undo gives charges back, the newest first, those by one decision as one.
func (w *work) undo(ctx context.Context, charges []charge) ([]stint.Decision, error) {
	type taken struct {
		key       stint.Key
		algorithm stint.Algorithm
		by        stint.Decision
	}
	of := func(c *charge) taken { return taken{c.take.Key, c.take.Limit.Algorithm(), c.by} }
	costs, now := map[taken]uint64{}, map[taken]stint.Decision{}
	for i := range charges {
		costs[of(&charges[i])] += charges[i].cost
	}
	var asks asks
	for i, c := range slices.Backward(charges) {
		if cost, first := costs[of(&c)]; first {
			delete(costs, of(&c))
			t := plain(c.take)
			t.Op, t.Cost, t.Undo, t.Independent = stint.Refund, uint32(min(cost, stint.MaxCost)), &charges[i].by, true
			asks.add(c.server, i, t)
		}
	}
	if err := w.send(ctx, asks); err != nil {
		return nil, err
	}
	for _, a := range asks {
		if a.unread != nil {
			return nil, transaction.WithoutTakes(a.err)
		}
		for n, i := range a.of {
			now[of(&charges[i])] = a.call.Results[n]
		}
	}
	results := make([]stint.Decision, len(charges))
	for i := range charges {
		results[i] = now[of(&charges[i])]
	}
	return results, nil
}

// plain is a take by itself.
func plain(t stint.Take) stint.Take {
	t.Independent, t.Borrows, t.Undo = false, 0, nil
	return t
}

// clone copies what outlives a call: the bytes of its keys are the caller's.
func clone(charges []charge) []charge {
	charges = slices.Clone(charges)
	for i := range charges {
		t := &charges[i].take
		t.Key, t.Place = stint.Key(strings.Clone(string(t.Key))), stint.Key(strings.Clone(string(t.Place)))
	}
	return charges
}
