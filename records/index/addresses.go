package index

import (
	"hash/maphash"
	"net/netip"
)

// addresses has the ends of bans of single addresses. It is a hash table, so that a look-up reads one
// place in memory that is seldom in a cache of the processor; a tree reads several. It is immutable once
// it is shared: an Editor copies the shards that it changes.
type addresses [1 << shardBits]shard

// shard is a hash table with linear probing. It has 2^n slots, of which at most half are used.
type shard struct {
	slots []slot
	used  int
}

// shardBits is chosen so that a million addresses are 250 in a shard, which is copied fast.
const shardBits = 12

type slot struct {
	addr [16]byte
	end  int64 // 0: unused
}

var seed = maphash.MakeSeed()

// place returns the shard of an address, and where in it the search begins.
func place(addr [16]byte) (shard int, at uint64) {
	hash := maphash.Bytes(seed, addr[:])
	return int(hash & (1<<shardBits - 1)), hash >> shardBits
}

// end returns until when an address is banned; 0 if it is not.
func (a *addresses) end(addr netip.Addr) int64 {
	key := addr.As16()
	shard, at := place(key)
	slots := a[shard].slots
	mask := uint64(len(slots) - 1)
	for range slots {
		switch s := &slots[at&mask]; {
		case s.end == 0:
			return 0
		case s.addr == key:
			return s.end
		}
		at++
	}
	return 0
}

// full reports whether another address needs more slots.
func (s *shard) full() bool { return s.used+1 > len(s.slots)/2 }

// put sets the end of an address. There is room for it.
func (s *shard) put(fresh slot) {
	_, at := place(fresh.addr)
	mask := uint64(len(s.slots) - 1)
	for s.slots[at&mask].end != 0 && s.slots[at&mask].addr != fresh.addr {
		at++
	}
	if s.slots[at&mask].end == 0 {
		s.used++
	}
	s.slots[at&mask] = fresh
}

// without returns a copy of the shard without an address, with room for one more.
func (s *shard) without(addr [16]byte) shard {
	size := 4
	for size/2 < s.used+1 {
		size *= 2
	}
	fresh := shard{slots: make([]slot, size)}
	for _, old := range s.slots {
		if old.end != 0 && old.addr != addr {
			fresh.put(old)
		}
	}
	return fresh
}
