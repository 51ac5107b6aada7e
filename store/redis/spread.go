package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"stint"
)

// undoTimeout is how long it may take to give back what a call charged that is denied
// after all, also where the caller waits no longer.
const undoTimeout = time.Second

// spread is a group of takes whose keys lie in several partitions, on its way through
// its steps. Each is one round trip to all partitions at once:
//
//	test     what is asked, by itself; nothing is charged. Nodes say here what became of
//	         what they were lent, and are lent more, as if what passes were charged already
//	lean     where takes lean on others: those others, with what they are asked for then
//	charge   if all pass: each partition all or none; where one denies by now, as others
//	         were quicker, the rest is given back
//	change   what is forced, given back, settled, reset or owed: this cannot be undone,
//	         so it is done when all else has passed
//	deny     if not all pass: what denied takes do all the same
type spread struct {
	store *Store
	at    stint.Instant // Call.At
	fixed bool          // which is not about the present
	now   stint.Instant
	parts []part
	tests []stint.Decision // what each part is told when it is tested
	fits  []bool           // whether it fits its own limit
	extra []uint64         // what those ask of it who do not fit their own
	owed  []uint64         // what those owe it who do
	over  []bool           // it passes by what it leans on
}

// errand is what is asked of the server about one part.
type errand struct {
	part int
	op   stint.Op
	cost uint64
	undo *stint.Decision
	look stint.Loan // at the epoch, once more

	result stint.Decision
	failed error
	passed bool // with all others of its partition
}

// spread decides a group of several partitions.
func (s *Store) spread(ctx context.Context, b *batch, g *group, now stint.Instant) error {
	parts := b.parts[g.first:g.end]
	w := &spread{
		store: s, at: b.at, fixed: b.fixed, now: now, parts: parts,
		tests: make([]stint.Decision, len(parts)), fits: make([]bool, len(parts)), over: make([]bool, len(parts)),
		extra: make([]uint64, len(parts)), owed: make([]uint64, len(parts)),
	}
	pass, err := w.test(ctx)
	switch {
	case err != nil:
	case pass:
		err = w.charge(ctx)
	default:
		err = w.deny(ctx)
	}
	g.done = err == nil
	return err
}

// test asks what would pass.
func (w *spread) test(ctx context.Context) (pass bool, err error) {
	if err := w.probe(ctx, false); err != nil {
		return false, whole(err)
	}
	leans := false
	for i := range w.parts {
		p := &w.parts[i]
		w.fits[i] = w.tests[i].Allowed
		for _, l := range p.leans {
			leans = true
			if w.fits[i] {
				w.owed[l.on] += l.cost
			} else {
				w.extra[l.on] += l.cost
			}
		}
	}
	if leans {
		if err := w.probe(ctx, true); err != nil {
			return false, whole(err)
		}
	}
	pass = true
	for i := range w.parts {
		p := &w.parts[i]
		if p.lends > 0 && !w.fits[i] {
			w.lean(i)
		}
		pass = pass && (p.op != stint.Ask || p.held && !p.asked || w.tests[i].Allowed)
	}
	return pass, nil
}

// probe tests the parts that others lean on, or all others.
func (w *spread) probe(ctx context.Context, held bool) error {
	var list []errand
	for i := range w.parts {
		if p := &w.parts[i]; p.op == stint.Ask && p.held == held {
			list = append(list, errand{part: i, cost: p.cost + w.extra[i]})
		}
	}
	err := w.run(ctx, modeTest, list)
	for i := range list {
		w.tests[list[i].part] = list[i].result
	}
	return err
}

// lean answers a part that does not fit its own limit by what it leans on.
func (w *spread) lean(i int) {
	over, retry := true, time.Duration(0)
	for _, l := range w.parts[i].leans {
		if on := &w.tests[l.on]; !on.Allowed {
			over, retry = false, max(retry, on.RetryAfter)
		}
	}
	w.over[i] = over
	w.tests[i].Allowed = over
	w.tests[i].RetryAfter = min(w.tests[i].RetryAfter, retry)
}

