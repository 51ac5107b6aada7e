package storetest

import (
	"context"
	"strings"
	"sync"
	"time"

	"stint"
)

// Model is the store that is obviously right: one lock around a map of states that
// it never drops. It is what other stores are compared with; it is slow and grows
// without bound. The zero Model is empty and ready to use.
//
// Where stint.Store leaves a choice it does as all stores should: a state is carried
// over to new numbers by whatever is asked first under them; in a call that is
// denied, limits that overdraw debit their takes all the same, those that count
// denied tries count what they denied themselves, and forced takes, refunds and
// resets are not done.
type Model struct {
	mu   sync.Mutex
	held map[bucket]*holding
}

var _ stint.Store = (*Model)(nil)

// bucket names a state: the same key under another algorithm is another one.
type bucket struct {
	key       stint.Key
	algorithm stint.Algorithm
}

// holding is a state and the limit under which it was written.
type holding struct {
	state stint.State
	limit *stint.Limit
}

// part is what a call asks of one bucket.
type part struct {
	stint.Take
	bucket
	cost   uint64 // of all takes of the bucket
	result stint.Decision
}

// Decide answers the call.
func (m *Model) Decide(_ context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	parts, of, err := gather(call.Takes)
	if err != nil {
		return err
	}
	now := call.At
	if now == 0 {
		now = stint.At(time.Now())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.together(parts, now)
	call.Results = call.Results[:0]
	for i, take := range call.Takes {
		if take.Apart {
			alone := []*part{{Take: take, bucket: bucket{take.Key, take.Limit.Algorithm()}, cost: uint64(take.Cost)}}
			m.together(alone, now)
			call.Results = append(call.Results, alone[0].result)
			continue
		}
		call.Results = append(call.Results, of[i].result)
	}
	return nil
}

// gather makes one part of all takes of a bucket; of names the part of each take.
func gather(takes []stint.Take) (parts []*part, of map[int]*part, err error) {
	of = map[int]*part{}
	known := map[bucket]*part{}
	for i, take := range takes {
		if take.Apart {
			continue
		}
		b := bucket{take.Key, take.Limit.Algorithm()}
		p := known[b]
		if p == nil {
			p = &part{Take: take, bucket: b}
			known[b] = p
			parts = append(parts, p)
		} else if p.Op != stint.Ask || take.Op != stint.Ask || !p.Limit.Same(take.Limit) {
			return nil, nil, stint.ErrMixedLimits
		}
		p.cost += uint64(take.Cost)
		of[i] = p
	}
	return parts, of, nil
}

// together does all parts or none.
func (m *Model) together(parts []*part, now stint.Instant) {
	pass := true
	for _, p := range parts {
		if p.Op == stint.Ask {
			p.result = p.Limit.Test(m.state(p, now), now, p.cost)
			pass = pass && p.result.Allowed
		}
	}
	for _, p := range parts {
		st := m.state(p, now)
		switch {
		case pass, p.Op == stint.Ask && (!p.result.Allowed || p.Limit.Spec().Overdraw):
			p.do(st, now)
		default:
			p.result = p.Limit.Test(st, now, 0)
		}
	}
}

// state returns the state of the part's bucket, carried over to its limit.
func (m *Model) state(p *part, now stint.Instant) *stint.State {
	if m.held == nil {
		m.held = map[bucket]*holding{}
	}
	h := m.held[p.bucket]
	if h == nil {
		h = &holding{limit: p.Limit}
		m.held[bucket{stint.Key(strings.Clone(string(p.key))), p.algorithm}] = h
	}
	p.Limit.Carry(&h.state, h.limit, now)
	h.limit = p.Limit
	return &h.state
}

func (p *part) do(st *stint.State, now stint.Instant) {
	switch p.Op {
	case stint.Force:
		p.result = p.Limit.Force(st, now, p.cost)
	case stint.Refund:
		p.result = p.Limit.Refund(st, now, p.cost, p.Undo)
	case stint.Reset:
		*st = stint.State{}
		p.result = p.Limit.Test(st, now, 0)
	default:
		p.result = p.Limit.Take(st, now, p.cost)
	}
}
