package denycache

import (
	"math/bits"
	"strings"
	"sync"

	"stint"
)

// shardCount is a power of two.
const shardCount = 64

// shard has a part of the keys. While its lock is held no lock of another shard is taken.
type shard struct {
	mu      sync.Mutex
	records map[uint64]*record
	bytes   int64
	seq     uint64 // counts what was dropped
	_       [64]byte
}

// hashOf returns the number of a key under an algorithm in messages between processes. Of keys with
// the same hash only one is cached.
func hashOf(key stint.Key, algorithm stint.Algorithm) uint64 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(algorithm)*prime ^ uint64(len(key))
	i := 0
	for ; i+8 <= len(key); i += 8 {
		word := uint64(key[i]) | uint64(key[i+1])<<8 | uint64(key[i+2])<<16 | uint64(key[i+3])<<24 |
			uint64(key[i+4])<<32 | uint64(key[i+5])<<40 | uint64(key[i+6])<<48 | uint64(key[i+7])<<56
		h = mix(h ^ word)
	}
	for ; i < len(key); i++ {
		h = mix(h ^ uint64(key[i]))
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	hi, lo := bits.Mul64(h^0x2d358dccaa6c78a5, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

func (s *Store) shard(hash uint64) *shard { return &s.shards[hash%shardCount] }

// get returns the record of a take's key, nil if there is none. stale reports that there is one
// under other numbers, which is no longer of use.
func (sh *shard) get(hash uint64, t *stint.Take) (r *record, stale bool) {
	r = sh.records[hash]
	if r == nil || r.key != t.Key || r.limit.Algorithm() != t.Limit.Algorithm() {
		return nil, false
	}
	if !sameLimit(r.limit, t.Limit) {
		return nil, true
	}
	return r, false
}

// add makes a record for a take, and evicts others for it. It returns nil if the key is too long.
func (s *Store) add(sh *shard, hash uint64, t *stint.Take, now moment) *record {
	size := recordSize + int64(len(t.Key))
	if size > s.budget/4 {
		return nil
	}
	if sh.records[hash] != nil {
		s.remove(sh, hash)
	}
	for sh.bytes+size > s.budget {
		s.evict(sh, now)
	}
	r := &record{key: stint.Key(strings.Clone(string(t.Key))), limit: t.Limit}
	sh.records[hash] = r
	sh.bytes += size
	s.records.Add(1)
	return r
}

// remove removes a key. Calls that wait for an answer about it look again.
func (s *Store) remove(sh *shard, hash uint64) {
	r := sh.records[hash]
	delete(sh.records, hash)
	sh.bytes -= recordSize + int64(len(r.key))
	s.records.Add(-1)
	r.gate.wake()
}

// evict removes a record to make room in a shard that has some: one that is over, if it finds one
// quickly.
func (s *Store) evict(sh *shard, now moment) {
	victim, looked := uint64(0), 0
	for hash, r := range sh.records {
		victim = hash
		if looked++; r.over(now, s.maxAge) || looked == 8 {
			break
		}
	}
	if !sh.records[victim].over(now, s.maxAge) {
		s.dropped.Add(1)
	}
	s.remove(sh, victim)
}

// forget drops a key, and makes answers in flight about keys of the same shard uncacheable.
func (s *Store) forget(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.seq++
	if sh.records[hash] != nil {
		s.remove(sh, hash)
		s.dropped.Add(1)
	}
}

// dropCharged drops a key of which something was taken.
func (s *Store) dropCharged(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.records[hash] != nil {
		sh.seq++
		s.remove(sh, hash)
		s.dropped.Add(1)
	}
}

// Drop drops everything in this process. Call it after a store was emptied.
func (s *Store) Drop() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.seq++
		for hash := range sh.records {
			s.remove(sh, hash)
			s.dropped.Add(1)
		}
		sh.mu.Unlock()
	}
}

// sweep removes the records of one shard that are over.
func (s *Store) sweep(i int) {
	now := s.now()
	sh := &s.shards[i%shardCount]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for hash, r := range sh.records {
		if r.gate.asking == 0 && r.over(now, s.maxAge) {
			s.remove(sh, hash)
		}
	}
}
