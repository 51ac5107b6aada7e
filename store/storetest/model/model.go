// Package model has the decisions that every store must give: those of a store that is obviously
// correct, for random limits too, and those of step tables, computed with exact fractions. Tests compare
// other stores with them.
package model

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// Store is the model: one lock around a map of states that it never drops. It is slow and grows
// without bound. The zero Store is empty and ready to use.
//
// If the contract of stint.Store leaves a choice, the model does what all stores should do. A state
// stays under other numbers as transaction.Record describes. In a denied call, limits that overdraw
// still debit their takes, those that count denied takes count those that they denied themselves,
// and forced takes, refunds and resets are not done. A source is first tested for all takes that do
// not fit their own limits, and then debited for those that fit. Takes of at most their costs are
// first set to the number of units that all of them can take, 1 if there is none.
type Store struct {
	mu      sync.Mutex
	records map[bucket]*transaction.Record
	usages  map[bucket]*transaction.Usage
	books   map[bucket]*limits.Book
	events  []transaction.Event
}

var _ stint.Store = (*Store)(nil)

// bucket identifies a state: the same key under another algorithm has another one.
type bucket struct {
	key       stint.Key
	algorithm stint.Algorithm
}

// part is the sum of a group's takes of one bucket.
type part struct {
	stint.Take
	bucket
	cost   uint64 // sum of the takes that are not sources
	result stint.Decision

	sources    []*part // its sources, once for each take
	costs      []uint64
	onlySource bool // it is in the group only as a source
	isSource   bool // others borrow from it
	owed       uint64
	charged    uint32 // units of an AskAtMost, if the group passes
}

