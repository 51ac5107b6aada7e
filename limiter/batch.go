package limiter

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"stint"
)

// Batch are requests that each have a limit of their own, see DecideInline. They are decided in one call to
// the store, which is faster than one call each, but each by itself and in order. The zero Batch is
// empty, and keeps its memory from one use to the next. Only one goroutine may use it at a time.
type Batch struct {
	call stint.Call
	keys []byte
}

// Len returns how many requests the batch has.
func (b *Batch) Len() int { return len(b.call.Takes) }

// Clear empties the batch.
func (b *Batch) Clear() { b.call.Takes, b.keys = b.call.Takes[:0], b.keys[:0] }

// Add adds a request for cost units of limit for a key, which is copied.
func (b *Batch) Add(key []byte, limit *stint.Limit, cost uint32) {
	from := len(b.keys)
	b.keys = append(append(b.keys, inlineSpace), key...)
	// If the keys move to a larger buffer, this one stays as it is.
	b.call.Takes = append(b.call.Takes, stint.Take{
		Key: stint.Key(unsafe.String(&b.keys[from], len(b.keys)-from)), Limit: limit, Cost: cost, Independent: true,
	})
}

// Key returns the key of request number i. It is valid until the batch is cleared.
func (b *Batch) Key(i int) string { return string(b.call.Takes[i].Key)[1:] }

// Decision returns the decision on request number i.
func (b *Batch) Decision(i int) *stint.Decision { return &b.call.Results[i] }

// BatchObserver is an Observer that takes the decisions of a batch at once.
type BatchObserver interface {
	Observer

	// DecidedBatch gets the decisions of a batch, or the error if there are none. took is the duration of
	// all of it, and is negative if it was not measured. Rules, lists and bans have no part in it.
	DecidedBatch(b *Batch, took time.Duration, err error)
}

// Batches reports whether DecideBatch may be called: not if decisions are traced, or observed, one by one.
func (l *Limiter) Batches() bool {
	_, takes := l.observer.(BatchObserver)
	return l.tracer == nil && (l.observer == nil || takes)
}

// DecideBatch decides the requests of a batch, each as DecideInline does. After an error none has a
// decision.
func (l *Limiter) DecideBatch(ctx context.Context, b *Batch) error {
	began := l.begin(uint32(b.Len()))
	err := l.store.Decide(ctx, &b.call)
	if err != nil {
		err = fmt.Errorf("deciding %d limits: %w", b.Len(), err)
	}
	if o, takes := l.observer.(BatchObserver); takes {
		o.DecidedBatch(b, took(began), err)
	}
	return err
}
