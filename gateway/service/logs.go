package service

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
)

// logs passes what the service logs to the log of the configuration in force, as the log of an
// earlier one is closed. Records about the store get its place in the configuration file. It is immutable
// but for the target that all copies share.
type logs struct {
	target *atomic.Pointer[target]
	grow   []func(slog.Handler) slog.Handler // attributes and groups, in order
}

// target is the log of a configuration.
type target struct {
	handler      slog.Handler
	store, place string // name and place of its store
}

// newLogs returns a handler that passes records to the log of a configuration.
func newLogs(a *App) *logs {
	l := &logs{target: new(atomic.Pointer[target])}
	l.use(a)
	return l
}

// use passes further records to the log of a configuration.
func (l *logs) use(a *App) {
	l.target.Store(&target{handler: a.ctx.Slogger().Handler(), store: a.config.StoreName(), place: a.place("store")})
}

// Enabled implements slog.Handler.
func (l *logs) Enabled(ctx context.Context, level slog.Level) bool {
	return l.target.Load().handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *logs) Handle(ctx context.Context, r slog.Record) error {
	t := l.target.Load()
	h := t.handler
	r.Attrs(func(a slog.Attr) bool {
		about := a.Key == "store" && a.Value.String() == t.store
		if about {
			r = r.Clone()
			r.AddAttrs(slog.String("place", t.place))
		}
		return !about
	})
	for _, grow := range l.grow {
		h = grow(h)
	}
	return h.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l *logs) WithGroup(name string) slog.Handler {
	return l.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l *logs) with(grow func(slog.Handler) slog.Handler) slog.Handler {
	return &logs{l.target, append(slices.Clip(l.grow), grow)}
}