// Decide decides the call.
func (m *Store) Decide(_ context.Context, call *stint.Call) error {
	if err := cmp.Or(call.Check(), limits.CheckGrants(call)); err != nil {
		return err
	}
	groups, err := gather(call.Takes)
	if err != nil {
		return err
	}
	now := call.At
	if now == 0 {
		now = stint.At(time.Now())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	call.SizeResults()
	for _, g := range groups {
		tried := g.candidate(call)
		m.together(g.parts, now)
		for i, p := range g.of {
			call.Results[i] = p.result
			if tried != nil {
				call.Results[i].Allowed = remain(tried, &p.result)
			}
		}
		g.divide(call)
	}
	return nil
}

// remain reports whether the units of a take remain, by the answer to a peek.
func remain(t *stint.Take, seen *stint.Decision) bool {
	spec := t.Limit.Spec()
	switch {
	case t.Cost == 0:
		return true
	case spec.Algorithm == stint.Penalty:
		return seen.Remaining > 0
	}
	return int64(t.Cost) <= seen.Remaining && (spec.MinInterval == 0 || seen.ResetAfter <= spec.Per-spec.MinInterval)
}

// candidate turns a candidate that is not charged, because a take other than the one it stands for denies
// the call, into a peek. It returns its take; nil for every other group.
func (g *group) candidate(call *stint.Call) *stint.Take {
	for i, p := range g.of {
		t := &call.Takes[i]
		if !t.Candidate() || t.InsteadOf() == 0 || t.Op != stint.Ask && t.Op != stint.AskAtMost {
			return nil
		}
		instead := &call.Takes[t.InsteadOf()-1]
		last := -1 // last source
		for j := range call.Takes {
			o := &call.Takes[j]
			switch {
			case j <= last:
			case o.Independent, o.Op != stint.Ask && o.Op != stint.AskAtMost, call.Results[j].Allowed:
			case o.Key == instead.Key && o.Limit.Algorithm() == instead.Limit.Algorithm():
			default:
				tried := *t
				if t.Op == stint.AskAtMost && t.Cost > 0 {
					tried.Cost = 1
				}
				p.Op, p.cost, p.Cost = stint.Ask, 0, 0
				return &tried
			}
			if j > last {
				last = j + int(o.Borrows)
			}
		}
	}
	return nil
}

// group is decided as one: all takes that are not Independent, or one that is, with its sources.
type group struct {
	parts []*part
	of    map[int]*part // part of each take
	known map[bucket]*part
}

// gather makes the groups of a call, that of the takes that are not Independent first.
func gather(takes []stint.Take) ([]*group, error) {
	start := func() *group { return &group{of: map[int]*part{}, known: map[bucket]*part{}} }
	groups := []*group{start()}
	for i := 0; i < len(takes); i++ {
		g := groups[0]
		if takes[i].Independent {
			g = start()
			groups = append(groups, g)
		}
		leader, err := g.add(i, takes[i], false)
		if err != nil {
			return nil, err
		}
		for range takes[i].Borrows {
			i++
			source, err := g.add(i, takes[i], true)
			if err != nil {
				return nil, err
			}
			leader.sources, leader.costs = append(leader.sources, source), append(leader.costs, uint64(takes[i].Cost))
		}
	}
	return groups, nil
}

// add adds a take to the part of its bucket.
func (g *group) add(i int, take stint.Take, source bool) (*part, error) {
	b := bucket{take.Key, take.Limit.Algorithm()}
	p := g.known[b]
	if p == nil {
		p = &part{Take: take, bucket: b, onlySource: true}
		g.known[b] = p
		g.parts = append(g.parts, p)
	} else if p.Op != stint.Ask || take.Op != stint.Ask || p.Borrows != take.Borrows || !p.Limit.ForStores().Same(take.Limit) {
		return nil, stint.ErrMixedLimits
	}
	g.of[i] = p
	if source {
		p.isSource = true
	} else {
		p.cost += uint64(take.Cost)
		p.onlySource = false
	}
	return p, nil
}

// together decides parts all or none.
func (m *Store) together(parts []*part, now stint.Instant) {
	pass := true
	m.narrow(parts, now)
	for _, p := range parts {
		if p.Op == stint.Ask && !p.isSource {
			p.result = m.test(p, now, p.cost)
			for i, on := range p.sources {
				if p.result.Allowed {
					on.owed += p.costs[i]
				} else {
					on.cost += p.costs[i]
				}
			}
		}
	}
	for _, p := range parts {
		if p.isSource {
			p.result = m.record(p).Test(p.Limit, now, p.cost)
		}
	}
	for _, p := range parts {
		if p.Borrows > 0 && !p.result.Allowed {
			p.borrow()
		}
		pass = pass && (p.Op != stint.Ask || p.onlySource || p.result.Allowed)
	}
	for _, p := range parts {
		before := m.record(p).Used(now)
		if f := m.funds(p, now); f != nil {
			m.note(p, p.concludeGranted(f, pass), now)
			continue
		}
		m.conclude(p, pass, now)
		if pass && p.Metered() && p.Limit.Capacity() > 0 {
			m.meter(p, before, now)
		}
	}
	for _, p := range parts {
		if p.Borrows > 0 && !p.result.Allowed {
			p.sooner()
		}
	}
}

// narrow turns takes of at most their costs into takes of one cost: of the most units that each of
// them can take, and of 1 if one of them can take none.
func (m *Store) narrow(parts []*part, now stint.Instant) {
	var atMost []*part
	cost := uint64(stint.MaxCost)
	for _, p := range parts {
		switch {
		case p.Op != stint.AskAtMost:
			continue
		case p.cost > 0:
			atMost = append(atMost, p)
			cost = min(cost, p.cost)
		}
		p.Op = stint.Ask
	}
	fits := func(p *part) bool { return m.test(p, now, cost).Allowed }
	for _, p := range atMost {
		if seen := m.test(p, now, 0); uint64(seen.Remaining) < cost {
			cost = max(1, uint64(seen.Remaining))
		}
		if !fits(p) {
			cost = 1
		}
	}
	for _, p := range atMost {
		p.cost, p.charged = cost, uint32(cost)
	}
}

// borrow lets a part that does not fit pass if all its sources have room.
func (p *part) borrow() {
	over := true
	for _, on := range p.sources {
		over = over && on.result.Allowed
	}
	p.result.Allowed, p.result.Over = over, over
}

// sooner sets the retry time of a denied part to the sooner of its two ways, after denied takes
// were charged.
func (p *part) sooner() {
	retry := time.Duration(0)
	for _, on := range p.sources {
		if !on.result.Allowed {
			retry = max(retry, on.result.RetryAfter)
		}
	}
	p.result.RetryAfter = min(p.result.RetryAfter, retry)
}

// conclude charges a part if the call passes, and sets its result.
func (m *Store) conclude(p *part, pass bool, now stint.Instant) {
	r, tested := m.record(p), p.result
	switch {
	case tested.Over:
		p.result = r.Test(p.Limit, now, 0)
		p.result.Over = pass
	case p.isSource && pass && p.cost == 0:
		p.result = r.Test(p.Limit, now, 0)
	case p.isSource && pass:
		p.do(r, now)
	case p.isSource && tested.Allowed:
		p.result = r.Test(p.Limit, now, 0)
	case pass, p.Op == stint.Ask && (!tested.Allowed || p.Limit.ForStores().Overdraws()):
		p.do(r, now)
	default:
		p.result = r.Test(p.Limit, now, 0)
	}
	if pass {
		p.result.Charged = p.charged
	}
	if pass && p.owed > 0 {
		p.result = r.DebitCapped(p.Limit, now, p.owed)
	}
}

// record returns the record of the part's bucket.
func (m *Store) record(p *part) *transaction.Record {
	if m.records == nil {
		m.records = map[bucket]*transaction.Record{}
	}
	r := m.records[p.bucket]
	if r == nil {
		r = new(transaction.Record)
		m.records[bucket{stint.Key(strings.Clone(string(p.key))), p.algorithm}] = r
	}
	return r
}

func (p *part) do(r *transaction.Record, now stint.Instant) {
	switch p.Op {
	case stint.Force:
		p.result = r.Force(p.Limit, now, p.cost)
	case stint.Refund:
		p.result = r.Refund(p.Limit, now, p.cost, p.Undo)
	case stint.Settle:
		p.result = r.Settle(p.Limit, now, p.cost, p.Undo)
	case stint.Reset:
		r.Reset(p.Limit, now)
		p.result = r.Test(p.Limit, now, 0)
	default:
		p.result = r.Take(p.Limit, now, p.cost)
	}
}
