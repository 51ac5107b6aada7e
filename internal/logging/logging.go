// Package logging makes the log of a program as its settings say, and limits what is logged
// again and again: wrong requests of peers, names that no rules have, key sets that cannot be
// fetched (misuse.go, unknown.go), faults in general (fault_limiter.go), and servers of a store
// that cannot be used (store_servers.go).
package logging

import (
	"io"
	"log/slog"
)

// New returns a log to out in a format, "text" or "json", of all that has at least a level:
// "debug", "info", "warn" or "error".
func New(out io.Writer, format, level string) *slog.Logger {
	options := &slog.HandlerOptions{Level: levelOf(level)}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

func levelOf(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
