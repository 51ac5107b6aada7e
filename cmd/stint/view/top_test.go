package view

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// snapshot returns what is known after some seconds of the same traffic.
func snapshot(seconds uint64) *Snapshot {
	s := &Snapshot{Summary: Summary{At: start.Add(time.Duration(seconds) * time.Second)}}
	s.Summary.Nodes = []Node{
		{Name: "node-a", Decided: 1000 * seconds, Failed: 3, Median: 1500, P99: 250 * time.Microsecond, Hash: "0123456789abcdef"},
		{Name: "node-b", Decided: 500 * seconds, StoreError: "redis://secret.example: connection refused"},
	}
	s.Summary.Rules = []Rule{
		{Domain: "api", Name: "api/calm", Allowed: 900 * seconds, Denied: 4_000_000},
		{Domain: "api", Name: "api/busy", Allowed: 100 * seconds, Denied: 50 * seconds, Keys: 12},
		{Domain: "api", Name: "api/a rule with a name that is longer than any screen of forty columns", Allowed: seconds},
		{Domain: "api", Name: "api/tried", Shadow: true, Denied: 10 * seconds},
	}
	s.Keys = []Key{
		{Rule: "api/busy", ID: "00112233445566778899aabbccddeeff", Denied: 40, Entries: []Entry{{Key: "user"}}},
		{Rule: "api/busy", ID: "ff", Denied: 30, Entries: []Entry{{Key: "user", Value: "\x1b[2J<img onerror=x>\n"}}},
	}
	s.Alarms = []Alarm{{Kind: "one_key", Text: "all requests of api/busy fall on one key"}}
	return s
}

// TestDraw checks the screen at several sizes: no line is wider, the important columns are always there, and
// the rule that denies most now comes first.
func TestDraw(t *testing.T) {
	for _, width := range []int{40, 50, 60, 72, 80, 100, 200} {
		for _, height := range []int{0, 8, 24} {
			s := screen{width: width, height: height, name: "127.0.0.1:8082"}
			lines := s.draw(snapshot(12), snapshot(10))
			for _, line := range lines {
				if utf8.RuneCountInString(line) > width || strings.ContainsAny(line, "\x1b\n") {
					t.Errorf("%d columns: %q", width, line)
				}
			}
			if height > 0 && len(lines) > height {
				t.Errorf("%d lines on a screen of %d", len(lines), height)
			}
			text := strings.Join(lines, "\n")
			for _, want := range []string{"1500/s", "NODE", "node-b", "RULE", "DENIED/S", "api/busy"} {
				if !strings.Contains(text, want) {
					t.Errorf("%d x %d: no %q in\n%s", width, height, want, text)
				}
			}
			if strings.Index(text, "api/busy ") > strings.Index(text+"api/calm", "api/calm") {
				t.Errorf("%d x %d: the rule that denies most now is not the first:\n%s", width, height, text)
			}
		}
	}
	s := screen{width: 100, name: "x"}
	text := strings.Join(s.draw(snapshot(12), snapshot(10)), "\n")
	for _, want := range []string{
		"api/busy  ", " 50 ", "connection refu…", "0123456789abcdef"[:8], "00112233445566778899aabbccddeeff", "user=?[2J<img onerror=x>?", "250µs", "2µs", "4000k", "(shadow)",
		"! all requests of api/busy fall on one key",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := strings.Join(s.draw(snapshot(12), nil), "\n"); strings.Contains(text, "/s ") || !strings.Contains(text, " - ") {
		t.Errorf("without an earlier snapshot there are rates:\n%s", text)
	}
	if text := strings.Join(s.draw(snapshot(1), snapshot(2)), "\n"); strings.Contains(text, "denied/s") {
		t.Errorf("counts that went back have rates:\n%s", text)
	}
	if text := strings.Join(s.draw(&Snapshot{}, nil), "\n"); !strings.Contains(text, "no rules") {
		t.Errorf("without rules:\n%s", text)
	}
}

// A node that joins brings all that it counted before: that is no rate of a rule.
func TestNodeJoins(t *testing.T) {
	before := snapshot(10)
	before.Summary.Nodes = before.Summary.Nodes[:1]
	s := screen{width: 100, name: "127.0.0.1:8082"}
	text := strings.Join(s.draw(snapshot(12), before), "\n")
	if strings.Contains(text, " 900 ") || !strings.Contains(text, "1000/s") {
		t.Errorf("rates of rules, or none of nodes:\n%s", text)
	}
}

// TestShort checks that numbers have at most five characters.
func TestShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.25: "0.2", 9: "9", 9999: "9999", 10_000: "10k", 9_999_400: "9999k", 1e9: "1000M", 1.8e19: "18E"} {
		if got := short(n); got != want {
			t.Errorf("short(%v) = %s, want %s", n, got, want)
		}
	}
}

