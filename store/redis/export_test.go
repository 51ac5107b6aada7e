package redis

import (
	"sync/atomic"
	"time"

	"stint/internal/transaction"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// RenewForTest makes a store that nobody uses any more as it was when it was opened, but with
// another namespace and with its connections.
func (s *Store) RenewForTest(namespace string) {
	s.background.Close()
	s.background = transaction.Background{}
	s.namespace, s.keyPrefixes = namespace, connect.KeyPrefixes(namespace, s.tags)
	s.side = connect.NewSide(s.links[0].Target, namespace, s.keyPrefixes)
	for i, prefix := range s.keyPrefixes {
		c := newCommitter(s.links, prefix)
		c.sharesConnections = s.commits[i].sharesConnections
		s.commits[i] = c
	}
	s.epochs, s.checkedEpochs, s.ledgers = make([]knownEpoch, len(s.commits)), make([]atomic.Int64, len(s.commits)), make([]script.Ledger, len(s.commits))
}

// GeneralForTest makes decide.lua decide everything, even what quick.lua could.
func (s *Store) GeneralForTest() { s.onlyDecide = true }

// KeepTTLsForTest makes groups set the TTLs of keys only if their states need it, as most groups do
// under load.
func (s *Store) KeepTTLsForTest() {
	for _, c := range s.commits {
		for i := range c.connections {
			c.connections[i].renewed = time.Now().Add(time.Hour)
		}
	}
}

// AgeEpochForTest makes the store believe that it learned its epochs half an hour ago.
func AgeEpochForTest(s *Store) {
	for i := range s.epochs {
		older := s.epochs[i].load()
		older.since -= 30 * time.Minute
		s.epochs[i].now.Store(&older)
	}
}

// InFlightForTest returns the number of groups in flight.
func (s *Store) InFlightForTest() int { return s.commits[0].inFlightForTest() }

// FarForTest reports whether the server is so far away that groups leave without waiting.
func (s *Store) FarForTest() bool {
	c := s.commits[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.farLocked()
}

// ConnectSlowlyForTest gives each attempt to connect a minute, so that a caller whom one blocks
// stays longer than on any busy machine. The test calls it before the first use.
func (s *Store) ConnectSlowlyForTest() {
	for i := range s.links {
		target := &s.links[i].Target
		target.Dialer.Timeout, target.ConnWriteTimeout = time.Minute, time.Minute
	}
}

// NearForTest makes the store treat the server as near, however busy the machine is.
func (s *Store) NearForTest() {
	c := s.commits[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.distance.Add(1, time.Now().Add(time.Hour))
}
