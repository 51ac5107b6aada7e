package replay

import "stint"

// shelf keeps the states of keys, which are small numbers from 0: for each key one
// in every column, side by side. A state is 24 bytes and stays where it is; the logs
// that some of them point to are much larger, and are given back once they no longer
// matter.
type shelf struct {
	columns int
	chunks  [][]stint.State
	keys    int
	logged  []uint32 // keys with a log, in no order
	hand    int      // the next of them to be looked at
}

// chunkKeys is how many keys are made room for at once.
const chunkKeys = 1 << 12

// add makes room for the next key.
func (s *shelf) add() {
	if s.keys%chunkKeys == 0 {
		s.chunks = append(s.chunks, make([]stint.State, chunkKeys*s.columns))
	}
	s.keys++
}

// of returns the states of a key.
func (s *shelf) of(key uint32) []stint.State {
	from := int(key%chunkKeys) * s.columns
	return s.chunks[key/chunkKeys][from : from+s.columns]
}

// gained is told that a key got its first log.
func (s *shelf) gained(key uint32) { s.logged = append(s.logged, key) }

// forget looks at two of the keys with logs, round and round, and drops the logs
// that are as good as untouched. Called once for each key that is decided, it sees
// keys twice as fast as they can come.
func (s *shelf) forget(at stint.Instant, limits func(key uint32) []*stint.Limit) {
	for range 2 {
		if s.hand >= len(s.logged) {
			s.hand = 0
		}
		if len(s.logged) == 0 {
			return
		}
		key := s.logged[s.hand]
		states := s.of(key)
		for i, limit := range limits(key) {
			if states[i].Log != nil && limit.Untouched(&states[i], at) {
				states[i] = stint.State{}
			}
		}
		if hasLog(states) {
			s.hand++
			continue
		}
		last := len(s.logged) - 1
		s.logged[s.hand], s.logged = s.logged[last], s.logged[:last]
	}
}

func hasLog(states []stint.State) bool {
	for i := range states {
		if states[i].Log != nil {
			return true
		}
	}
	return false
}
