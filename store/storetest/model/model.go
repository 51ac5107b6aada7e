// Package model is the store that is obviously right. Tests compare other stores with it.
package model

import (
	"context"
	"strings"
	"sync"
	"time"

	"stint"
	"stint/migrate"
)

// Store is the model: one lock around a map of states that it never drops. It is slow and grows
// without bound. The zero Store is empty and ready to use.
//
// Where the contract of stint.Store leaves a choice, the model does what all stores should do. A
// state is kept under other numbers as migrate.Record describes. In a call that is denied, limits
// that overdraw still debit their takes, those that count denied takes count those that they denied
// themselves, and forced takes, refunds and resets are not carried out. A pool is first asked by
// all takes that do not fit their own limits, and then debited by those that fit.
type Store struct {
	mu   sync.Mutex
	held map[bucket]*migrate.Record
}

var _ stint.Store = (*Store)(nil)

// bucket names a state: the same key under another algorithm is another one.
type bucket struct {
	key       stint.Key
	algorithm stint.Algorithm
}

// part is what a call asks of one bucket.
type part struct {
	stint.Take
	bucket
	cost   uint64 // of all takes of the bucket
	result stint.Decision

	on    []*part // what it leans on, once for each take
	costs []uint64
	only  bool // others lean on it, and nobody asks it
	held  bool // others lean on it
	owed  uint64
}

// Decide answers the call.
func (m *Store) Decide(_ context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
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
		m.together(g.parts, now)
		for i, p := range g.of {
			call.Results[i] = p.result
		}
	}
	return nil
}

// group is what is done as one: all takes that are not apart, or one that is, with
// those it leans on.
type group struct {
	parts []*part
	of    map[int]*part // of each take
	known map[bucket]*part
}

// gather makes the groups of a call, that of the takes which are not apart first.
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
			on, err := g.add(i, takes[i], true)
			if err != nil {
				return nil, err
			}
			leader.on, leader.costs = append(leader.on, on), append(leader.costs, uint64(takes[i].Cost))
		}
	}
	return groups, nil
}

// add makes the take part of the group.
func (g *group) add(i int, take stint.Take, leaned bool) (*part, error) {
	b := bucket{take.Key, take.Limit.Algorithm()}
	p := g.known[b]
	if p == nil {
		p = &part{Take: take, bucket: b, only: true}
		g.known[b] = p
		g.parts = append(g.parts, p)
	} else if p.Op != stint.Ask || take.Op != stint.Ask || p.Borrows != take.Borrows || !p.Limit.ForStores().Same(take.Limit) {
		return nil, stint.ErrMixedLimits
	}
	g.of[i] = p
	if leaned {
		p.held = true
	} else {
		p.cost += uint64(take.Cost)
		p.only = false
	}
	return p, nil
}

// together does all parts or none.
func (m *Store) together(parts []*part, now stint.Instant) {
	pass := true
	for _, p := range parts {
		if p.Op == stint.Ask && !p.held {
			p.result = m.record(p).Test(p.Limit, now, p.cost)
			for i, on := range p.on {
				if p.result.Allowed {
					on.owed += p.costs[i]
				} else {
					on.cost += p.costs[i]
				}
			}
		}
	}
	for _, p := range parts {
		if p.held {
			p.result = m.record(p).Test(p.Limit, now, p.cost)
		}
	}
	for _, p := range parts {
		if p.Borrows > 0 && !p.result.Allowed {
			p.lean()
		}
		pass = pass && (p.Op != stint.Ask || p.only || p.result.Allowed)
	}
	for _, p := range parts {
		m.conclude(p, pass, now)
	}
	for _, p := range parts {
		if p.Borrows > 0 && !p.result.Allowed {
			p.sooner()
		}
	}
}

// lean lets a part that does not fit pass if all that it leans on have room.
func (p *part) lean() {
	over := true
	for _, on := range p.on {
		over = over && on.result.Allowed
	}
	p.result.Allowed, p.result.Over = over, over
}

// sooner has a part that is denied wait for the sooner of its two ways, now that denied takes were
// charged.
func (p *part) sooner() {
	retry := time.Duration(0)
	for _, on := range p.on {
		if !on.result.Allowed {
			retry = max(retry, on.result.RetryAfter)
		}
	}
	p.result.RetryAfter = min(p.result.RetryAfter, retry)
}

// conclude charges a part if the call passes, and answers.
func (m *Store) conclude(p *part, pass bool, now stint.Instant) {
	r, tested := m.record(p), p.result
	switch {
	case tested.Over:
		p.result = r.Test(p.Limit, now, 0)
		p.result.Over = pass
	case p.held && pass && p.cost == 0:
		p.result = r.Test(p.Limit, now, 0)
	case p.held && pass:
		p.do(r, now)
	case p.held && tested.Allowed:
		p.result = r.Test(p.Limit, now, 0)
	case pass, p.Op == stint.Ask && (!tested.Allowed || p.Limit.ForStores().Overdraws()):
		p.do(r, now)
	default:
		p.result = r.Test(p.Limit, now, 0)
	}
	if pass && p.owed > 0 {
		p.result = r.DebitCapped(p.Limit, now, p.owed)
	}
}

// record returns what is known of the part's bucket.
func (m *Store) record(p *part) *migrate.Record {
	if m.held == nil {
		m.held = map[bucket]*migrate.Record{}
	}
	r := m.held[p.bucket]
	if r == nil {
		r = new(migrate.Record)
		m.held[bucket{stint.Key(strings.Clone(string(p.key))), p.algorithm}] = r
	}
	return r
}

func (p *part) do(r *migrate.Record, now stint.Instant) {
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
