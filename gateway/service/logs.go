package service

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
)

// logs passes what the service logs to the log of the configuration in force, as the log of an
// earlier one is closed. It is immutable but for the target that all copies share.
type logs struct {
	target *atomic.Pointer[slog.Handler]
	grow   []func(slog.Handler) slog.Handler // attributes and groups, in order
}

// newLogs returns a handler that passes records to log.
func newLogs(log *slog.Logger) *logs {
	l := &logs{target: new(atomic.Pointer[slog.Handler])}
	l.use(log)
	return l
}

// use passes further records to log.
func (l *logs) use(log *slog.Logger) {
	h := log.Handler()
	l.target.Store(&h)
}

// Enabled implements slog.Handler.
func (l *logs) Enabled(ctx context.Context, level slog.Level) bool {
	return (*l.target.Load()).Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *logs) Handle(ctx context.Context, r slog.Record) error {
	h := *l.target.Load()
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
