package servers

import (
	"context"
	"errors"
	"fmt"

	"stint"
	"stint/internal/transaction"
)

// group is a group of takes that is decided all or none.
type group = transaction.Plan[transaction.ID]

// spread is a group whose keys lie on several servers. It implements [transaction.Participants].
type spread struct {
	*work
	group   *group
	takes   []stint.Take // one for each part, without borrowing
	servers []int        // server of each part
}

// spread decides a group whose keys lie on several servers.
func (w *work) spread(ctx context.Context, g *group) error {
	s := &spread{work: w, group: g}
	for i := range g.Parts {
		t := *g.Parts[i].Take
		t.Independent, t.Borrows = false, 0
		if t.Op == stint.AskAtMost {
			t.Op = stint.Ask // Run computes how much
		}
		s.takes, s.servers = append(s.takes, t), append(s.servers, w.store.server(&t))
	}
	s.setPolicies()
	run := transaction.Run{Plan: g, By: s, Peeks: true}
	err := run.Decide(ctx)
	w.charged.Lasting = w.charged.Lasting || run.Lasting
	switch {
	case errors.Is(err, errUndecodable) && run.Lasting:
		return fmt.Errorf("%w: %w", stint.ErrUnknown, transaction.WithoutTakes(joinErrors(w.undecodableErrs...)))
	case errors.Is(err, errUndecodable):
		return nil // nothing of the group is decided; w.undecodable lists its takes
	case err != nil:
		return err
	}
	for _, c := range run.List {
		c.On, c.Take = s.servers[c.On], &s.takes[c.On]
		w.charged.List = append(w.charged.List, c)
	}
	g.Answer(w.call)
	return nil
}

// errUndecodable means that some states cannot be read; work.undecodable lists their takes.
var errUndecodable = errors.New("servers: the state of a key cannot be read")

// setPolicies gives each part the failure policy of the first take that wants it for itself, not as
// a source. A source whose server is away lends nothing.
func (s *spread) setPolicies() {
	last, known := -1, make([]bool, len(s.takes))
	for i, n := range s.group.Takes() {
		if i <= last {
			continue
		}
		t := &s.work.call.Takes[i]
		if last = i + int(t.Borrows); !known[n] {
			policy, local := t.OnFailure()
			known[n] = true
			setPolicy(&s.takes[n], policy, local)
		}
	}
}

// setPolicy sets the failure policy of a take and its local limit.
func setPolicy(t *stint.Take, policy stint.Failure, local *stint.Limit) {
	if p, l := t.OnFailure(); p == policy && l == local {
		return
	}
	how := stint.Handling{OnFailure: policy, Local: local}
	if t.Handling != nil {
		how = *t.Handling
		how.OnFailure, how.Local = policy, local
	}
	t.Handling = &how
}

// takesOf returns the indexes in the call of a part's takes.
func (s *spread) takesOf(part int) (takes []int) {
	for i, n := range s.group.Takes() {
		if n == part {
			takes = append(takes, i)
		}
	}
	return takes
}

// Detach returns a copy that may be used after the call has returned. It copies the keys, whose
// bytes are the caller's.
func (s *spread) Detach() (transaction.Participants, *transaction.Background) {
	later := &spread{work: &work{store: s.store, call: &stint.Call{At: s.call.At}}, group: s.group, servers: s.servers}
	for i := range s.takes {
		later.takes = append(later.takes, s.takes[i].Clone())
	}
	return later, &s.store.background
}

// Do does steps, all servers at once. It returns errUndecodable if the only errors are about states
// that cannot be read.
func (s *spread) Do(ctx context.Context, phase transaction.Phase, steps []transaction.Step) error {
	var asks asks
	for i := range steps {
		step := &steps[i]
		if s.servers[step.Part] == nowhere {
			step.Result = s.takes[step.Part].Limit.Test(nil, s.time(), 0)
			continue
		}
		s.add(&asks, i, phase, step)
	}
	err := s.send(ctx, asks)
	for _, a := range asks {
		if a.err == nil {
			a.conclude(steps)
			continue
		}
		for _, i := range a.of {
			if i >= 0 {
				steps[i].Err = a.err
			}
		}
		switch {
		case a.undecodable == nil:
		case phase == transaction.Undo:
			err = joinErrors(err, transaction.WithoutTakes(a.err))
		default:
			s.addUndecodable(a, func(n int) []int {
				if a.of[n] < 0 {
					return nil
				}
				return s.takesOf(steps[a.of[n]].Part)
			})
			if err == nil {
				err = errUndecodable
			}
		}
	}
	return err
}

// conclude stores the results of steps.
func (a *ask) conclude(steps []transaction.Step) {
	d, _ := stint.Combine(a.call.Results)
	for n, i := range a.of {
		if i >= 0 {
			steps[i].Result, steps[i].Passed = a.call.Results[n], d.Allowed
		}
	}
}

// unlimitedLimit is a limit that always fits. A take under it that borrows makes its source owe the
// units.
var unlimitedLimit = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})

// add adds a step to the calls to servers. It splits a cost above MaxCost into several takes.
func (s *spread) add(asks *asks, i int, phase transaction.Phase, step *transaction.Step) {
	t, server := s.takes[step.Part], s.servers[step.Part]
	switch {
	case phase == transaction.Change && step.Op != transaction.DebitCapped:
		asks.add(server, i, t)
		return
	case phase == transaction.Undo:
		asks.add(server, i, transaction.Refund(t, step.Cost, step.Undo))
		return
	}
	if !s.group.Parts[step.Part].Asked { // a source whose server is away lends nothing
		setPolicy(&t, stint.Deny, nil)
	}
	if phase == transaction.Test {
		transaction.Peek(&t)
		asks.add(server, i, t)
		return
	}
	for rest := step.Cost; ; rest -= uint64(t.Cost) {
		t.Cost = uint32(min(rest, stint.MaxCost))
		if step.Op == transaction.DebitCapped {
			asks.add(server, -1, stint.Take{Key: t.Key, Limit: unlimitedLimit, Cost: t.Cost, Borrows: 1, Handling: &stint.Handling{Place: t.Place()}})
		}
		asks.add(server, i, t)
		if rest <= stint.MaxCost {
			return
		}
	}
}
