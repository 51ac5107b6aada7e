package logging

import (
	"maps"
	"slices"
	"sync"
)

// AllServers is the number that stands for all servers of a store, where nobody knows who they are.
const AllServers = -1

// StoreServer is one of the servers of a store.
type StoreServer struct {
	Number int    // another server may have it later
	Name   string // HOST:PORT, "" of the only one
}

// StoreServers is what is known of the servers of a store. The zero StoreServers is ready to use, and knows of one
// server without a name. It is safe for concurrent use.
type StoreServers struct {
	mu      sync.Mutex // guards what follows
	known   map[int]*backend
	present []StoreServer // that hold keys, when somebody last looked; nil: nobody did
}

// backend is what is known of a server.
type backend struct {
	name    string
	problem string // "" while it can be used
	logged  bool   // the log's last word is that it cannot be
	spared  uint64 // calls that it was spared when somebody last looked
}

// backendLocked returns what is known of a server. Another one of its number is a new one.
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

// Fails notes what is wrong with a server, and says whether the log is to be told.
func (s *StoreServers) Fails(server StoreServer, problem string) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backendLocked(server)
	tell = !b.logged
	b.problem, b.logged = problem, true
	return tell
}

// Answers notes that nothing is wrong with a server any more, though the log is not told yet: it
// may be away again in a moment.
func (s *StoreServers) Answers(server StoreServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backendLocked(server).problem = ""
}

// Well notes that a server can be used, and says whether the log is to be told.
func (s *StoreServers) Well(server StoreServer) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backendLocked(server)
	tell = b.logged
	b.problem, b.logged = "", false
	return tell
}

// Present notes which servers hold keys and forgets all others. It returns those of them of which
// the log's last word is that they cannot be used.
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

// Idle takes how many calls a server was spared until now, and says whether it was none since it
// was last asked: then nobody tries whether the server is back.
func (s *StoreServers) Idle(server StoreServer, spared uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backendLocked(server)
	idle := spared == b.spared
	b.spared = spared
	return idle
}

// Doubtful says whether some server cannot be used, or the log still says so.
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

// Problem returns what is wrong with servers, each by its name, "" for nothing.
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

// Each calls do for each server that holds keys, and says whether it can be used as far as is
// known.
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
