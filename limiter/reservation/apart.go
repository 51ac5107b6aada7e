package reservation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Limits that this process decides by itself are not in the store that has the record, so no step changes both.
// A second record, the progress, has how many takes of the reservation are dealt with: those of such limits give
// back their units in order, and whoever does that claims the reservation meanwhile:
//
//	claim      the progress becomes the claim, a random multiple of claimUnit, and what it was
//	give back  take by take, until one fails
//	release    the progress is without the claim, and has what is dealt with now
//
// So a unit is never given back twice, and a reservation that another call has claimed is not settled yet. If the
// store fails at the claim or the release, this process remembers its claim for when the reservation is settled
// again; other nodes cannot know what was given back, and return an error meanwhile. A take whose outcome is
// unknown counts as dealt with.
const (
	claimUnit = 1 << 12 // more than a reservation has takes
	claimMost = 1 << 29 // no two claims fit
)

var progressLimit = stint.MustLimit(stint.Spec{
	Algorithm: stint.FixedWindow, FromFirst: true, Requests: 2 * claimMost, Per: 2 * stint.MaxReservation,
})

// errClaimed is the cause when another call gives back the units of a reservation, or a node that stopped did.
var errClaimed = errors.New("another call settles it at this moment")

// claim is what this process knows of a claim of its own that the store may have.
type claim struct {
	units uint32    // 0: there is none
	done  int       // takes that were dealt with and are not in the progress
	since time.Time // when it was remembered
}

// claims are the claims that the store may have and nobody works on. They are for concurrent use.
type claims struct {
	mu    sync.Mutex
	of    map[string]claim // by the ID of the reservation
	swept time.Time
}

// sweepEvery is after how long claims that are too old are forgotten again: while the store is away each settling
// is remembered, and must not look at all others.
const sweepEvery = stint.MaxReservation / 10

// take returns the claim on a reservation and forgets it.
func (c *claims) take(id string) claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.of[id]
	delete(c.of, id)
	return one
}

// keep remembers a claim. Now and then it forgets those of reservations that are too old to be settled.
func (c *claims) keep(id string, one claim, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]claim{}
	}
	if now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		maps.DeleteFunc(c.of, func(_ string, known claim) bool { return now.Sub(known.since) > 2*stint.MaxReservation })
	}
	one.since = now
	c.of[id] = one
}

// newClaim returns the units of a claim.
func newClaim() uint32 { return claimMost + claimUnit*(1+rand.Uint32N(claimMost/claimUnit-2)) }

// progress returns the take of the progress that claims it, or with 0 units only looks. It is at the place of the record.
func (s *settlement) progress(units uint32) stint.Take {
	t := s.record(0, true)
	t.Key, t.Limit, t.Cost = progressSpace+t.Key, progressLimit, units
	return t
}

// progressSpace stands before the key of the record in that of its progress.
const progressSpace = recordSpace + "p"

// giveBackApart gives back the units of takes that this process decides. own is the claim that this process has
// or may have, and used what the progress has.
func (s *settlement) giveBackApart(ctx context.Context, store stint.Store, apart []apartTake, own claim, used int64) error {
	ctx, cancel := transaction.UndoContext(ctx) // the reservation is settled: the rest goes on if the caller leaves
	defer cancel()
	done := used - int64(own.units) // takes that are dealt with by the progress
	if own.units == 0 || done < 0 || done >= claimUnit {
		own = claim{units: newClaim()}
		switch {
		case used >= claimMost:
			return fmt.Errorf("settling a reservation: %w", errClaimed)
		case used >= int64(len(s.takes)):
			return nil
		}
		call := stint.Call{Takes: []stint.Take{s.progress(own.units)}}
		if err := decide(ctx, store, &call); err != nil {
			s.claims.keep(s.id, own, s.now)
			return err
		}
		d := &call.Results[0]
		if !d.Allowed {
			return fmt.Errorf("settling a reservation: %w", errClaimed)
		}
		done = d.Limit - d.Remaining - int64(own.units)
	}
	before := done
	done += int64(own.done)
	err := s.giveBackFrom(ctx, store, apart, &done)
	own.done = int(done - before)
	return errors.Join(err, s.release(ctx, store, own))
}

// giveBackFrom gives back what is not dealt with, of which done is the number of takes of the reservation.
func (s *settlement) giveBackFrom(ctx context.Context, store stint.Store, apart []apartTake, done *int64) error {
	for i := range apart {
		if int64(apart[i].at) < *done {
			continue
		}
		err := decide(ctx, store, &stint.Call{Takes: []stint.Take{apart[i].take}})
		if err == nil || errors.Is(err, stint.ErrUnknown) {
			*done = int64(apart[i].at) + 1
		}
		if err != nil {
			return err
		}
	}
	*done = int64(len(s.takes))
	return nil
}

// release ends a claim.
func (s *settlement) release(ctx context.Context, store stint.Store, own claim) error {
	t := s.progress(own.units - uint32(own.done))
	t.Op = stint.Refund
	err := decide(ctx, store, &stint.Call{Takes: []stint.Take{t}})
	if err != nil {
		s.claims.keep(s.id, own, s.now)
	}
	return err
}
