// Package memcached stores the states of limits in memcached, so that many nodes share them.
package memcached

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
	"stint/store/memcached/meta"
)

// DefaultNamespace is the namespace if Options set none.
const DefaultNamespace = "stint"

// Options are the optional settings of a Store. The zero value is ready to use.
type Options struct {
	// Namespace is the beginning of every key, so that several services can use one server: stores
	// with different namespaces share nothing, stores with the same one share all states. It has at
	// most 64 letters, digits, dots, dashes and underscores. "" means DefaultNamespace.
	Namespace string

	// Connections is how many connections the Store makes; 0 means meta.DefaultConnections.
	Connections int

	// Clock is this node's clock, which decides: memcached has none. Nil means the machine's clock. A
	// node whose clock is ahead opens windows early, and refills buckets early, by that much.
	Clock func() time.Time
}

// Store keeps the state of every key in memcached 1.6.18 or later. It never lets pass more than a
// limit allows, across any number of nodes, and is safe for concurrent use. Make one with Open and
// Close it in the end; the zero Store is not usable.
//
// # How it decides
//
// memcached adds to a counter in one step, and replaces an item if nobody else has replaced it
// meanwhile (compare-and-swap). It has no scripts, and no step over two keys. So a Store has two ways:
//
//   - Windows and blocks that begin at fixed times are counters, with the number of the window in the
//     key: fixed_window, and sliding_window of up to 64 blocks. A take adds its cost and reads the sum,
//     in one round trip. If it does not fit, what it added is subtracted at once. Until that has
//     arrived, another take may be denied that would have passed; none passes that must not.
//   - All else is one item: token_bucket, leaky_bucket, sliding_log, penalty, fixed_window that begins
//     with the first request or carries its debt, sliding_window that starts used up or has more
//     blocks. A take reads the item, computes with the arithmetic of the root package, and writes it;
//     if others wrote meanwhile it begins again. The calls of a process that wait for one key are
//     decided on one state and written at once. While calls keep coming, the item that was written
//     last is known, and need not be read.
//
// The time is this node's own (see Options.Clock), but never before the last change of an item by any
// node.
//
// # Several takes in one call
//
// All pass or none is charged. First all keys are tested at once, then all are charged at once; if one
// denies then because of other calls, the others get back what they were charged. So no more passes
// than limits allow, and denials change nothing; but between two keys of a call others may see some
// charged and others not yet, or units that are then given back, and be denied because of that.
//
// # Keys and values
//
// An item is NAMESPACE:ALGORITHM:KEY, a counter NAMESPACE:ALGORITHM@LENGTH.NUMBER:KEY. A key that
// memcached would not take (longer than 250 bytes with all that, or with a blank, a control character
// or a byte above ASCII) is replaced with # and 32 hexadecimal digits of its SHA-256. All keys expire
// about 15 seconds after they count no more, an hour after it if Call.At is not the present.
//
// When the numbers of a limit change, an item is carried over, see migrate.Record. Counters keep their
// counts while the length of the window or block stays; under another length they begin unused.
//
// # What it cannot do
//
// It lends no units to nodes (see [stint.Loan]). memcached loses all counts when it ends, and some
// when it has no more memory and was not started with -M; see Look.
//
// # Errors
//
// A [stint.CorruptState] lists the takes whose keys hold a value that this release cannot read:
// everything that is not decided as one with them was decided. Any other error means that the call was
// not decided. It wraps [stint.ErrUnknown] if the call may have been charged; otherwise nothing was.
// Store never sends a charge again after ErrUnknown. It connects at its first call and again after a
// connection was lost.
type Store struct {
	namespace string
	address   string // of the server
	clock     func() time.Time
	client    *meta.Client
	onlyItems bool // no limit is counted; for tests

	mu         sync.Mutex
	queues     map[string]*queue      // by the name of the item
	background transaction.Background // goroutines of queues, and refunds that go on after their call returned

	seen          atomic.Pointer[numbers] // of the last Look
	evictingUntil atomic.Int64            // Unix nanoseconds; see evicting
}

var _ stint.Store = (*Store)(nil)

// Close closes all connections. Calls in flight fail.
func (s *Store) Close() {
	s.client.Close()
	s.background.Close()
}

// Decide decides the call, see stint.Store. It blocks until the server has answered or ctx is done.
func (s *Store) Decide(ctx context.Context, c *stint.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := cmp.Or(transaction.CheckApart(c), limits.RefuseGrants(c)); err != nil {
		return err
	}
	if err := s.evicting(); err != nil {
		return err
	}
	if transaction.Depends(c) {
		return transaction.Apart(ctx, c, s.Decide)
	}
	c.SizeResults()
	if len(c.Takes) == 1 {
		return s.decideOne(ctx, c)
	}
	return s.decideGroups(ctx, c)
}

// decideOne decides a call of one take.
func (s *Store) decideOne(ctx context.Context, c *stint.Call) (err error) {
	t := &c.Takes[0]
	q := query{key: t.Key, limit: t.Limit, phase: transaction.Charge, op: t.Op, cost: uint64(t.Cost), undo: t.Undo, at: c.At}
	c.Results[0], _, err = s.ask(ctx, &q)
	if _, ok := asUndecodable(err); ok {
		return s.corrupt(err, []int{0})
	}
	return err
}
