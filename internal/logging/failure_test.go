package logging

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// One failure is logged in a minute, with the number of those before.
func TestFailureLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	f := FailureLog{Log: slog.New(slog.NewTextHandler(&out, nil)), Event: "look-up failed", Hint: "look", Now: func() time.Time { return now }}
	for range 3 {
		f.Report(errors.New("disk"))
	}
	now = now.Add(time.Minute)
	f.Report(errors.New("again"))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `msg="look-up failed" error=disk before=0 hint=look`) || !strings.Contains(lines[1], "error=again before=3") {
		t.Errorf("logged\n%s", out.String())
	}
}
