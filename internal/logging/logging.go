// Package logging creates the log of a program from its settings, and limits repeated log lines:
// about wrong requests of peers, unknown names and failed fetches of key sets (misuse.go,
// unknown.go), about faults in general (fault_limiter.go), and about unavailable servers of a store
// (store_servers.go).
package logging

import (
	"io"
	"log/slog"
)

// New returns a log that writes to out in a format, "text" or "json", and drops records below a
// level: "debug", "info", "warn" or "error".
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
