// Package guard keeps deciding while a store on the network is slow or gone: a
// deadline for each call, a circuit breaker, and the failure policy of each take.
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

// What Options mean where they say nothing.
const (
	DefaultTimeout  = 10 * time.Millisecond
	DefaultFailures = 5
	DefaultPause    = 500 * time.Millisecond
)

// retry is the longest that a denial by a policy asks its client to wait: the store
// may be back by then.
const retry = time.Second

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Timeout is how long the store may take to answer a call, from when the call leaves for it.
	// A call may wait as long before it leaves, and one and a half times as long in all. It is cut
	// off within an eighth of Timeout, or a millisecond, after that. 0 means DefaultTimeout.
	// Shorter than the store's slowest ordinary answer, and policies answer in its place; longer,
	// and each caller waits so long when it freezes.
	Timeout time.Duration

	// Local decides takes whose policy is stint.Local while the store is away, by
	// their Handling.Local. It must be a store that cannot fail, in memory. Nil: such takes
	// are denied.
	Local stint.Store

	// Failures is how many errors in a row, each told at once, open the breaker, if they
	// have gone on for Timeout; 0 means DefaultFailures. Three calls in a row that wait in vain
	// open it too, see Store.
	Failures int

	// Pause is the longest time between two tries whether the store is back, before up to
	// half of it is added or taken off, so that a fleet does not try as one; 0 means
	// DefaultPause.
	Pause time.Duration

	// Server returns the number of the server that holds the key of a take, from 0 on, of a
	// store that has several, such as a Cluster; below 0 where the take has no key. It is called
	// for each take, so it must be quick. Nil: there is one. See Store.
	Server func(*stint.Take) int

	// OnChange is told when the breaker of a server has opened or closed, by turns. It may be called on
	// the path of a request, so it must be quick, and must not call the Store. Nil: nobody
	// is told.
	OnChange func(Status)
}

// Store is a stint.Store around one on the network. While that answers, it costs a
// tenth of a microsecond and no memory. It is safe for concurrent use, starts no
// goroutine and needs no end.
//
// # When the store counts as away
//
// A call gets a context that ends Options.Timeout after the call leaves for the store, or when
// the caller's does. A call leaves when the store first asks that context for its deadline.
//
// The breaker opens when three calls in a row waited in vain, and the last of them at least
// Options.Timeout after the first. Errors that come at once open it when there were
// Options.Failures in a row, over at least as long. Any answer in between starts the count
// again. So late answers of a store that is well change nothing for other calls, and a store
// that freezes costs three callers a deadline each, or all who ask within two deadlines. While the
// breaker is open no call waits for the store. One at a time tries it, after a pause that grows
// from Timeout to Options.Pause, and the first answer closes the breaker.
//
// A process that stands still (a paused or very busy machine) cannot read answers in time.
// The guard sees by its own timer that it stood still: calls under way get that time back,
// and a call that ends late because of it does not count as a failure of the store.
//
// An error that is about the call itself (see [stint.ErrWrongCall]), or that comes after the
// caller's own context ended (which it wraps then), is returned and says nothing of the store. A
// call is never asked twice: where its answer was lost it may have been charged.
//
// A store that cannot read the states of some keys (see [stint.CorruptState]) is there, and
// closes the breaker. Only the takes of these keys are answered by their policies, and all
// else that is decided as one with them by the store, as a call without them.
//
// # Several servers
//
// Each server of [Options].Server has a breaker of its own: one that freezes concerns its own keys
// only. A call of keys on several servers is put to the store as it is while none of them is
// away. Takes on those that are follow their policies, and the store decides the others as a call
// without them: one that a policy denies denies the call, and what leans on a server that is away
// leans on nothing. A call during which a server fails is divided in the same way, and so may
// take twice as long, where the store says which server that was and that nothing of the call is
// charged elsewhere, as package store/redis does. Of others nobody knows: all that they ask for
// follows its policy, and counts as a failure of each of their servers.
//
// # What is answered then
//
// Each decision is Degraded and follows Handling.OnFailure:
//
//   - Allow lets the take pass, without numbers, like an unlimited limit.
//   - Deny refuses it. Of takes that are decided as one it denies the call, and the
//     others then take nothing.
//   - Local asks Options.Local for Handling.Local, all or none with the other such takes
//     of the call. The store is not told later.
//
// Of [stint.Fail] the call fails with the store's error, or ErrAway.
//
// A denial asks to wait for a second at most, as the store may be back. A peek is
// allowed by all policies; so is a forced take, which Local debits and the others
// forget. What others lean on is not asked: a take that leans falls back alone.
//
// A refund, a settlement and a reset have no policy: they fail with the store's error,
// or ErrAway. Those that undo a Degraded decision go where that was made, also when the
// store is back: to Local, or nowhere.
//
// # What the store must do
//
// Its Decide must ask its context for the deadline when the call leaves for the server, must
// return soon after the context is done, and must not use the context once it has returned. One that stays longer holds its caller, and only that: the
// breaker opens when the time is over, not when the call returns, and tries get rarer
// with each call that is still held. What answers from memory, in place of the store,
// belongs outside of the guard: inside, its answers would pass for the store's.
type Store struct {
	inner   stint.Store
	options Options
	gate    gate                    // of server 0
	gates   atomic.Pointer[[]*gate] // of all servers that were met, by number
	parts   sync.Pool               // *part

	growing sync.Mutex // held by who makes gates
	telling sync.Mutex // one at a time calls Options.OnChange
}

