package logging

import (
	"maps"
	"slices"
	"sync"
)

// AllServers is the number that stands for all servers of a store, if they are unknown.
const AllServers = -1

// StoreServer is one of the servers of a store.
type StoreServer struct {
	Number int    // another server may get it later
	Name   string // HOST:PORT; "" if there is only one
}

// StoreServers has the state of the servers of a store. The zero StoreServers is ready for use,
// with one server without a name. It is safe for concurrent use.
type StoreServers struct {
	mu      sync.Mutex // guards the fields below
	known   map[int]*backend
	present []StoreServer // servers with keys at the last Present; nil: it was not called
}

// backend is the state of a server.
type backend struct {
	name    string
	problem string // "" while it is available
	logged  bool   // the problem was logged, but not its end
	spared  uint64 // calls that skipped the server, at the last Idle
}

// backendLocked returns the state of a server. A different server with a known number gets a new
// state.
func (s *StoreServers) backendLocked(of StoreServer) *backend {
	b := s.known[of.Number]
	if b == nil || b.name != of.Name {
		if s.known == nil {
			s.known = map[int]*backend{}
		}
		b = &backend{name: of.Name}
		s.known[of.Number] = b
	}
	return b
}

// Fails records a problem of a server, and reports whether to log it.
func (s *StoreServers) Fails(server StoreServer, problem string) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backendLocked(server)
	tell = !b.logged
	b.problem, b.logged = problem, true
	return tell
}

// Answers removes the problem of a server. The end of the problem is not logged yet, because the
// server may fail again in a moment.
func (s *StoreServers) Answers(server StoreServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backendLocked(server).problem = ""
}

// Well records that a server is available, and reports whether to log it.
func (s *StoreServers) Well(server StoreServer) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backendLocked(server)
	tell = b.logged
	b.problem, b.logged = "", false
	return tell
}

// Present records which servers have keys and removes all others. It returns the removed servers
// whose problem was logged, but not its end.
func (s *StoreServers) Present(servers []StoreServer) (gone []StoreServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present = servers
	for _, number := range slices.Sorted(maps.Keys(s.known)) {
		if b := s.known[number]; !slices.Contains(servers, StoreServer{number, b.name}) {
			if b.logged {
				gone = append(gone, StoreServer{number, b.name})
			}
			delete(s.known, number)
		}
	}
	return gone
}

// Idle gets the total number of calls that skipped a server. It reports whether there were none
// since the last call: then no request tests whether the server is back.
func (s *StoreServers) Idle(server StoreServer, spared uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backendLocked(server)
	idle := spared == b.spared
	b.spared = spared
	return idle
}

// Doubtful reports whether a server is unavailable, or the end of its problem is not logged yet.
func (s *StoreServers) Doubtful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.known {
		if b.logged || b.problem != "" {
			return true
		}
	}
	return false
}

// Problem returns the problems of the servers with their names, "" if there are none.
func (s *StoreServers) Problem() (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(s.known)) {
		b := s.known[number]
		if b.problem == "" {
			continue
		}
		if text != "" {
			text += "; "
		}
		if b.name != "" {
			text += b.name + ": "
		}
		text += b.problem
	}
	return text
}

// Each calls do for each server with keys; well means that no problem is known.
func (s *StoreServers) Each(do func(server StoreServer, well bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := s.present
	if present == nil {
		present = []StoreServer{{}}
	}
	well := func(number int) bool { return s.known[number] == nil || s.known[number].problem == "" }
	for _, server := range present {
		do(server, well(server.Number) && well(AllServers))
	}
}