// charge takes what has been tested, and then does what cannot be undone.
func (w *spread) charge(ctx context.Context) error {
	var asks, changes []errand
	for i := range w.parts {
		p := &w.parts[i]
		switch {
		case p.op != stint.Ask:
			changes = append(changes, errand{part: i, op: p.op, cost: p.cost, undo: p.undo})
		case w.over[i]:
			asks = append(asks, errand{part: i})
		default:
			asks = append(asks, errand{part: i, cost: p.cost + w.extra[i]})
		}
		if w.owed[i] > 0 {
			changes = append(changes, errand{part: i, op: opOwe, cost: w.owed[i]})
		}
	}
	if err := w.run(ctx, modeDecide, asks); err != nil {
		if undone := w.undo(ctx, asks); undone != nil {
			return errors.Join(err, undone)
		}
		return whole(err)
	}
	denied := false
	for i := range asks {
		p := &w.parts[asks[i].part]
		p.result = asks[i].result
		p.result.Over = w.over[asks[i].part]
		denied = denied || !p.result.Allowed
	}
	if denied {
		return w.tooLate(ctx, asks)
	}
	if err := w.run(ctx, modeDecide, changes); err != nil {
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	for i := range changes {
		w.parts[changes[i].part].result = changes[i].result
	}
	return nil
}

// tooLate answers a call of which some part was tested well and denied when it was
// charged, because others took the rest meanwhile.
func (w *spread) tooLate(ctx context.Context, asks []errand) error {
	if err := w.undo(ctx, asks); err != nil {
		return err
	}
	for i := range w.parts {
		p := &w.parts[i]
		p.result.Over = false
		if !w.over[i] {
			continue
		}
		for _, l := range p.leans {
			if on := &w.parts[l.on].result; !on.Allowed {
				p.result.Allowed = false
				p.result.RetryAfter = max(p.result.RetryAfter, min(on.RetryAfter, w.tests[i].RetryAfter))
			}
		}
	}
	return w.look(ctx)
}

// look answers what would have been forced, given back or reset: the present state.
func (w *spread) look(ctx context.Context) error {
	var list []errand
	for i := range w.parts {
		if p := &w.parts[i]; p.op != stint.Ask {
			list = append(list, errand{part: i})
		}
	}
	err := w.run(ctx, modeDecide, list)
	for i := range list {
		w.parts[list[i].part].result = list[i].result
	}
	return err
}

// undo gives back what was charged, but for limits that are charged also where the call
// is denied. Where the caller waits no longer it goes on behind its back.
func (w *spread) undo(ctx context.Context, asks []errand) error {
	var list []errand
	for i := range asks {
		a := &asks[i]
		if a.passed && a.cost > 0 && w.parts[a.part].flags&flagOverdraw == 0 {
			list = append(list, errand{part: a.part, op: stint.Refund, cost: a.cost, undo: &a.result})
		}
	}
	if len(list) == 0 {
		return nil
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	if ctx.Err() != nil {
		later := &spread{store: w.store, at: w.at, now: w.now, parts: cloneParts(w.parts)}
		w.store.behind.Go(func() {
			defer cancel()
			_ = later.run(own, modeDecide, list) // the caller has been told that it is unknown
		})
		return stint.ErrUnknown
	}
	defer cancel()
	if err := w.run(own, modeDecide, list); err != nil {
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	for i := range list {
		w.parts[list[i].part].result = list[i].result
	}
	return nil
}

// cloneParts copies what outlives a call.
func cloneParts(parts []part) []part {
	clones := make([]part, len(parts))
	for i := range parts {
		clones[i] = part{form: parts[i].form, name: parts[i].name, partition: parts[i].partition}
	}
	return clones
}

// deny answers a call that is denied, and does what denied takes do.
func (w *spread) deny(ctx context.Context) error {
	var list []errand
	for i := range w.parts {
		p := &w.parts[i]
		p.result = w.tests[i]
		switch overdraw := p.flags&flagOverdraw != 0; {
		case p.op != stint.Ask:
			list = append(list, errand{part: i, op: p.op, cost: p.cost, undo: p.undo})
		case w.over[i]: // it would have passed: its own state, unchanged
			p.result.RetryAfter = 0
			if p.limit.Spec().Reserve { // a denied test told a later reset
				list = append(list, errand{part: i})
			}
		case !p.result.Allowed && (overdraw || p.effects || p.writes), overdraw && !p.held:
			list = append(list, errand{part: i, cost: p.cost + w.extra[i]})
		}
	}
	if err := w.run(ctx, modeDenied, list); err != nil {
		if slices.ContainsFunc(list, func(e errand) bool { return e.failed == nil && e.op == stint.Ask && e.cost > 0 }) {
			return fmt.Errorf("%w: %w", stint.ErrUnknown, err) // a debt may stand
		}
		return err
	}
	for i := range list {
		p, test := &w.parts[list[i].part], &w.tests[list[i].part]
		p.result = list[i].result
		if p.op == stint.Ask && !test.Allowed {
			if p.result.Allowed { // by now
				p.result = *test
			}
			if p.lends > 0 {
				p.result.RetryAfter = min(p.result.RetryAfter, test.RetryAfter)
			}
		}
	}
	return nil
}

// run has errands done, those of one partition by one script, all partitions at once.
// Each errand knows afterwards what came of it; the error is the first, of all the servers that
// failed, errUnread only where there is no other.
func (w *spread) run(ctx context.Context, m mode, list []errand) error {
	groups := map[int][]*errand{}
	for i := range list {
		e := &list[i]
		if p := &w.parts[e.part]; p.name == "" {
			e.result = p.limit.Test(nil, w.now, 0)
		} else {
			groups[p.partition] = append(groups[p.partition], e)
		}
	}
	var all sync.WaitGroup
	for _, errands := range groups {
		if len(groups) == 1 {
			w.send(ctx, m, errands)
			break
		}
		all.Go(func() { w.send(ctx, m, errands) })
	}
	all.Wait()
	var unread, failed error
	var where []int // it failed
	for i := range list {
		switch err := list[i].failed; {
		case errors.Is(err, errUnread):
			unread = err
		case err != nil:
			failed = cmp.Or(failed, err)
			where = append(where, w.parts[list[i].part].partition)
		}
	}
	if failed != nil {
		return w.store.blame(failed, where...)
	}
	return unread
}

// send has the errands of one partition done.
func (w *spread) send(ctx context.Context, m mode, errands []*errand) {
	b := w.store.batches.Get().(*batch)
	defer w.store.release(b)
	b.at, b.fixed, b.mode = w.at, w.fixed, m
	for _, e := range errands {
		p := &w.parts[e.part]
		q := part{form: p.form, name: p.name, partition: p.partition, op: e.op, cost: e.cost, undo: e.undo, asked: true}
		q.loan, q.known, q.epoch = p.loan, p.known, p.epoch
		if p.loan != nil && p.op == stint.Ask && m != modeTest { // told already, but the server may be another one by now
			e.look = stint.Loan{KeptAfterLoss: p.loan.KeptAfterLoss}
			q.loan, q.known = &e.look, max(p.known, p.loan.Began)
		}
		b.parts = append(b.parts, q)
	}
	b.groups = append(b.groups, group{end: len(errands)})
	err := w.store.together(ctx, b, w.now)
	if err == nil && b.groups[0].unread {
		err = errUnread
		for i, e := range errands {
			w.parts[e.part].unread = b.parts[i].unread
		}
	}
	passed := err == nil
	for i := range errands {
		passed = passed && b.parts[i].result.Allowed
	}
	for i, e := range errands {
		e.result, e.failed, e.passed = b.parts[i].result, err, passed
		w.parts[e.part].writes = b.parts[i].writes
	}
}
