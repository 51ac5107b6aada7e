package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"stint"
	"stint/store/redis/script"
)

// knownEpoch is the epoch in the last answer of a server. It is safe for concurrent use. In the zero
// knownEpoch no answer had one yet.
type knownEpoch struct {
	epoch atomic.Int64 // when it began; below 0 if it follows a loss
	since atomic.Int64 // time of the first answer with it, see uptime
	// process is the address of the interpreter of the server's process, 0 if it is unknown. With
	// another address the quick scripts decide nothing.
	process atomic.Int64
}

// set stores the epoch of an answer, and the server's process. A reader must load the process first:
// then the epoch that it loads is never older than that process.
func (e *knownEpoch) set(began stint.Instant, process int64) {
	if e.epoch.Load() != int64(began) {
		e.since.Store(int64(uptime())) // before the epoch, so that a reader never takes it for older
		e.epoch.Store(int64(began))
	}
	e.process.Store(process)
}

// began returns when the epoch began.
func (e *knownEpoch) began() stint.Instant {
	began := stint.Instant(e.epoch.Load())
	return max(began, -began)
}

var started = time.Now()

// uptime returns the time since this process started.
func uptime() time.Duration { return time.Since(started) }

// quickEpoch returns whether the quick scripts may decide a part with a loan, and the epoch that
// they must compare with: 0 for none, below 0 for one that follows a loss.
//
// They decide as if nothing of the key was ever lent; they leave states with loans to decide.lua.
// With KeptAfterLoss that is right in each epoch. Without, it is right in an epoch that does not
// follow a loss, and later in the others: when a key that was used up at the beginning of the
// epoch is whole again and all loans from before are written off.
func (s *Store) quickEpoch(p *part) (known stint.Instant, ok bool) {
	e := &s.epochs[p.partition]
	known = stint.Instant(e.epoch.Load())
	switch {
	case p.loan.Node != 0 || p.loan.Epoch != 0 || p.Quick == nil:
		return 0, false
	case p.loan.KeptAfterLoss:
		return 0, true
	case known < 0:
		return known, uptime()-time.Duration(e.since.Load()) > p.Quick.Settled()
	}
	return known, known > 0
}

// processText returns the value of the process's key in an epoch, see script/lua/lend.lua.
func processText(known stint.Instant, process int64) string {
	return fmt.Sprintf("%d %d table: 0x%x", max(known, -known), script.Flag(known < 0), process)
}

// readEpoch returns the epoch of a partition's server, below 0 if it follows a loss, 0 if it has
// none that can be read.
func (s *Store) readEpoch(ctx context.Context, partition int) (stint.Instant, error) {
	b := new(batch)
	b.only, b.epoch = -1, s.keyPrefixes[partition]+epochKey
	b.parts = []part{{name: b.epoch, partition: partition}}
	b.groups = []group{{end: 1}}
	p, err := s.exchange(ctx, b, byPing)
	if err != nil {
		return 0, err
	}
	var began stint.Instant
	var lost int
	if _, err := fmt.Sscan(p.epoch, &began, &lost); err != nil {
		return 0, nil //nolint:nilerr // none, or a value that is no epoch
	}
	if lost != 0 {
		began = -began
	}
	return began, nil
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
	if e := &s.epochs[partition]; e.epoch.Load() != int64(began) {
		e.set(began, 0)
	}
	before := s.checkedEpochs[partition].Swap(int64(began))
	return before != 0 && before != int64(began), nil
}

// epochTake is a take of a key of which nothing is ever lent. It makes the server begin an epoch.
var epochTake = stint.Take{Key: "?probe", Limit: stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second}), Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}}

// beginEpoch makes a partition's server begin an epoch if it has none, and returns the epoch, below
// 0 if it follows a loss.
func (s *Store) beginEpoch(ctx context.Context, partition int) (stint.Instant, error) {
	t, loan := epochTake, stint.Loan{}
	t.Handling = &stint.Handling{Terms: epochTake.Handling.Terms, Place: s.placeOf(partition), Loan: &loan}
	if err := s.Decide(ctx, &stint.Call{Takes: []stint.Take{t}}); err != nil {
		return 0, err
	}
	return stint.Instant(s.epochs[partition].epoch.Load()), nil
}

// placeOf returns a Handling.Place that lies in a partition; "" on one server.
func (s *Store) placeOf(partition int) stint.Key {
	if s.tags == nil {
		return ""
	}
	return stint.Key(s.tags[partition])
}
