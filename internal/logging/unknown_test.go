package logging_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"stint/internal/logging"
)

// Each unknown name is logged once a minute, and many made-up names neither flood the log nor use
// memory.
func TestUnknown(t *testing.T) {
	var log strings.Builder
	now := time.Unix(1e9, 0)
	u := &logging.UnknownLog{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }}
	lines := func(want int, words string) {
		t.Helper()
		if n := strings.Count(log.String(), words); n != want {
			t.Errorf("%d lines with %q, want %d:\n%s", n, words, want, log.String())
		}
		log.Reset()
	}
	for range 1000 {
		u.Report("shop", "")
		u.Report("api", "usr")
		u.Report("api", "user/paht")
	}
	lines(3, "level=WARN")
	now = now.Add(59 * time.Second)
	u.Report("shop", "")
	lines(0, "level=WARN")
	now = now.Add(time.Second)
	u.Report("shop", "")
	lines(1, `domain=shop`)
	now = now.Add(time.Minute)
	if allocs := testing.AllocsPerRun(1000, func() { u.Report("shop", "usr") }); allocs > 0 {
		t.Errorf("a name that was logged costs %v allocations", allocs)
	}
	log.Reset()
	for i := range 100_000 {
		u.Report(fmt.Sprint("made up ", i), "")
	}
	lines(logging.MostUnknown-1, "unknown domain")
	now = now.Add(time.Minute)
	u.Report("line\nbreak", "")
	if !strings.Contains(log.String(), fmt.Sprint("requests=", 100_000-logging.MostUnknown+1)) || !strings.Contains(log.String(), `domain="line\nbreak"`) {
		t.Errorf("logged\n%s", log.String())
	}
	for range 2 {
		now = now.Add(-time.Hour) // a clock that was set back
		log.Reset()
		u.Report("shop", "")
		lines(1, "domain=shop")
	}
}
