package redis

import "time"

// GeneralForTest has decide.lua decide everything, also what quick.lua and others could.
func (s *Store) GeneralForTest() { s.general = true }

// KeepTTLsForTest has no group set the TTLs of keys but where their states need it, as
// most do not under load.
func (s *Store) KeepTTLsForTest() {
	for _, c := range s.commits {
		for i := range c.connections {
			c.connections[i].renewed = time.Now().Add(time.Hour)
		}
	}
}

// InFlightForTest returns how many groups are on their way.
func (s *Store) InFlightForTest() int { return s.commits[0].inFlightForTest() }

// FarForTest says whether the server is so far away that groups leave without waiting.
func (s *Store) FarForTest() bool {
	c := s.commits[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.farLocked()
}

// ConnectSlowlyForTest gives each attempt to connect a minute, so that a caller that one holds
// stays longer than on any busy machine. It is called before the first use.
func (s *Store) ConnectSlowlyForTest() {
	for i := range s.links {
		target := &s.links[i].Target
		target.Dialer.Timeout, target.ConnWriteTimeout = time.Minute, time.Minute
	}
}

// NearForTest has the server be near, however busy the machine is.
func (s *Store) NearForTest() {
	c := s.commits[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.distance = distance{now: 1, since: time.Now().Add(time.Hour)}
}
