package pace

import (
	"context"

	"stint"
)

// Filter sorts items by a limit: one that may pass now goes to forward, any other to
// drop. It is meant for streams in which an item that comes too soon is worth nothing;
// where it is to be kept, see [Queue]. It is safe for concurrent use; the functions are
// called in the goroutine of Offer, so several goroutines call them at once.
type Filter[T any] struct {
	pacer   *Pacer
	forward func(T)
	drop    func(T, stint.Decision)
}

// NewFilter returns a filter. drop is told why, and when the next one would pass; nil
// drops in silence.
func NewFilter[T any](p *Pacer, forward func(T), drop func(T, stint.Decision)) *Filter[T] {
	return &Filter[T]{pacer: p, forward: forward, drop: drop}
}

// Offer puts one item, of cost 1, to the limit and calls forward or drop with it. An
// error means that the store could not decide, and that neither was called.
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