var _ stint.Store = (*Store)(nil)

// ErrAway says that the store was not asked because it did not answer before. Nothing
// was charged.
var ErrAway = errors.New("the store does not answer")

// Status says how the store is, or one server of it.
type Status struct {
	// Server is its number, see Options.
	Server int

	// Away says that the breaker is open and policies answer.
	Away bool

	// Since is when that changed last; the zero Time where it never did.
	Since time.Time

	// Err is why the breaker opened, or why the last try failed; nil while it is closed.
	Err error

	// Timeouts and Errors count the calls that the store failed to answer in time, or
	// failed otherwise; Spared those that did not ask it while it was away; Undecodable those of
	// which it could not read some state. Failed and UndecodableErr are what it said of the last of
	// Errors and of Undecodable.
	Timeouts, Errors, Spared, Undecodable uint64
	Failed, UndecodableErr                error
}

// New returns a store that asks inner, and follows the policies where inner cannot.
func New(inner stint.Store, options Options) *Store {
	s := &Store{inner: inner, options: options}
	s.parts.New = func() any { return new(part) }
	s.gate.init(&options, 0, s.tell)
	s.gates.Store(&[]*gate{&s.gate})
	return s
}

// Status returns how the store is: away where any server is, with the counts of all. While nobody
// asks, a store that is back stays away.
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

// Decide answers the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("guard: the store was not asked: %w", err)
	}
	if apart(call) {
		return s.divide(ctx, call)
	}
	return s.whole(ctx, call)
}

// whole asks the store for the whole call, and lets the gate know what came of it, be it a panic.
func (s *Store) whole(ctx context.Context, call *stint.Call) error {
	server, several := s.place(call)
	if several != nil {
		return s.across(ctx, call, several)
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

// conclude answers a call to so many servers when the store has said err.
func (s *Store) conclude(ctx context.Context, call *stint.Call, servers int, err error) error {
	if err == nil || errors.Is(err, stint.ErrWrongCall) {
		return err
	}
	if gone := ctx.Err(); gone != nil {
		return fmt.Errorf("guard: %w: %w", gone, err)
	}
	if undecodable := transaction.Undecodable(err); undecodable != nil && !fails(call) {
		return s.without(ctx, call, undecodable.Takes, false, err)
	}
	if said := transaction.FailedServers(err); said != nil && said.Whole && len(said.Servers) < servers {
		return s.divided(ctx, call, said.Servers, err)
	}
	return s.fallBack(ctx, call, err)
}

// errPanicked stands for a panic that goes on to the caller.
var errPanicked = errors.New("the store panicked")

// reason returns why the store did not decide: what it said, or that it was not asked.
func (s *Store) reason(said error) error {
	if said != nil {
		return said
	}
	if why := s.Status().Err; why != nil {
		return fmt.Errorf("guard: %w: %w", ErrAway, why)
	}
	return fmt.Errorf("guard: %w", ErrAway) // and is back by now
}

// tell passes a change of a gate on, in order.
func (s *Store) tell(g *gate) {
	if s.options.OnChange == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	if status := g.status(); status.Away != g.told {
		g.told = status.Away
		s.options.OnChange(status)
	}
}
