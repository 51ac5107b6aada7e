package logging_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/internal/logging"
)

// TestMisuseLog: each problem of a peer is logged once a minute, and neither many peers nor many
// problems flood the log.
func TestMisuseLog(t *testing.T) {
	var log strings.Builder
	now := time.Now()
	m := &logging.MisuseLog{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }}
	for range 3 {
		for i := range 100 {
			m.Report(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), "problem", "hint")
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != logging.MostWarned {
		t.Errorf("%d warnings, want %d", n, logging.MostWarned)
	}
	log.Reset()
	for i := range 100 {
		m.Report(netip.AddrFrom4([4]byte{10, 0, 0, 1}), fmt.Sprint("another problem ", i/2), "hint")
	}
	if n := strings.Count(log.String(), "level=WARN"); n != logging.MostOfOne-1 {
		t.Errorf("%d warnings of other problems, want %d", n, logging.MostOfOne-1)
	}
	log.Reset()
	for range 120 {
		now = now.Add(time.Second)
		m.Report(netip.AddrFrom4([4]byte{10, 0, 0, 1}), "problem", "hint")
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings of one problem in two minutes, want 2", n)
	}
}

// Each failed fetch is logged, and a success only if it is the first or follows a failure.
func TestFetchLog(t *testing.T) {
	var log strings.Builder
	f := &logging.FetchLog{Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, err := range []error{nil, nil, errors.New("gone"), errors.New("gone"), nil, nil} {
		f.Report("https://keys.example", err)
	}
	if warned, told := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=INFO"); warned != 2 || told != 2 {
		t.Errorf("%d warnings and %d times good news, want 2 and 2:\n%s", warned, told, log.String())
	}
}

// One line a minute passes.
func TestPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p logging.PerMinute
		for range 3 {
			passed := 0
			for range 6 {
				if p.Allow() {
					passed++
				}
				time.Sleep(10 * time.Second)
			}
			if passed != 1 {
				t.Errorf("%d lines in a minute, want 1", passed)
			}
		}
	})
}

// TestRoute checks that a route has nothing of a path that a client may choose.
func TestRoute(t *testing.T) {
	routes := []string{"/v1/keys", "/v1/facts", "/v1/facts/keys"}
	for _, tt := range []struct{ pattern, path, want string }{
		{"", "/v1/keys", "/v1/keys"},
		{"", "/v1/keys/stint_secret", "/v1/keys/..."},
		{"", "/v1/keys/", "/v1/keys/..."},
		{"", "/v1/facts/keys/secret", "/v1/facts/keys/..."},
		{"", "/v1/facts/secret", "/v1/facts/..."},
		{"", "/v1/keyssecret", "(unknown)"},
		{"", "/secret", "(unknown)"},
		{"", "", "(unknown)"},
		{"/", "/v1/keys/secret", "/v1/keys/..."},
		{"/", "/secret", "(unknown)"},
		{"GET /v1/load/{name...}", "/v1/load/secret", "/v1/load/{name...}"},
		{"/v1/load", "/v1/load", "/v1/load"},
	} {
		r := &http.Request{Pattern: tt.pattern, URL: &url.URL{Path: tt.path, RawQuery: "key=secret"}}
		if got := logging.Route(r, routes...); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.pattern, tt.path, got, tt.want)
		}
	}
}
