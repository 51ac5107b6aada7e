package redis

import (
	"context"
	"errors"
	"sync"

	"stint"
	"stint/internal/transaction"
)

// ledgerTake is a durable take that takes nothing, and that a loss does not refuse: it only claims.
var ledgerTake = stint.Take{Key: "?probe", Limit: epochTake.Limit, Op: stint.Force, Handling: &stint.Handling{Terms: &stint.Terms{Durable: true}}}

// Losses makes the servers compare what they have of durable takes with what this store was told, and
// returns the losses that they know: at most one for each partition. So a loss is noticed without any take.
func (s *Store) Losses(ctx context.Context) ([]transaction.Loss, error) {
	found, errs := make([]transaction.Loss, len(s.ledgers)), make([]error, len(s.ledgers))
	var all sync.WaitGroup
	for i := range s.ledgers {
		if i > 0 && !s.ledgers[i].Used() {
			continue
		}
		all.Go(func() {
			t := ledgerTake
			t.Handling = &stint.Handling{Terms: ledgerTake.Handling.Terms, Place: s.placeOf(i)}
			if errs[i] = s.Decide(ctx, &stint.Call{Takes: []stint.Take{t}}); errs[i] == nil && s.ledgers[i].Lost() > 0 {
				found[i], errs[i] = s.LossIn(ctx, i)
			}
		})
	}
	all.Wait()
	var losses []transaction.Loss
	for _, one := range found {
		if one.At > 0 {
			losses = append(losses, one)
		}
	}
	return losses, errors.Join(errs...)
}
