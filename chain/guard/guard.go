// Package guard keeps deciding while a store on the network is slow or down. It has a timeout for
// each call, a circuit breaker, and the failure policy of each take.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Defaults of Options.
const (
	DefaultTimeout  = 10 * time.Millisecond
	DefaultFailures = 5
	DefaultPause    = 500 * time.Millisecond
)

// retry is the longest retry time of a denial by a policy, as the store may answer again by then.
const retry = time.Second

// Options are the optional settings of a Store. The zero value is ready to use.
type Options struct {
	// Timeout is how long the store may take to answer a call after it sent the call. A call may
	// wait as long before it is sent, and one and a half times as long in all. The guard ends it
	// within an eighth of Timeout, or a millisecond, after that. 0 means DefaultTimeout. With a
	// Timeout shorter than the store's slowest normal answer policies decide too often; with a
	// longer one each caller waits longer when the store freezes.
	Timeout time.Duration

	// Local decides takes whose policy is stint.Local while the store is away, by their
	// Handling.Local. It must be a store in memory, which cannot fail. If it is nil such takes are
	// denied.
	Local stint.Store

	// Failures is how many errors in a row, which come at once, open the breaker, if they go on for
	// at least Timeout; 0 means DefaultFailures. Three timeouts in a row open it too, see Store.
	Failures int

	// Pause is the longest pause between two tries of a store that is away. A random part of up to
	// half of it is added or subtracted, so that the nodes of a fleet do not try at the same time;
	// 0 means DefaultPause.
	Pause time.Duration

	// Server returns the number, from 0, of the server that has the key of a take, if the store has
	// several servers, such as a Cluster; below 0 if the take has no key. It is called for each
	// take, so it must be fast. Nil means one server. See Store.
	Server func(*stint.Take) int

	// OnChange is called when the breaker of a server has opened or closed, alternately. It may be
	// called during a request, so it must be fast, and must not call the Store. It may be nil.
	OnChange func(Status)
}

// Store is a stint.Store around a store on the network. While that answers, the guard costs a tenth
// of a microsecond and no memory. It is safe for concurrent use, starts no goroutine and needs no
// Close.
//
// # When the store counts as away
//
// The context of a call ends Options.Timeout after the store sends the call, or when the caller's
// context ends. The guard takes the first call of the context's Deadline as the time of sending.
//
// The breaker opens after three timeouts in a row, if the last was at least Options.Timeout after
// the first. Errors that come at once open it after Options.Failures in a row, over at least as
// long. Any answer in between restarts the count. So late answers of a healthy store do not affect
// other calls, and a store that freezes costs three callers a timeout each, or all who call within
// two timeouts. While the breaker is open no call waits for the store. One call at a time tries it,
// after a pause that grows from Timeout to Options.Pause, and the first answer closes the breaker.
//
// A process that was suspended (a paused or very busy machine) cannot read answers in time. The
// guard notices that by its own timer: calls in flight get that time back, and a call that ends
// late because of it does not count as a failure of the store.
//
// If an error is about the call itself (see [stint.ErrWrongCall]), or comes after the caller's own
// context ended (which it wraps then), the guard returns it and does not count it. The guard never
// sends a call twice: if its answer was lost it may have been charged.
//
// A store that cannot read the states of some keys (see [stint.CorruptState]) answers, and closes
// the breaker. Only the takes of these keys follow their policies, and the store decides everything
// that is decided as one with them, as a call without them.
//
// # Several servers
//
// Each server of [Options].Server has its own breaker: a server that freezes affects its own keys
// only. If a call has keys on several servers, the guard passes it on unchanged while none of them
// is away. Otherwise takes on servers that are away follow their policies, and the store decides
// the others as a call without them: if a policy denies a take the call is denied, and a take whose
// source is away does not borrow. The guard divides a call in the same way if a server fails during
// the call, which may then take twice as long, provided that the error names that server and
// reports that nothing is charged on the others, as errors of package store/redis do. With other
// errors all takes of the call follow their policies, and the call counts as a failure of each of
// its servers.
//
// # Decisions while the store is away
//
// Each decision is Degraded and follows Handling.OnFailure:
//
//   - Allow allows the take, without numbers, like an unlimited limit.
//   - Deny denies it. If it is decided as one with others, it denies the call, and the
//     others take nothing.
//   - Local decides by Handling.Local in Options.Local, all or none with the other such
//     takes of the call. The store does not learn of it later.
//
// With [stint.Fail] the call fails with the store's error, or ErrAway.
//
// The retry time of a denial is at most a second, as the store may answer again. All policies allow
// a peek, and a forced take, which Local debits and the others ignore. Sources are not charged: a
// take that borrows is decided without them.
//
// A refund, a settlement and a reset have no policy: they fail with the store's error, or ErrAway.
// Those that undo a Degraded decision are done where that was made, even if the store is back: in
// Local, or nowhere.
//
// # Requirements on the store
//
// Its Decide must call its context's Deadline when it sends the call to the server, must return
// soon after the context is done, and must not use the context after it has returned. If it returns
// later only its own caller waits: the breaker opens when the timeout is over, not when the call
// returns, and tries become rarer with each call that has not returned. A cache that answers
// instead of the store belongs outside of the guard: inside, its answers would count as the
// store's.
type Store struct {
	inner   stint.Store
	options Options
	gate    gate                    // gate of server 0
	gates   atomic.Pointer[[]*gate] // gates of all servers that calls have used, by number
	parts   sync.Pool               // of *part

	gatesMu  sync.Mutex // held while gates are made
	changeMu sync.Mutex // held while Options.OnChange is called
}

