package sketch

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// maxBits is the most that sampling is thinned out: to one in 2^maxBits.
const maxBits = 12

// Sampling decides which decisions of a rule leave a note, so that a busy rule leaves no more than there is
// room for, and one that is not leaves all. Its zero value lets none leave one.
//
// A decision comes with a dice, a random number of 64 bits. Thresholds of 32 bits are compared with parts of it.
type Sampling struct {
	counts  atomic.Uint64 // high half: threshold for allowed decisions, to be counted for their key; low: for denied ones
	details atomic.Uint64 // high half: threshold for decisions to be noted in detail; low: for the hashes of their keys
}

// Threshold returns the number that lets one in 2^n numbers pass.
func Threshold(n uint8) uint64 { return math.MaxUint32 >> n }

// Set changes the sampling to one in 2^n denied and allowed decisions, and details of one in 2^level keys
// and one in 2^thin of their decisions.
func (s *Sampling) Set(denied, allowed, level, thin uint8) {
	if counts := Threshold(allowed)<<32 | Threshold(denied); s.counts.Load() != counts {
		s.counts.Store(counts)
	}
	if details := Threshold(thin)<<32 | Threshold(level); s.details.Load() != details {
		s.details.Store(details)
	}
}

// Counted reports whether a decision is counted for its key.
func (s *Sampling) Counted(allowed bool, dice uint64) bool {
	least := s.counts.Load()
	if !allowed {
		least <<= 32
	}
	return uint32(dice>>32) <= uint32(least>>32)
}

// Detailed reports whether a decision is noted in detail.
func (s *Sampling) Detailed(hash, dice uint64) bool {
	least := s.details.Load()
	return uint32(hash) <= uint32(least) && uint32(dice>>8) <= uint32(least>>32)
}

// Bits returns n: one in 2^n decisions is counted.
func (s *Sampling) Bits(allowed bool) uint8 {
	least := s.counts.Load()
	if allowed {
		least >>= 32
	}
	return uint8(bits.LeadingZeros32(uint32(least)))
}

// Rate is how a kind of notes of a rule is sampled: one in 2^bits.
type Rate struct {
	Bits  uint8 // the more, the fewer notes
	Notes int   // since the last flush
}

// Adjust changes the rate so that there are at most so many notes between two flushes.
func (r *Rate) Adjust(most int) {
	switch {
	case r.Notes > most:
		r.Bits = min(r.Bits+uint8(bits.Len(uint(r.Notes/most))), maxBits)
	case r.Notes < most/4 && r.Bits > 0:
		r.Bits--
	}
	r.Notes = 0
}
