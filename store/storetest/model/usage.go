package model

import (
	"cmp"
	"context"
	"slices"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// meter adds what a part of a call that passed changed to the history of its key. before is how much
// was used before.
func (m *Store) meter(p *part, before int64, now stint.Instant) {
	r := m.record(p)
	var c transaction.UseChange
	switch {
	case p.Op == stint.Refund && r.Used(now) < before:
		c.GivenBack = p.cost
	case p.isSource:
		c.Charged = p.cost + p.owed
	case p.result.Allowed && !p.result.Over && (p.Op == stint.Ask || p.Op == stint.Force):
		c.Charged = p.cost
	}
	if c.Charged > 0 {
		c = r.Charged(p.Limit, c.Charged, now)
		if b := m.books[p.bucket]; b != nil {
			b.Forget(c.Start)
		}
	}
	m.note(p, c, now)
}

// note adds a change to the history of a key, and writes the events of thresholds.
func (m *Store) note(p *part, c transaction.UseChange, now stint.Instant) {
	u := m.usages[p.bucket]
	if u == nil {
		u = new(transaction.Usage)
	}
	u.History.GiveBack(c.GivenBack, now)
	if c.Charged == 0 {
		return
	}
	u.Names = transaction.NamesOf(&p.Take).Clone()
	if m.usages == nil {
		m.usages = map[bucket]*transaction.Usage{}
	}
	m.usages[p.bucket] = u
	keep, notify := transaction.Metering(&p.Take)
	for _, percent := range u.Charge(c, keep, p.Handling.Meter.Of, notify, transaction.MaxEvents) {
		e := transaction.Event{
			ID: transaction.EventID(u.EventBase("model"), percent, c.Start, c.End), Names: u.Names,
			Threshold: percent, Used: uint64(c.Used), Of: uint64(p.Handling.Meter.Of), Start: c.Start, End: c.End, At: now,
		}
		if !slices.ContainsFunc(m.events, func(o transaction.Event) bool { return o.ID == e.ID }) { // a period that was dropped came again
			m.events = append(m.events, e)
		}
	}
}

// Usage returns the history of a take's key.
func (m *Store) Usage(_ context.Context, t *stint.Take) (transaction.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := bucket{t.Key, t.Limit.Algorithm()}
	if u := m.usages[b]; u != nil {
		c := u.Clone()
		c.Book = m.books[b].Clone()
		return c, nil
	}
	return transaction.UsageOf(t), nil
}

// Pending returns at most most events, the oldest first.
func (m *Store) Pending(_ context.Context, most int) ([]transaction.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events[:min(most, len(m.events))]), nil
}

// Normalize sorts what stores may return in any order, and leaves out what means nothing.
func Normalize(u *transaction.Usage) {
	slices.SortFunc(u.History, func(a, b transaction.Period) int {
		return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Start, b.Start))
	})
	if len(u.History) == 0 {
		u.History = nil
	}
	if u.Book == nil {
		return
	}
	u.Book.Grants = slices.DeleteFunc(u.Book.Grants, func(g limits.GrantUse) bool { return g.Used == 0 })
	slices.SortFunc(u.Book.Grants, func(a, b limits.GrantUse) int { return cmp.Compare(a.ID, b.ID) })
	if len(u.Book.Grants) == 0 {
		u.Book.Grants = nil
	}
	if u.Book.Empty() {
		u.Book = nil
	}
}