var _ stint.Store = (*Store)(nil)

// ErrAway is the error of a call that was not sent because the breaker is open. Nothing was
// charged.
var ErrAway = errors.New("the store does not answer")

// Status is the status of the store, or of one of its servers.
type Status struct {
	// Server is the server's number, see Options.
	Server int

	// Away reports whether the breaker is open, so that policies decide.
	Away bool

	// Since is when Away last changed; zero if it never did.
	Since time.Time

	// Err is why the breaker opened, or why the last try failed; nil while it is closed.
	Err error

	// Timeouts counts calls that had no answer in time, Errors calls that failed otherwise, Spared
	// calls that were not sent because the breaker was open, Undecodable calls for which the store
	// could not read some state. Failed is the last error of Errors, UndecodableErr of Undecodable.
	Timeouts, Errors, Spared, Undecodable uint64
	Failed, UndecodableErr                error
}

// New returns a store that calls inner, and follows the policies when inner fails.
func New(inner stint.Store, options Options) *Store {
	s := &Store{inner: inner, options: options}
	s.parts.New = func() any { return new(part) }
	s.gate.init(&options, 0, s.reportChange)
	s.gates.Store(&[]*gate{&s.gate})
	return s
}

// Status returns the status of the whole store: away if any server is, with the sums of the counts.
// A store that works again stays away until a call tries it.
func (s *Store) Status() Status {
	var sum Status
	for _, one := range s.Servers() {
		if one.Away && !sum.Away {
			sum.Server, sum.Away, sum.Since, sum.Err = one.Server, true, one.Since, one.Err
		}
		if !sum.Away && one.Since.After(sum.Since) {
			sum.Since = one.Since
		}
		sum.Timeouts += one.Timeouts
		sum.Errors += one.Errors
		sum.Spared += one.Spared
		sum.Undecodable += one.Undecodable
		sum.Failed, sum.UndecodableErr = cmp.Or(one.Failed, sum.Failed), cmp.Or(one.UndecodableErr, sum.UndecodableErr)
	}
	return sum
}

// Decide decides the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("guard: the store was not asked: %w", err)
	}
	if changesLocal(call) {
		return s.divide(ctx, call)
	}
	return s.decideWhole(ctx, call)
}

// decideWhole sends the whole call to the store, and passes the result, even a panic, to the gate.
func (s *Store) decideWhole(ctx context.Context, call *stint.Call) error {
	server, several := s.place(call)
	if several != nil {
		return s.decideAcross(ctx, call, several)
	}
	g := s.gateOf(server)
	f := g.enter(ctx, false)
	if f == nil {
		return s.fallBack(ctx, call, nil)
	}
	returned := false
	defer func() {
		if !returned {
			g.leave(f, errPanicked)
		}
	}()
	err := s.inner.Decide(f, call)
	returned = true
	g.leave(f, err)
	return s.conclude(ctx, call, 1, err)
}

// conclude decides a call on that many servers after the store has returned err.
func (s *Store) conclude(ctx context.Context, call *stint.Call, servers int, err error) error {
	if err == nil || errors.Is(err, stint.ErrWrongCall) {
		return err
	}
	if gone := ctx.Err(); gone != nil {
		return fmt.Errorf("guard: %w: %w", gone, err)
	}
	if undecodable := transaction.Undecodable(err); undecodable != nil && !fails(call) {
		return s.decideWithout(ctx, call, undecodable.Takes, false, err)
	}
	if failed := transaction.FailedServers(err); failed != nil && failed.RestUncharged && len(failed.Servers) < servers {
		return s.decideDivided(ctx, call, failed.Servers, err)
	}
	return s.fallBack(ctx, call, err)
}

// errPanicked is the error for the gate if the store panicked; the panic goes on to the caller.
var errPanicked = errors.New("the store panicked")

// reason returns why the store did not decide: its error, or ErrAway if storeErr is nil.
func (s *Store) reason(storeErr error) error {
	if storeErr != nil {
		return storeErr
	}
	if why := s.Status().Err; why != nil {
		return fmt.Errorf("guard: %w: %w", ErrAway, why)
	}
	return fmt.Errorf("guard: %w", ErrAway) // the breaker has closed meanwhile
}

// reportChange calls Options.OnChange for a change of a gate, in order.
func (s *Store) reportChange(g *gate) {
	if s.options.OnChange == nil {
		return
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if status := g.status(); status.Away != g.told {
		g.told = status.Away
		s.options.OnChange(status)
	}
}
