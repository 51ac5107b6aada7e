package redis

import (
	"context"

	"stint"
	"stint/internal/transaction"
)

// ledgerTake is a durable take that takes nothing, and that a loss does not refuse: it only claims.
var ledgerTake = stint.Take{Key: "?probe", Limit: epochTake.Limit, Op: stint.Force, Handling: &stint.Handling{Terms: &stint.Terms{Durable: true}}}

// Losses makes the servers compare what they have of durable takes with what this store was told, and
// returns the losses that they know: at most one for each partition. So a loss is noticed without any take.
func (s *Store) Losses(ctx context.Context) ([]transaction.Loss, error) {
	return s.LossesOf(ctx, s.ledgers, func(ctx context.Context, partition int) error {
		t := ledgerTake
		t.Handling = &stint.Handling{Terms: ledgerTake.Handling.Terms, Place: s.placeOf(partition)}
		return s.Decide(ctx, &stint.Call{Takes: []stint.Take{t}})
	})
}
