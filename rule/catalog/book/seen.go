package book

import (
	"fmt"
	"hash/maphash"
)

// seen stores the IDs that were read and their positions. It takes 50 MB for a million IDs, half as
// much as the IDs themselves, because it keeps only 128 bits of each: a hash with a random seed, so
// that different IDs are practically never mistaken for one.
type seen struct {
	first, second maphash.Seed
	at            map[[2]uint64]position
	files         []string
}

// position is the position of an ID.
type position struct{ file, line int32 }

func newSeen() seen {
	return seen{first: maphash.MakeSeed(), second: maphash.MakeSeed(), at: make(map[[2]uint64]position)}
}

// add adds an ID. If it was added before, twice is true and before is its first position.
func (s *seen) add(id, file string, line int) (before string, twice bool) {
	if n := len(s.files); n == 0 || s.files[n-1] != file {
		s.files = append(s.files, file)
	}
	key := [2]uint64{maphash.String(s.first, id), maphash.String(s.second, id)}
	if at, ok := s.at[key]; ok {
		return fmt.Sprintf("%s:%d", s.files[at.file], at.line), true
	}
	s.at[key] = position{int32(len(s.files) - 1), int32(line)}
	return "", false
}
