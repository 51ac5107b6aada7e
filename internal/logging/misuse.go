package logging

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How many peers a warning is logged for in a minute, and how many to each: whoever
// configured a proxy may look for it in the log, and those who only try must not flood it.
const (
	MostWarned = 16
	MostOfOne  = 4
	every      = time.Minute
)

// MisuseLog logs what peers do wrong, whatever their clients do: a warning for each problem
// of each peer, once a minute. It is safe for concurrent use.
type MisuseLog struct {
	// Log is where to; Path is what is asked in such a way.
	Log  *slog.Logger
	Path string

	// Event is what is logged; "": that the question of a proxy is wrong.
	Event string

	// Now returns the time; nil: time.Now.
	Now func() time.Time

	mu     sync.Mutex // guards what follows
	minute minute
	warned map[netip.Addr][]string // problems in this minute
}

// Tell logs a wrong question.
func (m *MisuseLog) Tell(peer netip.Addr, problem, hint string) {
	m.TellOf(m.Path, peer, problem, hint)
}

// TellOf logs a wrong question at another path.
func (m *MisuseLog) TellOf(path string, peer netip.Addr, problem, hint string) {
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

// first says whether a problem of a peer is the first in this minute, of those that are
// remembered.
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

// minute is the time in which nothing is logged twice.
type minute struct{ began time.Time }

// begins says whether a new minute begins at the time that now returns, nil: the clock of this
// machine. The first call begins one, and so does a clock that was set back.
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

// FetchLog says in the log what became of the fetches of key sets: each failure, and the
// first success as well as the first after a failure. It is safe for concurrent use.
type FetchLog struct {
	// Log is where to.
	Log *slog.Logger

	mu   sync.Mutex
	good map[string]bool // addresses whose last fetch succeeded
}

// Report logs what became of a fetch.
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
