package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// sum is the sum of the hashes of all rules. It does not depend on their order, and a removed rule
// can be subtracted.
type sum struct{ high, low uint64 }

func (s *sum) add(o sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high, _ = bits.Add64(s.high, o.high, carry)
}

func (s *sum) sub(o sum) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, o.low, 0)
	s.high, _ = bits.Sub64(s.high, o.high, borrow)
}

// sumOf returns the hash of one rule. It reuses buf and returns it.
func sumOf(r *Rule, buf []byte) (sum, []byte) {
	buf = buf[:0]
	for _, t := range [...]string{r.ID, r.UID, r.URL, r.Time, r.Algorithm, r.Domain, r.Policy} {
		buf = binary.AppendUvarint(buf, uint64(len(t)))
		buf = append(buf, t...)
	}
	buf = binary.AppendUvarint(binary.AppendUvarint(buf, r.Requests), r.Burst)
	h := sha256.Sum256(buf)
	return sum{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16])}, buf
}

// hash returns the text of Catalog.Hash.
func (s sum) hash(count int) string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], uint64(count))
	binary.BigEndian.PutUint64(b[8:], s.high)
	binary.BigEndian.PutUint64(b[16:], s.low)
	h := sha256.Sum256(b[:])
	return hex.EncodeToString(h[:6])
}

// markOf returns a hash of domain, uid and url. It is part of the keys of a rule, so a rule that
// reuses an ID with a different domain, uid or url has new keys.
func markOf(domain, uid, url string) (mark [8]byte) {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for _, t := range [...]string{domain, uid, url} {
		h = (h ^ uint64(len(t))) * prime
		for i := range len(t) {
			h = (h ^ uint64(t[i])) * prime
		}
	}
	binary.BigEndian.PutUint64(mark[:], h)
	return mark
}
