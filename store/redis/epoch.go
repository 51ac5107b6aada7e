package redis

import (
	"context"
	"fmt"
	"time"

	"stint"
)

// readEpoch asks the server of a partition in which epoch it is, 0 for none that can be read.
func (s *Store) readEpoch(ctx context.Context, partition int) (stint.Instant, error) {
	b := new(batch)
	b.only, b.epoch = -1, s.where[partition]+epochKey
	b.parts = []part{{name: b.epoch, partition: partition}}
	b.groups = []group{{end: 1}}
	p, err := s.exchange(ctx, b, byPing)
	if err != nil {
		return 0, err
	}
	var began int64
	if _, err := fmt.Sscan(p.epoch, &began); err != nil {
		return 0, nil //nolint:nilerr // there is none, or somebody wrote over it
	}
	return stint.Instant(began), nil
}

// watch asks the server of a partition whether it is there. A server without an epoch begins
// one, a lost one if this store remembers an earlier one: so every node notices within a second
// that a server was emptied, also where nothing is lent. lost says that the epoch is another one
// than when somebody last looked: since then the server has forgotten something, all or what
// another one did not tell it before that was gone.
func (s *Store) watch(ctx context.Context, partition int) (lost bool, err error) {
	began, err := s.readEpoch(ctx, partition)
	if err != nil {
		return false, err
	}
	if began == 0 {
		if began, err = s.beginEpoch(ctx, partition); err != nil {
			return false, nil //nolint:nilerr // it is there, and others find out that it cannot decide
		}
	}
	s.epochs[partition].Store(int64(began))
	before := s.watched[partition].Swap(int64(began))
	return before != 0 && before != int64(began), nil
}

// watching is a take of a key of which nothing is ever lent.
var watching = stint.Take{Key: "?probe", Limit: stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second}), Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}}

// beginEpoch has the server of a partition begin an epoch where it has none, and returns it.
func (s *Store) beginEpoch(ctx context.Context, partition int) (stint.Instant, error) {
	t, loan := watching, stint.Loan{}
	t.Handling = &stint.Handling{Terms: watching.Handling.Terms, Place: s.placeOf(partition), Loan: &loan}
	if err := s.Decide(ctx, &stint.Call{Takes: []stint.Take{t}}); err != nil {
		return 0, err
	}
	return loan.Began, nil
}

// placeOf returns a Handling.Place of a partition; "" on one server.
func (s *Store) placeOf(partition int) stint.Key {
	if s.tags == nil {
		return ""
	}
	return stint.Key(s.tags[partition])
}
