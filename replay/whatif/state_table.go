package whatif

import "stint"

// StateTable stores the states of keys, which are small numbers from 0: for each key one state in
// every column. A state takes 24 bytes and never moves. The logs that some states refer to are much
// larger; they are freed once they no longer matter.
type StateTable struct {
	columns int
	chunks  [][]stint.State
	keys    int
	logged  []uint32 // keys with a log, in any order
	next    int      // index in logged of the next key to check
}

// NewStateTable returns a table without keys.
func NewStateTable(columns int) StateTable { return StateTable{columns: columns} }

// Len returns the number of keys.
func (s *StateTable) Len() int { return s.keys }

// Logs returns the number of keys with a log.
func (s *StateTable) Logs() int { return len(s.logged) }

// chunkKeys is the number of keys for which memory is allocated at once.
const chunkKeys = 1 << 12

// Add allocates the states of the next key.
func (s *StateTable) Add() {
	if s.keys%chunkKeys == 0 {
		s.chunks = append(s.chunks, make([]stint.State, chunkKeys*s.columns))
	}
	s.keys++
}

// Of returns the states of a key.
func (s *StateTable) Of(key uint32) []stint.State {
	from := int(key%chunkKeys) * s.columns
	return s.chunks[key/chunkKeys][from : from+s.columns]
}

// Gained records that a key got its first log.
func (s *StateTable) Gained(key uint32) { s.logged = append(s.logged, key) }

// Forget checks two of the keys with logs, in turn, and frees the logs that are equivalent to
// unused ones. It is called once for each decided key, so it checks keys twice as fast as new ones
// can appear.
func (s *StateTable) Forget(at stint.Instant, limits func(key uint32) []*stint.Limit) {
	for range 2 {
		if s.next >= len(s.logged) {
			s.next = 0
		}
		if len(s.logged) == 0 {
			return
		}
		key := s.logged[s.next]
		states := s.Of(key)
		for i, limit := range limits(key) {
			if states[i].Log != nil && limit.Untouched(&states[i], at) {
				states[i] = stint.State{}
			}
		}
		if HasLog(states) {
			s.next++
			continue
		}
		last := len(s.logged) - 1
		s.logged[s.next], s.logged = s.logged[last], s.logged[:last]
	}
}

// HasLog reports whether one of the states has a log.
func HasLog(states []stint.State) bool {
	for i := range states {
		if states[i].Log != nil {
			return true
		}
	}
	return false
}
