package facts

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// maxBits is the most that sampling is thinned out: to one in 2^maxBits.
const maxBits = 12

// sampling decides which decisions of a rule leave a note, so that a busy rule leaves no more than there is
// room for, and one that is not leaves all. Its zero value lets none leave one.
//
// A decision comes with a dice, a random number of 64 bits. Thresholds of 32 bits are compared with parts of it.
type sampling struct {
	counts  atomic.Uint64 // high half: threshold for allowed decisions, to be counted for their key; low: for denied ones
	details atomic.Uint64 // high half: threshold for decisions to be noted in detail; low: for the hashes of their keys
}

// threshold returns the one that lets one in 2^n numbers pass.
func threshold(n uint8) uint64 { return math.MaxUint32 >> n }

// set changes the sampling to one in 2^n denied and allowed decisions, and details of one in 2^level keys
// and one in 2^thin of their decisions.
func (s *sampling) set(denied, allowed, level, thin uint8) {
	if counts := threshold(allowed)<<32 | threshold(denied); s.counts.Load() != counts {
		s.counts.Store(counts)
	}
	if details := threshold(thin)<<32 | threshold(level); s.details.Load() != details {
		s.details.Store(details)
	}
}

// counted reports whether a decision is counted for its key.
func (s *sampling) counted(allowed bool, dice uint64) bool {
	least := s.counts.Load()
	if !allowed {
		least <<= 32
	}
	return uint32(dice>>32) <= uint32(least>>32)
}

// detailed reports whether a decision is noted in detail.
func (s *sampling) detailed(hash, dice uint64) bool {
	least := s.details.Load()
	return uint32(hash) <= uint32(least) && uint32(dice>>8) <= uint32(least>>32)
}

// bits returns n: one in 2^n decisions is counted.
func (s *sampling) bits(allowed bool) uint8 {
	least := s.counts.Load()
	if allowed {
		least >>= 32
	}
	return uint8(bits.LeadingZeros32(uint32(least)))
}

// rate is how a kind of notes of a rule is sampled: one in 2^bits.
type rate struct {
	bits  uint8
	notes int // since the last flush
}

// adjust changes the rate so that there are at most so many notes between two flushes.
func (r *rate) adjust(most int) {
	switch {
	case r.notes > most:
		r.bits = min(r.bits+uint8(bits.Len(uint(r.notes/most))), maxBits)
	case r.notes < most/4 && r.bits > 0:
		r.bits--
	}
	r.notes = 0
}
