package redis

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"stint"
	"stint/internal/transaction"
)

// spread is a group of takes whose keys lie in several partitions. It implements
// [transaction.Participants]. When it tests parts, nodes report what became of their leases and get
// new ones, as if what passes were charged already.
type spread struct {
	store      *Store
	at         stint.Instant // Call.At
	notPresent bool          // at differs from the present by more than 5 s
	now        stint.Instant
	parts      []part
}

// spread decides a group that lies in several partitions.
func (s *Store) spread(ctx context.Context, b *batch, g *group, now stint.Instant) error {
	w := &spread{store: s, at: b.at, notPresent: b.notPresent, now: now, parts: b.parts[g.first:g.end]}
	run := transaction.Run{Plan: &b.plan, By: w}
	defer b.plan.Release()
	if err := run.Collect(b.call, g.take); err != nil {
		return err
	}
	err := run.Decide(ctx)
	for i := range w.parts {
		w.parts[i].result = run.Parts[i].Result
	}
	g.done = err == nil
	if !run.Lasting {
		return transaction.MarkRestUncharged(err)
	}
	return err
}

// Detach returns a copy that may be used after the call has returned.
func (w *spread) Detach() (transaction.Participants, *transaction.Background) {
	later := &spread{store: w.store, at: w.at, now: w.now, parts: make([]part, len(w.parts))}
	for i, p := range w.parts {
		later.parts[i] = part{Form: p.Form, name: p.name, partition: p.partition, meter: p.meter.Detach(), durable: p.durable}
	}
	return later, &w.store.background
}

// Do does the steps of each partition with one script, all partitions at once. It returns the first
// error and all servers that failed; errUndecodable only if there is no other.
func (w *spread) Do(ctx context.Context, phase transaction.Phase, steps []transaction.Step) error {
	groups := map[int][]*transaction.Step{}
	for i := range steps {
		s := &steps[i]
		if p := &w.parts[s.Part]; p.name == "" {
			s.Result = p.Limit.Test(nil, w.now, 0)
		} else {
			groups[p.partition] = append(groups[p.partition], s)
		}
	}
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() { w.send(ctx, phase, group) })
	}
	all.Wait()
	var undecodable, first error
	var failedIn []int // partitions
	for i := range steps {
		switch err := steps[i].Err; {
		case errors.Is(err, errUndecodable):
			undecodable = err
		case err != nil:
			first = cmp.Or(first, err)
			failedIn = append(failedIn, w.parts[steps[i].Part].partition)
		}
	}
	if first != nil {
		return w.store.withServers(first, failedIn...)
	}
	return undecodable
}

// modes is the mode of decide.lua for each phase; modeDecide if it has none.
var modes = map[transaction.Phase]mode{transaction.Test: modeTest, transaction.Deny: modeDenied}

// send does the steps of one partition.
func (w *spread) send(ctx context.Context, phase transaction.Phase, steps []*transaction.Step) {
	b := w.store.batches.Get().(*batch)
	defer w.store.release(b)
	b.at, b.notPresent, b.mode = w.at, w.notPresent, modes[phase]
	for _, s := range steps {
		p := &w.parts[s.Part]
		q := part{Form: p.Form, name: p.name, partition: p.partition, op: s.Op, cost: s.Cost, undo: s.Undo, asked: true, test: phase == transaction.Test, durable: p.durable}
		q.loan, q.known, q.keyPrefix = p.loan, p.known, p.keyPrefix
		if q.meter = p.meter; q.test && !q.granted() {
			q.meter = nil
		}
		if p.loan != nil && p.op.Asks() && phase != transaction.Test { // the test has sent the report, but another server may have the partition by now
			q.loan, q.known = &stint.Loan{KeptAfterLoss: p.loan.KeptAfterLoss}, max(p.known, p.loan.Began)
		}
		b.parts = append(b.parts, q)
	}
	b.groups = append(b.groups, group{end: len(steps)})
	err := w.store.decideTogether(ctx, b, w.now)
	if err == nil && b.groups[0].undecodable {
		err = errUndecodable
		for i, s := range steps {
			w.parts[s.Part].undecodable = b.parts[i].undecodable
		}
	}
	passed := err == nil
	for i := range steps {
		passed = passed && b.parts[i].result.Allowed
	}
	for i, s := range steps {
		if p := &w.parts[s.Part]; b.parts[i].began != 0 {
			p.began, p.process = b.parts[i].began, b.parts[i].process
		}
		s.Result, s.Err, s.Passed = b.parts[i].result, err, passed
		s.Writes = b.parts[i].writes || b.parts[i].Effects
	}
}
