package redis

// Divided reports whether calls of several keys may be decided in several steps, as on a Cluster:
// see Store.
func (s *Store) Divided() bool { return s.tags != nil }
