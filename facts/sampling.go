package facts

import (
	"math"
	"math/bits"
)

// maxBits is the most that sampling is thinned out: to one in 2^maxBits.
const maxBits = 12

// sampling decides which decisions of a rule leave a note, so that a busy rule leaves no more than there is
// room for, and one that is not leaves all. From its low bits on it has
//
//	32 bits: requests of keys whose hash is at most this are noted in detail
//	 8 bits: n, one in 2^n of these
//	 8 bits: n, one in 2^n denied requests are counted for their key
//	 8 bits: n, the same for allowed ones
type sampling uint64

// newSampling returns a sampling: details of one in 2^level keys, and one in 2^thin of their requests.
func newSampling(level, thin, denied, allowed uint8) sampling {
	return sampling(math.MaxUint32>>level) | sampling(thin)<<32 | sampling(denied)<<40 | sampling(allowed)<<48
}

// counts reports whether a decision is counted for its key, and then stands for 2^bits decisions. dice is a
// random fraction of 2^64.
func (s sampling) counts(allowed bool, dice uint64) (bits uint8, counted bool) {
	bits = uint8(s >> 40)
	if allowed {
		bits = uint8(s >> 48)
	}
	return bits, dice>>(64-bits) == 0
}

// details reports whether a decision is noted in detail.
func (s sampling) details(hash, dice uint64) bool {
	return uint32(hash) <= uint32(s) && dice<<maxBits>>(64-uint8(s>>32)) == 0
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
