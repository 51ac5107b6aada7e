package app

import (
	"io"
	"log/slog"
	"os"
)

// newLogger returns the log that the configuration asks for. The configuration has
// been checked.
func newLogger(c *Config) *slog.Logger {
	var out io.Writer = os.Stderr
	if c.Output != nil {
		out = c.Output
	}
	options := &slog.HandlerOptions{Level: level(c.LogLevel)}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

func level(name string) slog.Level {
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
