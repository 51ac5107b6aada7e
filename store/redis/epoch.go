package redis

import (
	"context"
	"sync/atomic"
	"time"

	"stint"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// knownEpoch is the epoch in the last answer of a server. It is safe for concurrent use. In the zero
// knownEpoch no answer had one yet.
type knownEpoch struct{ now atomic.Pointer[epoch] }

// epoch is an epoch and the process of a server in which an answer was in force.
type epoch struct {
	began   stint.Instant // below 0 if it follows a loss
	process int64         // the address of the process's interpreter; 0: unknown
	since   time.Duration // uptime of the first answer in this epoch
	scripts *connect.QuickScripts
}

// set stores the epoch of an answer, and the server's process.
func (e *knownEpoch) set(began stint.Instant, process int64) {
	old := e.load()
	if old.began == began && old.process == process {
		return
	}
	next := epoch{began: began, process: process, since: uptime()}
	if old.began == began {
		next.since = old.since
	}
	if process != 0 {
		next.scripts = connect.NewQuickScripts(script.In(began, process))
	}
	e.now.Store(&next)
}

// load returns the epoch, the zero epoch if none is known.
func (e *knownEpoch) load() epoch {
	if known := e.now.Load(); known != nil {
		return *known
	}
	return epoch{}
}

// at returns when the epoch began.
func (e *epoch) at() stint.Instant { return max(e.began, -e.began) }

var started = time.Now()

// uptime returns the time since this process started.
func uptime() time.Duration { return time.Since(started) }

// scriptsIn returns the scripts that may decide a part with a loan in the epoch that this store
// remembers of its partition, nil if only decide.lua and lease.lua may.
//
// They decide as if this node had nothing of the key; they leave states with loans that change the
// answer to lease.lua and decide.lua. With KeptAfterLoss that is right in each epoch. Without, it is right in an
// epoch that does not follow a loss, and later in the others: when a key that was used up at the
// beginning of the epoch is whole again and all loans from before are written off.
func (p *part) scriptsIn(e *epoch) *connect.QuickScripts {
	switch {
	case p.loan.Node != 0 || p.loan.Epoch != 0 || p.Quick == nil:
		return nil
	case p.loan.KeptAfterLoss:
		return connect.PlainScripts
	case e.began < 0 && uptime()-e.since <= p.Quick.Settled():
		return nil
	}
	return e.scripts
}

// checks reports whether the quick scripts that decide a part check that no epoch was lost.
func (p *part) checks() bool { return p.quick != nil && p.quick != connect.PlainScripts }

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
	return script.ReadEpoch(p.epoch), nil
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
	if e := &s.epochs[partition]; e.load().began != began {
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
	return s.epochs[partition].load().began, nil
}

// placeOf returns a Handling.Place that lies in a partition; "" on one server.
func (s *Store) placeOf(partition int) stint.Key {
	if s.tags == nil {
		return ""
	}
	return stint.Key(s.tags[partition])
}
