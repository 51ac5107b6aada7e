package logging

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Most peers with a warning in a minute, and most warnings for each: an operator should find a
// wrong proxy in the log, but attackers must not flood it.
const (
	MostWarned = 16
	MostOfOne  = 4
	every      = time.Minute
)

// MisuseLog logs mistakes of peers, not of their clients: a warning for each problem of each peer,
// once a minute. It is safe for concurrent use.
type MisuseLog struct {
	// Log gets the warnings; Path is their attribute path.
	Log  *slog.Logger
	Path string

	// Event is the text of the log line; "" means that of a wrong request from a proxy.
	Event string

	// Now returns the time; nil: time.Now.
	Now func() time.Time

	mu     sync.Mutex // guards the fields below
	minute minute
	warned map[netip.Addr][]string // problems in this minute
}

// Report logs a problem of a peer.
func (m *MisuseLog) Report(peer netip.Addr, problem, hint string) {
	m.ReportAt(m.Path, peer, problem, hint)
}

// ReportAt logs a problem of a peer at another path.
func (m *MisuseLog) ReportAt(path string, peer netip.Addr, problem, hint string) {
	level := slog.LevelDebug
	if m.first(peer, problem) {
		level = slog.LevelWarn
	}
	event := m.Event
	if event == "" {
		event = "wrong call of a proxy"
	}
	m.Log.Log(context.Background(), level, event,
		"path", path, "peer", peer.String(), "error", problem, "hint", hint)
}

// first reports whether a problem of a peer is new in this minute, and there is room to remember
// it.
func (m *MisuseLog) first(peer netip.Addr, problem string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.minute.begins(m.Now) {
		m.warned = make(map[netip.Addr][]string)
	}
	known, ok := m.warned[peer]
	if slices.Contains(known, problem) || len(known) == MostOfOne || !ok && len(m.warned) == MostWarned {
		return false
	}
	m.warned[peer] = append(known, problem)
	return true
}

// minute is the interval in which nothing is logged twice.
type minute struct{ began time.Time }

// begins reports whether a new minute begins at the time that now returns; nil means the clock of
// this machine. The first call begins one, and so does a clock that was set back.
func (m *minute) begins(now func() time.Time) bool {
	if now == nil {
		now = time.Now
	}
	at := now()
	if !m.began.IsZero() && at.Sub(m.began) < every && !at.Before(m.began) {
		return false
	}
	m.began = at
	return true
}

// PerMinute bounds the log lines about something that may happen often to one a minute. The zero
// PerMinute is ready for use. It is safe for concurrent use.
type PerMinute struct {
	mu     sync.Mutex // guards minute
	minute minute
}

// Allow reports whether to log now.
func (p *PerMinute) Allow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.minute.begins(nil)
}

// FetchLog logs the results of fetching key sets: each failure, the first success, and the first
// success after a failure. It is safe for concurrent use.
type FetchLog struct {
	// Log gets the lines.
	Log *slog.Logger

	mu   sync.Mutex
	good map[string]bool // addresses whose last fetch succeeded
}

// Report logs the result of a fetch.
func (f *FetchLog) Report(address string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.Log.Warn("key set not fetched completely: keeping the old keys", "address", address, "error", err,
			"hint", "until its key is known a token is no identity; it is tried again soon")
	} else if !f.good[address] {
		f.Log.Info("key set fetched", "address", address)
	}
	if f.good == nil {
		f.good = make(map[string]bool)
	}
	f.good[address] = err == nil
}
