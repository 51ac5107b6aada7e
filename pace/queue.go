package pace

import (
	"context"
	"errors"
	"slices"
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
// be running for anything to be released. It releases to a function ([NewQueue]) or
// through a channel ([NewChannel]).
type Queue[T any] struct {
	pacer   *Pacer
	release func(context.Context, T) error // nil: through out
	out     chan T                         // nil: by release
	options QueueOptions[T]

	mu      sync.Mutex
	items   []*item[T] // oldest first
	closed  bool
	running bool
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

	// Released is how many went to the release function or were received from the
	// channel, and Failed for how many of these the function returned an error.
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

// NewChannel returns a queue that releases through the channel beside it, which may
// have several receivers. An item is handed over when the limit allows it and a receiver
// is there; until then its MaxAge counts, and it is the next of all that wait. The
// channel is closed once the queue is closed and Run has returned.
func NewChannel[T any](p *Pacer, options QueueOptions[T]) (*Queue[T], <-chan T) {
	q := NewQueue(p, nil, options)
	q.out = make(chan T)
	return q, q.out
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
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	if !q.start(stop) {
		return ErrRunning
	}
	defer q.end()
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

// start notes how to end the wait of a Run that begins; false if one is running.
func (q *Queue[T]) start(stop context.CancelFunc) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return false
	}
	q.running, q.stop = true, stop
	return true
}

// end notes that Run returns.
func (q *Queue[T]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running, q.stop = false, nil
	if q.closed {
		q.closeOut()
	}
}

// closeOut closes the channel, once nothing can be sent any more.
func (q *Queue[T]) closeOut() {
	if q.out != nil {
		close(q.out)
		q.out = nil
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
		return q.giveBack(ctx, it)
	}
	if q.release == nil {
		return q.send(ctx, waiting, it)
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

// send hands an item over that may pass. Where nobody receives it while it may wait,
// its units are given back.
func (q *Queue[T]) send(ctx, waiting context.Context, it *item[T]) error {
	select {
	case q.out <- it.value:
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stats.Released++
		return nil
	case <-waiting.Done():
	}
	err := q.giveBack(ctx, it)
	switch {
	case q.isClosed():
		q.drop(it, Closed)
	case ctx.Err() != nil:
		q.putBack(it)
		return ctx.Err()
	default:
		q.drop(it, Late)
	}
	return err
}

// giveBack gives back what an item was charged that is not released.
func (q *Queue[T]) giveBack(ctx context.Context, it *item[T]) error {
	_, err := q.pacer.GiveBack(context.WithoutCancel(ctx), it.cost, nil)
	return err
}

// putBack makes an item the oldest again, unless the queue was closed.
func (q *Queue[T]) putBack(it *item[T]) {
	q.mu.Lock()
	closed := q.closed
	if !closed {
		q.items = slices.Insert(q.items, 0, it)
	}
	q.mu.Unlock()
	if closed {
		q.drop(it, Closed)
	}
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
	if !q.running {
		q.closeOut()
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
