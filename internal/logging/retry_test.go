package logging

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The first of many failures is logged, then others at growing intervals with their number, one that is always logged,
// and one line when it works again. After that it begins anew.
func TestRetryLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := RetryLog{
		Log: slog.New(slog.NewTextHandler(&out, nil)), Event: "not saved", Hint: "look", Again: "saved again", About: []any{"file", "a"},
		Now: func() time.Time { return now },
	}
	full := errors.New("full")
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), " level=")
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged\n%s\nwant\n%s", out.String(), strings.Join(want, "\n"))
		}
		out.Reset()
	}
	l.Report(nil, false)
	expect()
	for range 151 {
		l.Report(full, false)
		now = now.Add(time.Second)
	}
	expect(`ERROR msg="not saved" file=a error=full failures=1 hint=look`, `ERROR msg="not saved" file=a error=full failures=11 hint=look`,
		`ERROR msg="not saved" file=a error=full failures=31 hint=look`, `ERROR msg="not saved" file=a error=full failures=71 hint=look`, `ERROR msg="not saved" file=a error=full failures=151 hint=look`)
	l.Report(full, false)
	expect()
	l.Report(full, true)
	expect(`ERROR msg="not saved" file=a error=full failures=153 hint=look`)
	l.Report(nil, false)
	l.Report(nil, true)
	expect(`INFO msg="saved again" file=a failures=153`)
	for range 100 {
		now = now.Add(time.Hour)
		l.Report(full, false)
	}
	if n := strings.Count(out.String(), "\n"); n != 100 {
		t.Errorf("%d lines in 100 hours, want one each hour", n)
	}
}
