package index

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
)

// addresses has the ends of bans of single addresses, in one hash table for each family. It is immutable once
// it is shared: an Editor copies the shards that it changes.
//
// Most of the time of a look-up is the time for which the processor waits for memory. It grows with the memory
// that look-ups read: 3 MB of tags for a million addresses, which nearly all look-ups of other addresses read
// alone, and one place in 22 MB of buckets for an address that is banned.
type addresses struct {
	four, six [1 << shardBits]shard
}

// shardBits is chosen so that a million addresses are 1,000 in a shard, which is copied fast.
const shardBits = 10

// shard is a hash table of buckets, of which a full one is followed by the next. Their places are filled from
// the first on. No address is removed: its shard is made anew.
type shard struct {
	tags    []uint64 // of each bucket: 8 bits of the hash of each address, the first in the lowest; 0 for a free place
	buckets []bucket
	used    int                  // places
	late    map[netip.Addr]int64 // ends that need more than 32 bits: after the year 2106
}

// bucket is as large as a line of the processor's cache: first the addresses, then their ends in seconds since
// 1970.
type bucket [16]uint32

// The ends in a bucket that are no time.
const (
	forever = math.MaxUint32     // NoEnd
	further = math.MaxUint32 - 1 // in shard.late
)

// layout says how the addresses of a family lie in a bucket.
type layout struct {
	words  int // of an address
	places int // of a bucket
}

var (
	layout4 = layout{1, 8}
	layout6 = layout{4, 3}
)

// lowest and highest have the lowest and the highest bit of each tag.
const (
	lowest  = 0x01_01_01_01_01_01_01_01
	highest = lowest << 7
)

var seed = maphash.MakeSeed()

// key is an address and where it is looked for.
type key struct {
	layout
	text  [4]uint32 // the address; in IPv4 the first alone
	hash  uint32    // says in which bucket the search begins
	tag   uint64
	shard *shard
}

// key returns the key of an address.
func (a *addresses) key(addr netip.Addr) (k key) {
	var hash uint64
	if addr.Is4() {
		bytes := addr.As4()
		k.layout, k.text[0] = layout4, binary.LittleEndian.Uint32(bytes[:])
		hash = maphash.Bytes(seed, bytes[:])
		k.shard = &a.four[hash&(1<<shardBits-1)]
	} else {
		bytes := addr.As16()
		k.layout = layout6
		for i := range k.text {
			k.text[i] = binary.LittleEndian.Uint32(bytes[4*i:])
		}
		hash = maphash.Bytes(seed, bytes[:])
		k.shard = &a.six[hash&(1<<shardBits-1)]
	}
	k.hash, k.tag = uint32(hash>>32), max(1, hash>>shardBits&0xff)
	return k
}

// end returns until when an address is banned; 0 if it is not.
func (a *addresses) end(addr netip.Addr) int64 {
	k := a.key(addr)
	at, place := k.find()
	if place < 0 {
		return 0
	}
	return k.shard.endOf(&k.shard.buckets[at], k.layout, place)
}

// find returns the bucket and the place of an address. If it is not there the place is -1, and the bucket is the
// first with a free place.
func (k *key) find() (at, place int) {
	s := k.shard
	n := len(s.tags)
	at = int(uint64(k.hash) * uint64(n) >> 32)
	for range n {
		// The highest bit of each tag is set in equal that is the one looked for; that of a tag above it may be,
		// too.
		tags := s.tags[at]
		differ := tags ^ k.tag*lowest
		if equal := (differ - lowest) &^ differ & highest; equal != 0 {
			if place := s.buckets[at].find(k); place >= 0 {
				return at, place
			}
		}
		if tags>>(8*(k.places-1)) == 0 {
			return at, -1
		}
		if at++; at == n {
			at = 0
		}
	}
	return 0, -1
}

// find returns the place of an address; -1 if it is not there. The words of a free place are 0, and its end too.
func (b *bucket) find(k *key) int {
	if k.words == 1 {
		for place, text := range b[:8] {
			if text == k.text[0] && b[8+place] != 0 {
				return place
			}
		}
		return -1
	}
	for place := range 3 {
		if [4]uint32(b[4*place:4*place+4]) == k.text && b[12+place] != 0 {
			return place
		}
	}
	return -1
}

// end returns the end of the ban in a place.
func (b *bucket) end(l layout, place int) *uint32 { return &b[l.words*l.places+place] }

// addr returns the address in a place.
func (b *bucket) addr(l layout, place int) netip.Addr {
	var bytes [16]byte
	for i := range l.words {
		binary.LittleEndian.PutUint32(bytes[4*i:], b[l.words*place+i])
	}
	if l.words == 1 {
		return netip.AddrFrom4([4]byte(bytes[:]))
	}
	return netip.AddrFrom16(bytes)
}

// endOf returns the end of the ban in a place of a bucket.
func (s *shard) endOf(b *bucket, l layout, place int) int64 {
	switch end := *b.end(l, place); end {
	case forever:
		return NoEnd
	case further:
		return s.late[b.addr(l, place)]
	default:
		return int64(end)
	}
}

// full reports whether another address needs more buckets: at most two of three places are used, so that few
// buckets are full.
func (s *shard) full(l layout) bool { return 3*(s.used+1) > 2*l.places*len(s.buckets) }

// put sets the end of the ban of an address. There is room for it.
func (k *key) put(addr netip.Addr, end int64) {
	s := k.shard
	at, place := k.find()
	b := &s.buckets[at]
	if place < 0 {
		place = (bits.Len64(s.tags[at]) + 7) / 8 // no tag is 0
		s.tags[at] |= k.tag << (8 * place)
		copy(b[k.words*place:], k.text[:k.words])
		s.used++
	}
	to := b.end(k.layout, place)
	switch {
	case end == NoEnd:
		*to = forever
	case end < further:
		*to = uint32(max(end, 1)) // 0 is a free place
	default:
		*to = further
		if s.late == nil {
			s.late = map[netip.Addr]int64{}
		}
		s.late[addr] = end
	}
}

// remake replaces the shard of a key by a copy without the address of the key, with room for some more.
func (a *addresses) remake(k *key) {
	old := *k.shard
	n := 1 + (old.used+1+old.used/4)*3/(2*k.places)
	*k.shard = shard{tags: make([]uint64, n), buckets: make([]bucket, n)}
	for i := range old.buckets {
		b := &old.buckets[i]
		for place := range k.places {
			if *b.end(k.layout, place) == 0 || place == b.find(k) {
				continue
			}
			addr := b.addr(k.layout, place)
			other := a.key(addr)
			other.put(addr, old.endOf(b, k.layout, place))
		}
	}
}
