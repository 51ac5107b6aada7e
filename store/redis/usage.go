package redis

import (
	"context"

	"stint"
	"stint/internal/transaction"
	"stint/store/redis/connect"
)

// histories reads the histories of keys and the outbox.
func (s *Store) histories() *connect.Histories {
	return &connect.Histories{Client: s.sideLink.Client, Prefixes: s.keyPrefixes}
}

// Usage returns the history of a take's key. Its names are those of the take if there is none.
func (s *Store) Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error) {
	return s.histories().Usage(ctx, t, s.partition(t))
}

// Usages calls yield for the history of each key until it returns false.
func (s *Store) Usages(ctx context.Context, yield func(transaction.Usage) bool) error {
	return s.histories().Usages(ctx, yield)
}

// Pending returns at most max events of the outbox, those of a partition in order.
func (s *Store) Pending(ctx context.Context, max int) ([]transaction.Event, error) {
	return s.histories().Pending(ctx, max)
}

// Done removes events from the outbox by their IDs.
func (s *Store) Done(ctx context.Context, ids []string) error { return s.histories().Done(ctx, ids) }
