package model

import (
	"math/rand/v2"
	"strings"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// funds returns what a part is charged to, if its take has grants or a rollover; else nil.
func (m *Store) funds(p *part, now stint.Instant) *limits.Funds {
	if !limits.Granted(&p.Take) {
		return nil
	}
	if m.books == nil {
		m.books = map[bucket]*limits.Book{}
	}
	if m.books[p.bucket] == nil {
		m.books[p.bucket] = new(limits.Book)
	}
	f := limits.FundsOf(m.record(p), m.books[p.bucket], p.Limit, p.Handling.Meter, now)
	return &f
}

// test tests a part that is no source.
func (m *Store) test(p *part, now stint.Instant, cost uint64) stint.Decision {
	if f := m.funds(p, now); f != nil {
		return f.Test(cost)
	}
	return m.record(p).Test(p.Limit, now, cost)
}

// concludeGranted is conclude for a part with grants. It returns what changed of the use of its key.
func (p *part) concludeGranted(f *limits.Funds, pass bool) (c limits.UseChange) {
	switch asks := p.Op == stint.Ask; {
	case asks && (pass || !p.result.Allowed):
		p.result, c = f.Take(p.cost)
	case pass:
		p.result, c = f.Apply(p.Op, p.cost, p.Undo)
	default:
		p.result = f.Test(0)
	}
	if pass {
		p.result.Charged = p.charged
	}
	return c
}

// divide gives each take of a call its part of what its key spent.
func (g *group) divide(call *stint.Call) {
	of, numbers := make([]int, len(call.Takes)), map[*part]int{}
	for i := range of {
		of[i] = -1
		if p := g.of[i]; p != nil {
			if _, known := numbers[p]; !known {
				numbers[p] = len(numbers)
			}
			of[i] = numbers[p]
		}
	}
	transaction.DivideSpent(call, 0, of)
}

// NewGrantHistory returns a history of limits that may have grants.
func NewGrantHistory(r *rand.Rand, at stint.Instant) *History {
	h := NewHistory(r, at, true)
	if r.IntN(4) == 0 {
		h.Limits = []*stint.Limit{stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Calendar: stint.Month, Anchor: uint8(r.IntN(32))})}
	}
	for i := range h.Limits {
		for s := h.Limits[i].Spec(); s.Algorithm != stint.FixedWindow || s.FromFirst || s.Overdraw || s.CarryDebt; s = h.Limits[i].Spec() {
			h.Limits[i] = RandomLimitOf(r, stint.FixedWindow)
		}
	}
	return h
}

// lengthOf returns about how long a window of a limit is, in microseconds.
func lengthOf(l *stint.Limit, at stint.Instant) int64 {
	start, end := l.ForStores().Window(new(stint.State), at)
	return int64(end - start)
}

// Leap lets up to 15 windows of a limit pass until the next call. A clock that may go backwards also goes back by
// as many.
func (h *History) Leap(backwards bool) {
	by := stint.Instant(h.Int64N(pick[int64](h.Rand, 1, 3, 3, 15) * lengthOf(h.Limits[h.IntN(len(h.Limits))], h.At)))
	if backwards && h.IntN(3) == 0 {
		by = -min(by, h.At)
	}
	h.At += by
}

// Grant returns a take that has a meter with the grants and the rollover of its key, which change now and
// then. of has those of all keys. It may raise the cost. With plain some takes get none: stores may differ
// about a carry that such a take ends, if the clock goes back or the numbers change after that.
func (h *History) Grant(t stint.Take, now stint.Instant, of map[stint.Key]*limits.Meter, plain bool) stint.Take {
	m := of[t.Key]
	if m == nil || h.IntN(12) == 0 {
		m = h.grants(t.Limit, now)
		of[t.Key] = m
	}
	if !plain || h.IntN(8) > 0 {
		t.Handling.Meter.Rollover, t.Handling.Meter.Grants = m.Rollover, m.Grants
	}
	if t.Op == stint.Ask && t.Cost < 1<<30 && h.IntN(3) == 0 {
		t.Cost += uint32(h.IntN(12))
	}
	return t
}

// grants returns a meter with random grants about now, and a rollover.
func (h *History) grants(l *stint.Limit, now stint.Instant) *limits.Meter {
	most, length := l.Capacity(), lengthOf(l, now)
	m := &limits.Meter{Rollover: pick[int64](h.Rand, 0, 3, most/2, 3*most, limits.MaxUnits)}
	for _, id := range []string{"a", "b:1 2", "c\x00\xff|", "long " + strings.Repeat("d", 200)} {
		if h.IntN(2) == 0 {
			continue
		}
		from := max(0, now+stint.Instant(h.Int64N(4*length)-3*length))
		m.Grants = append(m.Grants, limits.Grant{
			ID: id, Units: pick[int64](h.Rand, 0, 1, 2, 7, 100, most, limits.MaxUnits), Priority: pick[uint8](h.Rand, 0, 50, 99, 100, 200, 255),
			From: from, Until: from + stint.Instant(h.Int64N(6*length)),
		})
	}
	if len(m.Grants) == 0 {
		m.Rollover = max(1, m.Rollover)
	}
	if h.IntN(3) > 0 {
		limits.SortGrants(m.Grants)
	}
	return m
}
