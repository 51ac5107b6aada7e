package app

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"stint/server/httpapi"
)

// mostWarned is how many peers a warning is logged for: whoever configured a proxy may
// look for it in the log, and those who only try must not flood it.
const mostWarned = 16

// misuses logs questions of proxies that are wrong whatever their clients do: a warning
// for the first of each peer.
type misuses struct {
	log *slog.Logger

	mu     sync.Mutex
	warned map[netip.Addr]bool
}

// tell logs a wrong question.
func (m *misuses) tell(peer netip.Addr, problem, hint string) {
	level := slog.LevelDebug
	if m.first(peer) {
		level = slog.LevelWarn
	}
	m.log.Log(context.Background(), level, "wrong question of a proxy",
		"path", httpapi.AuthPath, "peer", peer.String(), "problem", problem, "hint", hint)
}

// first says whether this is the first wrong question of a peer, of those that are
// remembered.
func (m *misuses) first(peer netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.warned[peer] || len(m.warned) == mostWarned {
		return false
	}
	if m.warned == nil {
		m.warned = make(map[netip.Addr]bool)
	}
	m.warned[peer] = true
	return true
}
