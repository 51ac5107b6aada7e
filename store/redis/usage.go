package redis

import (
	"context"

	"stint"
	"stint/internal/transaction"
)

// Usage returns the history of a take's key. Its names are those of the take if there is none.
func (s *Store) Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error) {
	return s.UsageIn(ctx, t, s.partition(t))
}
