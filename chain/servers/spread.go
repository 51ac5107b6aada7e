package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
	"stint/internal/transaction"
)

// tries is how often a call is decided anew whose denial was gone when the time was
// asked at which it will be.
const tries = 3

// spread is a group whose keys lie on several servers, on its way through its steps:
//
//	look     at each key; nothing is charged
//	charge   if all fits: each server all or none; where one denies by now, as others
//	         were quicker, the rest is given back
//	change   what is forced, given back, settled, reset or owed: this cannot be undone,
//	         so it is done when all else has passed
//	deny     if not all fits: what denied takes do all the same
type spread struct {
	*work
	*group
	mark int  // how much the call had charged before
	done bool // something of it cannot be given back
}

// errand is what is to be done about a part.
type errand struct {
	part int
	does deed
	cost uint64
}

// deed is what an errand does.
type deed int

const (
	looks deed = iota
	charges
	changes
	owes
)

// spread decides a group whose keys lie on several servers.
func (w *work) spread(ctx context.Context, g *group) error {
	sp := &spread{work: w, group: g, mark: len(w.charged)}
	for n := range tries {
		done, err := sp.decide(ctx, n == tries-1)
		if errors.Is(err, errUnread) {
			return sp.abandon(ctx)
		}
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	for n, i := range g.of {
		w.call.Results[i] = g.parts[g.part[n]].result
	}
	return nil
}

// errUnread says that a state cannot be read: the call knows which.
var errUnread = errors.New("shard: the state of a key cannot be read")

// abandon ends a group of which some state cannot be read: nothing of it is decided.
func (s *spread) abandon(ctx context.Context) error {
	if s.done {
		return fmt.Errorf("%w: %w", stint.ErrUnknown, transaction.WithoutTakes(together(s.said...)))
	}
	return s.takeBack(ctx, true)
}

// takesOf returns which takes of the call an errand is about.
func (s *spread) takesOf(e *errand) (takes []int) {
	for n, part := range s.part {
		if part == e.part {
			takes = append(takes, s.group.of[n])
		}
	}
	return takes
}

// decide decides the group; done is false where it has to be decided anew.
func (s *spread) decide(ctx context.Context, last bool) (done bool, err error) {
	asked := false
	for i := range s.parts {
		p := &s.parts[i]
		p.extra, p.owed, p.over = 0, 0, false
		asked = asked || p.take.Op == stint.Ask
	}
	if asked {
		if err := s.look(ctx); err != nil {
			return false, err
		}
	}
	if s.weigh() {
		return true, s.charge(ctx)
	}
	return s.deny(ctx, last)
}

// look looks at all parts.
func (s *spread) look(ctx context.Context) error {
	list := make([]errand, len(s.parts))
	for i := range list {
		list[i] = errand{part: i, does: looks}
	}
	err := s.run(ctx, list)
	for i := range s.parts {
		s.parts[i].seen = s.parts[i].result
	}
	return err
}

// charge takes what fits, and then does what cannot be undone.
func (s *spread) charge(ctx context.Context) error {
	var asks, after []errand
	for i := range s.parts {
		p := &s.parts[i]
		switch cost := p.cost + p.extra; {
		case p.take.Op != stint.Ask:
			after = append(after, errand{part: i, does: changes})
		case p.over:
			p.result.Over = true
		case cost > 0:
			asks = append(asks, errand{part: i, does: charges, cost: cost})
		}
		if p.owed > 0 {
			after = append(after, errand{part: i, does: owes, cost: p.owed})
		}
	}
	if err := s.run(ctx, asks); err != nil {
		return err
	}
	for _, e := range asks {
		if !s.parts[e.part].result.Allowed {
			return s.tooLate(ctx)
		}
	}
	return s.run(ctx, after)
}

// tooLate answers a group of which some part fitted when it was looked at and was denied
// when it was charged, because others took the rest meanwhile.
func (s *spread) tooLate(ctx context.Context) error {
	if err := s.takeBack(ctx, false); err != nil {
		return err
	}
	for i := range s.parts {
		p := &s.parts[i]
		if !p.over {
			continue
		}
		p.result.Over = false
		if retry, denied := s.wait(p); denied {
			p.result.Allowed, p.result.RetryAfter = false, retry
		}
	}
	return nil
}

// wait says how long until all that a part leans on has room, and whether something has
// none.
func (s *spread) wait(p *part) (retry time.Duration, denied bool) {
	for _, l := range p.leans {
		if on := &s.parts[l.on].result; !on.Allowed {
			retry, denied = max(retry, on.RetryAfter), true
		}
	}
	return retry, denied
}

// takeBack gives back what the group charged, all of it or all but what limits are
// charged that overdraw, which is theirs also where the call is denied.
func (s *spread) takeBack(ctx context.Context, all bool) error {
	mine := s.charged[s.mark:]
	back, kept := make([]charge, 0, len(mine)), make([]charge, 0, len(mine))
	for _, c := range mine {
		if all || !c.take.Limit.Spec().Overdraw {
			back = append(back, c)
		} else {
			kept = append(kept, c)
		}
	}
	s.charged = append(s.charged[:s.mark], kept...)
	results, err := s.giveBack(ctx, back)
	if err != nil {
		s.lasting = true
		return err
	}
	for i := range back {
		for n := range s.parts {
			if p := &s.parts[n]; p.take.Key == back[i].take.Key && p.take.Limit == back[i].take.Limit {
				p.result = results[i]
			}
		}
	}
	return nil
}

// deny answers a group that is denied: it asks for what does not fit, which says when it
// will, and does what denied takes do. Where all of it fits by now, nothing is done, and
// the group has to be decided anew.
func (s *spread) deny(ctx context.Context, last bool) (done bool, err error) {
	var list []errand
	for i := range s.parts {
		p := &s.parts[i]
		if p.take.Op != stint.Ask || p.over {
			continue
		}
		cost := p.cost + p.extra
		if !p.fits || !p.held && cost > 0 && p.take.Limit.Spec().Overdraw {
			list = append(list, errand{part: i, does: charges, cost: cost})
		}
	}
	if err := s.run(ctx, list); err != nil {
		return false, err
	}
	denied := false
	for i := range s.parts {
		denied = s.denies(&s.parts[i]) || denied
	}
	if err := s.takeBack(ctx, !denied); err != nil {
		return false, err
	}
	if !denied && last {
		s.refuse()
	}
	return denied || last, nil
}

// denies says whether a part denies the group, and when it will not.
func (s *spread) denies(p *part) bool {
	if p.take.Op != stint.Ask || !p.asked || p.result.Allowed {
		return false
	}
	if !p.leaning() {
		return true
	}
	retry, denied := s.wait(p)
	p.result.RetryAfter = min(p.result.RetryAfter, retry)
	return denied
}

// refuse refuses what did not fit whenever it was looked at, and did whenever it was
// asked. It may try at once.
func (s *spread) refuse() {
	for i := range s.parts {
		if p := &s.parts[i]; p.take.Op == stint.Ask && p.asked && !p.fits && !p.over {
			p.result.Allowed, p.result.RetryAfter = false, 0
		}
	}
}

// run runs errands, all servers at once; parts know the results, and the call what it
// charged.
func (s *spread) run(ctx context.Context, list []errand) error {
	var asks asks
	for i := range list {
		p := &s.parts[list[i].part]
		if p.server == nowhere {
			p.result = unlimited(&p.take, s.call.At)
			continue
		}
		s.add(&asks, i, p, &list[i])
	}
	err := s.send(ctx, asks)
	for _, a := range asks {
		if a.err != nil {
			s.miss(a, func(n int) []int {
				if a.of[n] < 0 {
					return nil
				}
				return s.takesOf(&list[a.of[n]])
			})
			if err == nil {
				err = errUnread
			}
			continue
		}
		d, _ := stint.Combine(a.call.Results)
		for n, i := range a.of {
			if i >= 0 {
				s.parts[list[i].part].result = a.call.Results[n]
			}
		}
		for i := range list {
			if e := &list[i]; s.parts[e.part].server == a.server {
				s.count(e, d.Allowed)
			}
		}
	}
	return err
}

// none has no limit, so whoever has it fits, and what it leans on is debited unasked.
var none = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})

