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
	one  Verdict // of one request, for the observer
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

// Batches reports whether DecideBatch may be called: not if decisions are traced, one by one.
func (l *Limiter) Batches() bool { return l.tracer == nil }

// DecideBatch decides the requests of a batch, each as DecideInline does. After an error none has a
// decision.
func (l *Limiter) DecideBatch(ctx context.Context, b *Batch) error {
	began := l.begin(uint32(b.Len()))
	err := l.store.Decide(ctx, &b.call)
	if err != nil {
		err = fmt.Errorf("deciding %d limits: %w", b.Len(), err)
	}
	if l.observer != nil {
		l.observe(b, took(began), err)
	}
	return err
}

// observe passes the requests of a batch to the observer, one by one.
func (l *Limiter) observe(b *Batch, took time.Duration, err error) {
	v := &b.one
	v.reset(&Request{Descriptors: v.asked[:0]})
	v.Asked, v.Results, v.taken = append(v.Asked, Asked{}), append(v.Results, Result{}), append(v.taken, 0)
	for i := range b.call.Takes {
		if err == nil {
			v.call.Takes = b.call.Takes[i : i+1]
			v.Decision = b.call.Results[i]
			v.Asked[0].Cost, v.Asked[0].Decision, v.Results[0].Decision = b.call.Takes[i].Cost, v.Decision, v.Decision
		}
		l.observer.Decided(v, took, err)
		took = -1
		v.turn++
	}
	v.call.Takes = nil
}
