package pace

import (
	"context"

	"stint"
)

// Filter divides items by a limit: it passes an item that is allowed now to forward, and any other
// to drop. Use it for items that are worthless if delayed; to keep them, use a [Queue]. It is safe
// for concurrent use. Offer calls the functions in its own goroutine, so they may be called
// concurrently.
type Filter[T any] struct {
	pacer   *Pacer
	forward func(T)
	drop    func(T, stint.Decision)
}

// NewFilter returns a filter. drop receives the decision, which has the time until the next item
// passes; it may be nil.
func NewFilter[T any](p *Pacer, forward func(T), drop func(T, stint.Decision)) *Filter[T] {
	return &Filter[T]{pacer: p, forward: forward, drop: drop}
}

// Offer takes one unit for an item and calls forward or drop with it. An error means that the store
// failed and neither was called.
func (f *Filter[T]) Offer(ctx context.Context, item T) (forwarded bool, err error) {
	d, err := f.pacer.Take(ctx, 1)
	switch {
	case err != nil:
		return false, err
	case d.Allowed:
		f.forward(item)
	case f.drop != nil:
		f.drop(item, d)
	}
	return d.Allowed, nil
}