// add adds an errand to what servers are asked. A take costs MaxCost at most.
func (s *spread) add(asks *asks, i int, p *part, e *errand) {
	t := p.take
	switch e.does {
	case looks:
		transaction.Peek(&t)
	case changes:
		asks.add(p.server, i, t)
		return
	}
	if p.held && !p.asked { // nobody leans on what is away
		t.OnFailure = stint.Deny
	}
	for rest := e.cost; ; rest -= uint64(t.Cost) {
		t.Cost = uint32(min(rest, stint.MaxCost))
		if e.does == owes {
			asks.add(p.server, -1, stint.Take{Key: t.Key, Limit: none, Place: t.Place, Cost: t.Cost, Borrows: 1})
		}
		asks.add(p.server, i, t)
		if rest <= stint.MaxCost {
			return
		}
	}
}

// count notes what an errand charged, if all passed that its server was asked.
func (s *spread) count(e *errand, passed bool) {
	p := &s.parts[e.part]
	switch {
	case e.does == changes:
		s.done = true
	case e.cost == 0:
	case passed && !p.result.Over:
		s.charged = append(s.charged, charge{p.server, p.take, e.cost, p.result})
	case !passed:
		s.done = s.done || p.take.Limit.Spec().Overdraw
	}
	s.lasting = s.lasting || s.done
}
