package redis

// GeneralForTest has decide.lua decide everything, also what quick.lua could.
func (s *Store) GeneralForTest() { s.general = true }
