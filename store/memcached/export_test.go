package memcached

import "stint"

// OnlyItemsForTest makes the store keep every state in an item.
func (s *Store) OnlyItemsForTest() { s.onlyItems = true }

// NameForTest returns the key in memcached of the state of a key, or of its last counter at a time.
func (s *Store) NameForTest(l *stint.Limit, key stint.Key, at stint.Instant) string {
	if !s.counted(l) {
		return s.keyName(l.Algorithm(), "", key)
	}
	g := s.grid(&query{limit: l, key: key}, at)
	return g.counters[len(g.counters)-1].name
}
