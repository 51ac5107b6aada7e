package memcached

// OnlyItemsForTest makes the store keep every state in an item.
func (s *Store) OnlyItemsForTest() { s.onlyItems = true }
