package redis

import (
	"context"
	"errors"
	"sync"

	"stint"
	"stint/store/redis/connect"
)

// Loss is that a server lost counts of durable takes.
type Loss = connect.Loss

// ledgerTake is a durable take that takes nothing, and that a loss does not refuse: it only claims.
var ledgerTake = stint.Take{Key: "?probe", Limit: epochTake.Limit, Op: stint.Force, Handling: &stint.Handling{Terms: &stint.Terms{Durable: true}}}

// Losses makes the servers compare what they have of durable takes with what this store was told, and
// returns the losses that they know: at most one for each partition. So a loss is noticed without any take.
func (s *Store) Losses(ctx context.Context) ([]Loss, error) {
	found, errs := make([]Loss, len(s.ledgers)), make([]error, len(s.ledgers))
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
	var losses []Loss
	for _, one := range found {
		if one.At > 0 {
			losses = append(losses, one)
		}
	}
	return losses, errors.Join(errs...)
}
