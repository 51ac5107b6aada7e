package redis

import (
	"context"
	"fmt"
	"time"

	"stint"
)

// readEpoch returns the epoch of a partition's server, 0 if it has none that can be read.
func (s *Store) readEpoch(ctx context.Context, partition int) (stint.Instant, error) {
	b := new(batch)
	b.only, b.epoch = -1, s.keyPrefixes[partition]+epochKey
	b.parts = []part{{name: b.epoch, partition: partition}}
	b.groups = []group{{end: 1}}
	p, err := s.exchange(ctx, b, byPing)
	if err != nil {
		return 0, err
	}
	var began int64
	if _, err := fmt.Sscan(p.epoch, &began); err != nil {
		return 0, nil //nolint:nilerr // none, or a value that is no epoch
	}
	return stint.Instant(began), nil
}

// checkEpoch reads the epoch of a partition's server; an error means that the server does not
// answer. If there is no epoch it begins one, and marks it as following a loss if this store
// remembers an earlier one. So every node notices within a second that a server was emptied, even
// if nothing is lent. lost reports that the epoch differs from the one of the last watch: since
// then the server lost all its keys, or it replaced another one whose last writes it does not have.
func (s *Store) checkEpoch(ctx context.Context, partition int) (lost bool, err error) {
	began, err := s.readEpoch(ctx, partition)
	if err != nil {
		return false, err
	}
	if began == 0 {
		if began, err = s.beginEpoch(ctx, partition); err != nil {
			return false, nil //nolint:nilerr // the server answers; Probe finds out that it cannot decide
		}
	}
	s.epochs[partition].Store(int64(began))
	before := s.checkedEpochs[partition].Swap(int64(began))
	return before != 0 && before != int64(began), nil
}

// epochTake is a take of a key of which nothing is ever lent. It makes the server begin an epoch.
var epochTake = stint.Take{Key: "?probe", Limit: stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second}), Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}}

// beginEpoch makes a partition's server begin an epoch if it has none, and returns the epoch.
func (s *Store) beginEpoch(ctx context.Context, partition int) (stint.Instant, error) {
	t, loan := epochTake, stint.Loan{}
	t.Handling = &stint.Handling{Terms: epochTake.Handling.Terms, Place: s.placeOf(partition), Loan: &loan}
	if err := s.Decide(ctx, &stint.Call{Takes: []stint.Take{t}}); err != nil {
		return 0, err
	}
	return loan.Began, nil
}

// placeOf returns a Handling.Place that lies in a partition; "" on one server.
func (s *Store) placeOf(partition int) stint.Key {
	if s.tags == nil {
		return ""
	}
	return stint.Key(s.tags[partition])
}
