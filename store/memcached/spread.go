package memcached

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"stint"
	"stint/internal/transaction"
)

// plan is a group of takes that all pass, or none is charged.
type plan = transaction.Plan[transaction.ID]

// decideGroups decides the groups of a call one after the other.
func (s *Store) decideGroups(ctx context.Context, c *stint.Call) error {
	var corrupt []int // takes whose states cannot be read
	var why error
	charged := false
	for take := range transaction.Groups(c) {
		p := &plan{Name: transaction.IDOf}
		if err := p.Collect(c, take); err != nil {
			return err
		}
		bad, lasting, err := s.decideTakes(ctx, c, p)
		switch {
		case len(bad) > 0 && !errors.Is(err, stint.ErrUnknown):
			corrupt, why = append(corrupt, bad...), err
		case err != nil && charged && !errors.Is(err, stint.ErrUnknown):
			return fmt.Errorf("%w: %w", stint.ErrUnknown, transaction.WithoutTakes(err))
		case err != nil:
			return err
		default:
			charged = charged || lasting
		}
	}
	if len(corrupt) == 0 {
		return nil
	}
	return s.corrupt(why, corrupt)
}

// decideTakes decides a group. bad are the takes whose states cannot be read, then nothing of the
// group was decided. lasting reports whether the group may have been charged.
func (s *Store) decideTakes(ctx context.Context, c *stint.Call, p *plan) (bad []int, lasting bool, err error) {
	w := &spread{store: s, at: c.At, undecodable: map[int]error{}}
	for i := range p.Parts {
		t := p.Parts[i].Take
		w.parts = append(w.parts, query{key: t.Key, limit: t.Limit, op: t.Op, at: c.At})
	}
	if len(p.Parts) == 1 && p.Parts[0].Take.Borrows == 0 {
		part := &p.Parts[0]
		q := w.parts[0]
		q.phase, q.cost, q.undo = transaction.Charge, part.Cost, part.Take.Undo
		if part.Result, _, err = s.ask(ctx, &q); err != nil {
			if _, ok := asUndecodable(err); ok {
				w.undecodable[0] = err
			}
		}
		lasting = part.Take.Limit.Algorithm() != stint.Unlimited
	} else {
		run := transaction.Run{Plan: p, By: w}
		err = run.Decide(ctx)
		lasting = true
	}
	if err != nil {
		for take, n := range p.Takes() {
			if w.undecodable[n] != nil {
				bad = append(bad, take)
			}
		}
		p.Release()
		return bad, false, err
	}
	p.Answer(c)
	return nil, lasting, nil
}

// spread is a group of takes of several keys. It implements [transaction.Participants]: each key is one
// of them, as memcached changes one key at a time.
type spread struct {
	store *Store
	at    stint.Instant
	parts []query

	mu          sync.Mutex
	undecodable map[int]error // parts whose states cannot be read
}

// Detach returns a copy that may be used after the call has returned.
func (w *spread) Detach() (transaction.Participants, *transaction.Background) {
	later := &spread{store: w.store, at: w.at, parts: slices.Clone(w.parts), undecodable: map[int]error{}}
	for i := range later.parts {
		later.parts[i].key = stint.Key([]byte(later.parts[i].key)) // its bytes are the caller's
	}
	return later, &w.store.background
}

// Do does the steps, all at once. It returns the first error about anything but a state that cannot be
// read, or else one about such a state.
func (w *spread) Do(ctx context.Context, phase transaction.Phase, steps []transaction.Step) error {
	var others sync.WaitGroup
	for i := range steps {
		if i+1 < len(steps) {
			others.Go(func() { w.do(ctx, phase, &steps[i]) })
			continue
		}
		w.do(ctx, phase, &steps[i])
	}
	others.Wait()
	var unreadable error
	for i := range steps {
		err := steps[i].Err
		if _, ok := asUndecodable(err); ok {
			unreadable = err
		} else if err != nil {
			return err
		}
	}
	return unreadable
}

// do does one step.
func (w *spread) do(ctx context.Context, phase transaction.Phase, step *transaction.Step) {
	q := w.parts[step.Part]
	q.phase, q.op, q.cost, q.undo = phase, step.Op, step.Cost, step.Undo
	step.Result, step.Writes, step.Err = w.store.ask(ctx, &q)
	step.Passed = step.Result.Allowed
	if _, ok := asUndecodable(step.Err); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.undecodable[step.Part] = step.Err
	}
}