// terminal is an output of a terminal.
func terminal(width, height int) func() (int, int, bool) {
	return func() (int, int, bool) { return width, height, true }
}

// TestRun follows a service until the context ends, through a failure, and then prints the last screen.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	var out bytes.Buffer
	seconds := uint64(0)
	err := Run(ctx, Options{
		Fetch: func(context.Context) (*Snapshot, error) {
			switch seconds++; seconds {
			case 3:
				return nil, errors.New("it is \x1b[2J away")
			case 5:
				cancel(interrupted)
			}
			return snapshot(seconds), nil
		},
		Out: &out, Size: terminal(80, 30), Name: "here", Every: time.Millisecond, Color: true,
	})
	if !errors.Is(err, interrupted) {
		t.Fatal(err)
	}
	live, last, left := strings.Cut(out.String(), leave)
	if !left || !strings.HasPrefix(live, enter) || strings.Count(live, first) < 4 || !strings.Contains(live, "no answer: it is ?[2J away") || !strings.Contains(live, red) {
		t.Errorf("live: %q", live)
	}
	if !strings.Contains(last, "api/busy") || strings.Contains(last, first) {
		t.Errorf("at the end: %q", last)
	}
}

// TestRunUnsized: a terminal that does not know its size shows texts, and the last screen is not longer than it, for
// any number of rules.
func TestRunUnsized(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	n := uint64(0)
	err := Run(ctx, Options{
		Fetch: func(context.Context) (*Snapshot, error) {
			if n++; n == 3 {
				cancel()
			}
			s := snapshot(n)
			for i := range 1000 {
				s.Summary.Rules = append(s.Summary.Rules, Rule{Domain: "api", Name: fmt.Sprint("rule", i)})
			}
			return s, nil
		},
		Out: &out, Size: terminal(0, 0), Every: time.Millisecond,
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	live, last, _ := strings.Cut(out.String(), leave)
	if !strings.Contains(live, "api/busy") || !strings.Contains(last, "api/busy") || strings.Count(last, "\n") > 24 {
		t.Errorf("%s\nlast:\n%s", live, last)
	}
}

// TestRunOnce prints one snapshot: on request, to a file, or as JSON; without colors if these are off.
func TestRunOnce(t *testing.T) {
	file := func() (int, int, bool) { return 0, 0, false }
	for _, test := range []struct {
		name string
		o    Options
	}{
		{"once", Options{Once: true, Size: terminal(60, 10)}},
		{"a file", Options{Size: file, Color: true}},
		{"JSON", Options{JSON: true, Size: terminal(60, 10), Color: true}},
	} {
		var out bytes.Buffer
		test.o.Out, test.o.Fetch = &out, func(context.Context) (*Snapshot, error) { return snapshot(7), nil }
		if err := Run(t.Context(), test.o); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "api/busy") {
			t.Errorf("%s: %q", test.name, out.String())
		}
		var s Snapshot
		if test.o.JSON && (json.Unmarshal(out.Bytes(), &s) != nil || fmt.Sprint(s) != fmt.Sprint(*snapshot(7))) {
			t.Errorf("%s: %s", test.name, out.String())
		}
	}
	failed := errors.New("nobody there")
	err := Run(t.Context(), Options{Size: file, Fetch: func(context.Context) (*Snapshot, error) { return nil, failed }})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	for value, want := range map[string]bool{"": true, "1": false} {
		if Color(func(name string) string { return map[string]string{"NO_COLOR": value}[name] }) != want {
			t.Errorf("NO_COLOR=%s", value)
		}
	}
	if _, _, is := Terminal(&bytes.Buffer{})(); is {
		t.Error("a buffer is a terminal")
	}
}
