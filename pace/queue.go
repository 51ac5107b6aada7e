package pace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// DefaultMaxItems is the default of QueueOptions.MaxItems.
const DefaultMaxItems = 1024

// ErrRunning means that Run is already running; a second one would release items out of order.
var ErrRunning = errors.New("the queue is being run already")

// QueueOptions are the bounds of a Queue. The zero value keeps up to DefaultMaxItems items without
// a time limit.
type QueueOptions[T any] struct {
	// MaxItems is the maximum number of waiting items; further items are dropped. 0 means
	// DefaultMaxItems. Each takes about 100 bytes plus its value.
	MaxItems int

	// MaxAge is the longest time that an item may wait. It is dropped as soon as it is known that
	// the limit will not allow it in time. 0 means no bound.
	MaxAge time.Duration

	// Cost returns the units that an item costs. Nil means 1.
	Cost func(T) uint32

	// Dropped is called for each dropped item, in the goroutine of Offer, Run or Close that drops
	// it. If nil, dropped items are only counted.
	Dropped func(T, Reason)
}

// Reason is why a Queue dropped an item.
type Reason uint8

// The reasons.
const (
	Full     Reason = iota // MaxItems items are waiting
	Late                   // the limit allows it only after MaxAge
	TooLarge               // its cost exceeds the capacity of the limit
	Closed                 // the queue was closed
	reasons
)

var reasonNames = [reasons]string{"full", "late", "too large", "closed"}

// String returns the reason as text.
func (r Reason) String() string { return reasonNames[r%reasons] }

// Queue releases items as a limit allows, oldest first: an item is released immediately if the
// limit allows it, otherwise it waits. The number of waiting items and their waiting time are
// bounded, and dropped items are counted by reason. A Queue is safe for concurrent use; items are
// released only while Run is running. It releases to a function ([NewQueue]) or through a channel
// ([NewChannel]).
type Queue[T any] struct {
	pacer   *Pacer
	release func(context.Context, T) error // nil: release through out
	out     chan T                         // nil: call release
	options QueueOptions[T]

	mu      sync.Mutex
	items   []*item[T] // oldest first
	closed  bool
	running bool
	arrived chan struct{}      // of capacity 1: receives when an item was added or the queue was closed
	stop    context.CancelFunc // ends the wait of Run; nil if Run is not running
	stats   QueueStats
}

type item[T any] struct {
	value T
	cost  uint32
	since time.Time
}

// QueueStats are the counts of items.
type QueueStats struct {
	// Waiting is the number of items that wait now.
	Waiting int

	// Released is the number of items passed to the release function or received from the channel,
	// and Failed the number of these for which the function returned an error.
	Released, Failed uint64

	// Dropped is the number of dropped items for each Reason.
	Dropped [reasons]uint64
}

// NewQueue returns a queue that calls release for one item after another; while release runs, no
// other item is released. Its context is that of Run.
func NewQueue[T any](p *Pacer, release func(context.Context, T) error, options QueueOptions[T]) *Queue[T] {
	if options.MaxItems <= 0 {
		options.MaxItems = DefaultMaxItems
	}
	return &Queue[T]{pacer: p, release: release, options: options, arrived: make(chan struct{}, 1)}
}

// NewChannel returns a queue that releases items through the returned channel, which may have
// several receivers. An item is sent when the limit allows it and a receiver is ready; until then
// it waits as the first item, and its MaxAge applies. The channel is closed after the queue is
// closed and Run has returned.
func NewChannel[T any](p *Pacer, options QueueOptions[T]) (*Queue[T], <-chan T) {
	q := NewQueue(p, nil, options)
	q.out = make(chan T)
	return q, q.out
}

// Offer appends an item to the queue and reports whether it was accepted. It never blocks.
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

// Run releases items until ctx ends or the store fails, and returns that error, or until the queue
// is closed, and returns nil. It returns ErrTooLate as soon as no further item can be released
// before the deadline of ctx. After an error no item is lost: the items keep waiting, and Run may
// be called again. Run must not be called while another Run is running.
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

// start registers the function that ends the wait of a new Run. It returns false if Run is running
// already.
func (q *Queue[T]) start(stop context.CancelFunc) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return false
	}
	q.running, q.stop = true, stop
	return true
}

// end records that Run returns.
func (q *Queue[T]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running, q.stop = false, nil
	if q.closed {
		q.closeOut()
	}
}

// closeOut closes the channel, when nothing can be sent any more.
func (q *Queue[T]) closeOut() {
	if q.out != nil {
		close(q.out)
		q.out = nil
	}
}

// oldest waits for an item and returns it; nil and nil if the queue is closed.
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

// serve waits until the oldest item may pass and releases it, or drops it. waiting is ctx, but also
// ends when the queue is closed.
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
	if !q.pop(it) { // the queue was closed meanwhile
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

// send sends an allowed item through the channel. If nobody receives it in time, its units are
// given back.
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

// giveBack gives back the units of an item that is not released.
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

// Close drops all waiting items and refuses new ones. It does not wait for an item that is being
// released: Run returns after that.
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

// Stats returns the counts of items.
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

// wake wakes Run.
func (q *Queue[T]) wake() {
	select {
	case q.arrived <- struct{}{}:
	default: // a signal is pending already
	}
}

// pop removes the oldest item, and reports whether it is still it.
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
