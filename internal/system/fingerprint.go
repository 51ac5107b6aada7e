package system

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"
)

// Seed turns keys into 64-bit fingerprints. Two seeds give unrelated fingerprints, so an attacker
// cannot search for keys that collide.
//
// The function is of the multiply-and-fold kind (wyhash): fast, and uniform for anyone without the
// seed. It is not a MAC: with enough fingerprints an attacker could compute the seed. So
// fingerprints leave the process only together with the seed, in a file that only its owner may
// read. Such files identify keys by fingerprints: if you change the function, change the version of
// these files.
type Seed [4]uint64

// NewSeed returns a random seed. It cannot fail: without a source of randomness the Go runtime ends
// the process.
func NewSeed() Seed {
	var b [32]byte
	_, _ = rand.Read(b[:])
	var s Seed
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:]) | 1<<(i+1) // never 0
	}
	return s
}

// Sum returns the fingerprint of key in the key space number space. It allocates nothing.
func (s *Seed) Sum(space uint8, key string) uint64 {
	p := unsafe.Slice(unsafe.StringData(key), len(key))
	n := uint64(len(p))
	h := s[0] ^ uint64(space)*0x9e3779b97f4a7c15
	var a, b uint64
	switch {
	case n > 16:
		for ; len(p) > 16; p = p[16:] {
			h = fold(wordOf(p)^s[1], wordOf(p[8:])^h)
		}
		// 1 to 16 bytes remain; the last 16 of the key contain them.
		tail := unsafe.Slice(unsafe.StringData(key), n)[n-16:]
		a, b = wordOf(tail), wordOf(tail[8:])
	case n >= 8:
		a, b = wordOf(p), wordOf(p[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(p)), uint64(binary.LittleEndian.Uint32(p[n-4:]))
	case n > 0:
		a = uint64(p[0])<<16 | uint64(p[n/2])<<8 | uint64(p[n-1])
	}
	return fold(s[2]^n, fold(a^s[1], b^h)^s[3])
}

func wordOf(p []byte) uint64 { return binary.LittleEndian.Uint64(p) }

// fold returns the XOR of both halves of the 128-bit product.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// knownKey is the text whose fingerprint follows a seed in a file.
const knownKey = "the same key, the same fingerprint"

// seedSize is how many bytes a seed has in a file.
const seedSize = 4*8 + 8

// Append appends a seed as files have it, with the fingerprint of a known text.
func (s *Seed) Append(b []byte) []byte {
	for _, part := range s {
		b = binary.LittleEndian.AppendUint64(b, part)
	}
	return binary.LittleEndian.AppendUint64(b, s.Sum(0, knownKey))
}

// ReadSeed reads what Append wrote, and checks that fingerprints are computed in the same way.
func ReadSeed(b []byte) (s Seed, err error) {
	if len(b) != seedSize {
		return s, fmt.Errorf("%d bytes where the seed should be", len(b))
	}
	for i := range s {
		if s[i] = binary.LittleEndian.Uint64(b[8*i:]); s[i] == 0 {
			return s, errors.New("the seed is empty")
		}
	}
	if binary.LittleEndian.Uint64(b[seedSize-8:]) != s.Sum(0, knownKey) {
		return s, errors.New("its fingerprints are computed in another way")
	}
	return s, nil
}
