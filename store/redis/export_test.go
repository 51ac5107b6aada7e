package redis

import "time"

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
	c.distance = distance{now: 1, since: time.Now().Add(time.Hour)}
}
