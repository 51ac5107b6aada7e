package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"stint"
	"stint/internal/transaction"
)

// group is takes that are decided as one.
type group = transaction.Plan[transaction.ID]

// spread is a group whose keys lie on several servers: the participants of a [transaction.Run].
type spread struct {
	*work
	group   *group
	takes   []stint.Take // of each part, by itself
	servers []int        // of each part
}

// spread decides a group whose keys lie on several servers.
func (w *work) spread(ctx context.Context, g *group) error {
	s := &spread{work: w, group: g}
	for i := range g.Parts {
		t := *g.Parts[i].Take
		t.Independent, t.Borrows = false, 0
		s.takes, s.servers = append(s.takes, t), append(s.servers, w.store.server(&t))
	}
	s.setPolicies()
	run := transaction.Run{Plan: g, By: s, Peeks: true}
	err := run.Decide(ctx)
	w.lasting = w.lasting || run.Lasting
	switch {
	case errors.Is(err, errUndecodable) && run.Lasting:
		return fmt.Errorf("%w: %w", stint.ErrUnknown, transaction.WithoutTakes(together(w.said...)))
	case errors.Is(err, errUndecodable):
		return nil // nothing of the group is decided
	case err != nil:
		return err
	}
	for i := range run.Charged {
		c := &run.Charged[i]
		w.charged = append(w.charged, charge{s.servers[c.Part], s.takes[c.Part], c.Cost, c.Result})
	}
	g.Answer(w.call)
	return nil
}

// errUndecodable says that a state cannot be read: the call knows which.
var errUndecodable = errors.New("servers: the state of a key cannot be read")

// setPolicies gives each part the failure policy of the first take that asks it; what borrows from it
// asks nothing in its name. No one borrows from a source whose server is away.
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

// setPolicy sets what answers for a take where the store cannot.
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

// takesOf returns which takes of the call a part is about.
func (s *spread) takesOf(part int) (takes []int) {
	for i, n := range s.group.Takes() {
		if n == part {
			takes = append(takes, i)
		}
	}
	return takes
}

// Detach returns a copy of all that outlives a call: the bytes of its keys are the caller's.
func (s *spread) Detach() (transaction.Participants, *sync.WaitGroup) {
	later := &spread{work: &work{store: s.store, call: &stint.Call{At: s.call.At}}, group: s.group, servers: s.servers}
	for i := range s.takes {
		later.takes = append(later.takes, s.takes[i].Clone())
	}
	return later, &s.store.behind
}

// Do does steps, all servers at once. The error is errUndecodable where only states could not be read.
func (s *spread) Do(ctx context.Context, phase transaction.Phase, steps []transaction.Step) error {
	var asks asks
	for i := range steps {
		step := &steps[i]
		if s.servers[step.Part] == nowhere {
			step.Result = unlimited(&s.takes[step.Part], s.call.At)
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
			err = together(err, transaction.WithoutTakes(a.err))
		default:
			s.miss(a, func(n int) []int {
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

// conclude notes in steps what came of them.
func (a *ask) conclude(steps []transaction.Step) {
	d, _ := stint.Combine(a.call.Results)
	for n, i := range a.of {
		if i >= 0 {
			steps[i].Result, steps[i].Passed = a.call.Results[n], d.Allowed
		}
	}
}

// none has no limit, so whoever has it fits, and what it leans on is debited unasked.
var none = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})

// add adds a step to what servers are asked. A take costs MaxCost at most.
func (s *spread) add(asks *asks, i int, phase transaction.Phase, step *transaction.Step) {
	t, server := s.takes[step.Part], s.servers[step.Part]
	switch {
	case phase == transaction.Change && step.Op != transaction.Owe:
		asks.add(server, i, t)
		return
	case phase == transaction.Undo:
		asks.add(server, i, refund(t, step.Cost, step.Undo))
		return
	}
	if !s.group.Parts[step.Part].Asked { // nobody borrows from what is away
		setPolicy(&t, stint.Deny, nil)
	}
	if phase == transaction.Test {
		transaction.Peek(&t)
		asks.add(server, i, t)
		return
	}
	for rest := step.Cost; ; rest -= uint64(t.Cost) {
		t.Cost = uint32(min(rest, stint.MaxCost))
		if step.Op == transaction.Owe {
			asks.add(server, -1, stint.Take{Key: t.Key, Limit: none, Cost: t.Cost, Borrows: 1, Handling: &stint.Handling{Place: t.Place()}})
		}
		asks.add(server, i, t)
		if rest <= stint.MaxCost {
			return
		}
	}
}

// refund is a take that gives back what a decision charged.
func refund(t stint.Take, cost uint64, by *stint.Decision) stint.Take {
	t.Op, t.Cost, t.Undo, t.Independent, t.Borrows = stint.Refund, uint32(min(cost, stint.MaxCost)), by, true, 0
	return t
}
