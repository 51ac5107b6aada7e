package memcached

import (
	"context"

	"stint"
	"stint/internal/transaction"
)

// OnlyItemsForTest makes the store keep every state in an item.
func (s *Store) OnlyItemsForTest() { s.onlyItems = true }

// NameForTest returns the key in memcached of the state of a key, or of its last counter at a time.
func (s *Store) NameForTest(l *stint.Limit, key stint.Key, at stint.Instant) string {
	if !s.counted(l) {
		return s.keyName(l.Algorithm(), "", key)
	}
	g := s.grid(&query{limit: l, key: key}, at)
	return g.counters[len(g.counters)-1].name
}

// WaitingForTest returns how many calls wait for the item of a key, without those that are being
// decided; -1 if there are none of these either.
func (s *Store) WaitingForTest(key stint.Key, l *stint.Limit) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.queues[s.keyName(l.Algorithm(), "", key)]
	if k == nil {
		return -1
	}
	return len(k.waiting)
}

// DecideOnKnownForTest decides a take on the item of its key as it is before a function is called.
func (s *Store) DecideOnKnownForTest(ctx context.Context, t *stint.Take, between func()) (stint.Decision, error) {
	q := &query{key: t.Key, limit: t.Limit, phase: transaction.Charge, op: t.Op, cost: uint64(t.Cost)}
	name := s.keyName(t.Limit.Algorithm(), "", t.Key)
	known, err := s.read(ctx, name, q)
	if err != nil {
		return stint.Decision{}, err
	}
	between()
	w := &waiter{query: q, ctx: ctx, done: make(chan struct{})}
	s.decideGroup(name, []*waiter{w}, known)
	return w.result, w.err
}

// DenyForTest does what a denied call does to the key of one of its takes.
func (s *Store) DenyForTest(ctx context.Context, t *stint.Take) (stint.Decision, error) {
	d, _, err := s.ask(ctx, &query{key: t.Key, limit: t.Limit, phase: transaction.Deny, op: t.Op, cost: uint64(t.Cost)})
	return d, err
}
