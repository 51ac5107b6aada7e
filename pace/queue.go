package pace

import (
	"context"
	"errors"
	"sync"
	"time"
)

// DefaultMaxItems is how many items a Queue keeps where its options are silent.
const DefaultMaxItems = 1024

// ErrRunning says that a Queue is run already: two would release out of order.
var ErrRunning = errors.New("the queue is being run already")

// QueueOptions bound a Queue. The zero value keeps up to DefaultMaxItems items for as
// long as it takes.
type QueueOptions[T any] struct {
	// MaxItems is how many items may wait; one more is dropped. 0: DefaultMaxItems. Each
	// costs about 100 bytes and what it holds.
	MaxItems int

	// MaxAge is how long an item may wait. It is dropped as soon as it is known that the
	// limit will not let it pass by then. 0: no bound.
	MaxAge time.Duration

	// Cost returns the units that an item costs. Nil: 1.
	Cost func(T) uint32

	// Dropped is told of each item that is not released, and why. It is called in the
	// goroutine that found out: of Offer, Run or Close. Nil: they are only counted.
	Dropped func(T, Reason)
}

// Reason is why a Queue dropped an item.
type Reason uint8

// The reasons.
const (
	Full     Reason = iota // as many items waited as may
	Late                   // the limit allows it only after its MaxAge
	TooLarge               // its cost is more than the limit ever allows
	Closed                 // the queue was closed
	reasons
)

var reasonNames = [reasons]string{"full", "late", "too large", "closed"}

// String returns the reason in words.
func (r Reason) String() string { return reasonNames[r%reasons] }

// Queue releases items as a limit allows, oldest first: what comes while there is room
// is released at once, what is over waits. It keeps at most so many items for at most
// so long, and counts what it drops and why. It is safe for concurrent use; Run must
// be running for anything to be released. See [NewQueue].
type Queue[T any] struct {
	pacer   *Pacer
	release func(context.Context, T) error
	options QueueOptions[T]
	running sync.Mutex

	mu      sync.Mutex
	items   []*item[T] // oldest first
	closed  bool
	arrived chan struct{}      // of capacity 1: an item came, or the queue was closed
	stop    context.CancelFunc // ends the wait of Run; nil while nobody runs
	stats   QueueStats
}

type item[T any] struct {
	value T
	cost  uint32
	since time.Time
}

// QueueStats are what became of the items so far.
type QueueStats struct {
	// Waiting is how many wait now.
	Waiting int

	// Released is how many went to the release function, and Failed for how many of
	// these it returned an error.
	Released, Failed uint64

	// Dropped is how many were dropped for each Reason.
	Dropped [reasons]uint64
}

// NewQueue returns a queue that releases to the given function, one item after the
// other: while it is busy nothing else is released. Its context is that of Run.
func NewQueue[T any](p *Pacer, release func(context.Context, T) error, options QueueOptions[T]) *Queue[T] {
	if options.MaxItems <= 0 {
		options.MaxItems = DefaultMaxItems
	}
	return &Queue[T]{pacer: p, release: release, options: options, arrived: make(chan struct{}, 1)}
}

// Offer puts an item at the end of the queue and says whether it was taken in. It
// never blocks.
func (q *Queue[T]) Offer(value T) bool {
	it := &item[T]{value: value, cost: 1, since: time.Now()}
	if q.options.Cost != nil {
		it.cost = q.options.Cost(value)
	}
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		q.drop(it, Closed)
		return false
	case len(q.items) >= q.options.MaxItems:
		q.mu.Unlock()
		q.drop(it, Full)
		return false
	}
	q.items = append(q.items, it)
	q.mu.Unlock()
	q.wake()
	return true
}

// Run releases items until ctx ends or the store cannot decide, and returns that
// error, or until the queue is closed, and returns nil. It returns early, with
// ErrTooLate, where nothing more can be released before the deadline of ctx. After an
// error nothing is lost: what waits goes on waiting, and Run may be called again. Only one Run may run.
func (q *Queue[T]) Run(ctx context.Context) error {
	if !q.running.TryLock() {
		return ErrRunning
	}
	defer q.running.Unlock()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	q.mu.Lock()
	q.stop = stop
	q.mu.Unlock()
	for {
		it, err := q.oldest(ctx)
		if it == nil {
			return err
		}
		if err := q.serve(ctx, waiting, it); err != nil {
			return err
		}
	}
}

// oldest waits for an item and returns it; nil and nil for a closed queue.
func (q *Queue[T]) oldest(ctx context.Context) (*item[T], error) {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return nil, nil
		}
		if len(q.items) > 0 {
			it := q.items[0]
			q.mu.Unlock()
			return it, ctx.Err()
		}
		q.mu.Unlock()
		select {
		case <-q.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// serve waits until the oldest item may pass and releases it, or drops it. waiting is
// ctx until the queue is closed.
func (q *Queue[T]) serve(ctx, waiting context.Context, it *item[T]) error {
	ends, bounded := ctx.Deadline()
	oldest := it.since.Add(q.options.MaxAge)
	aged := q.options.MaxAge > 0 && (!bounded || oldest.Before(ends))
	if aged {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(waiting, oldest)
		defer cancel()
	}
	err := q.pacer.Wait(waiting, it.cost)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case q.isClosed():
		return nil
	case errors.Is(err, ErrNever):
		q.dropOldest(it, TooLarge)
		return nil
	case aged && (errors.Is(err, ErrTooLate) || waiting.Err() != nil):
		q.dropOldest(it, Late)
		return nil
	default:
		return err
	}
	if !q.pop(it) { // closed just now
		_, err := q.pacer.GiveBack(ctx, it.cost, nil)
		return err
	}
	err = q.release(ctx, it.value)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Released++
	if err != nil {
		q.stats.Failed++
	}
	return nil
}

// Close drops what waits and lets nothing in any more. What is being released is not
// waited for: Run returns after it.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	rest := q.items
	q.items, q.closed = nil, true
	if q.stop != nil {
		q.stop()
	}
	q.mu.Unlock()
	q.wake()
	for _, it := range rest {
		q.drop(it, Closed)
	}
}

// Stats returns what became of the items so far.
func (q *Queue[T]) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Waiting = len(q.items)
	return s
}

func (q *Queue[T]) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// wake tells Run to look again.
func (q *Queue[T]) wake() {
	select {
	case q.arrived <- struct{}{}:
	default: // it was told already
	}
}

// pop takes the oldest item out, and says whether it still was there.
func (q *Queue[T]) pop(it *item[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 || q.items[0] != it {
		return false
	}
	q.items[0] = nil
	q.items = q.items[1:]
	return true
}

func (q *Queue[T]) dropOldest(it *item[T], why Reason) {
	if q.pop(it) {
		q.drop(it, why)
	}
}

func (q *Queue[T]) drop(it *item[T], why Reason) {
	q.mu.Lock()
	q.stats.Dropped[why]++
	q.mu.Unlock()
	if q.options.Dropped != nil {
		q.options.Dropped(it.value, why)
	}
}
