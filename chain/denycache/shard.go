package denycache

import (
	"math/bits"
	"strings"
	"sync"

	"stint"
)

// shardCount is a power of two.
const shardCount = 64

// shard holds a part of the keys. No lock of another one is taken under its own.
type shard struct {
	mu    sync.Mutex
	known map[uint64]*record
	bytes int64
	seq   uint64 // of what was forgotten
	_     [64]byte
}

// hashOf returns the number by which processes speak of a key under an algorithm. Keys
// that share one only push each other out.
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

// get returns what is known of a take's key, nil for nothing. What is known of other
// numbers is of no use any more: stale says so.
func (sh *shard) get(hash uint64, t *stint.Take) (r *record, stale bool) {
	r = sh.known[hash]
	if r == nil || r.key != t.Key || r.limit.Algorithm() != t.Limit.Algorithm() {
		return nil, false
	}
	if !alike(r.limit, t.Limit) {
		return nil, true
	}
	return r, false
}

// add makes a record for a take, if there is room for it or can be made.
func (s *Store) add(sh *shard, hash uint64, t *stint.Take, now moment) *record {
	size := recordSize + int64(len(t.Key))
	if size > s.budget/4 {
		return nil
	}
	if sh.known[hash] != nil {
		s.remove(sh, hash)
	}
	for sh.bytes+size > s.budget {
		s.evict(sh, now)
	}
	r := &record{key: stint.Key(strings.Clone(string(t.Key))), limit: t.Limit}
	sh.known[hash] = r
	sh.bytes += size
	s.records.Add(1)
	return r
}

// remove forgets one key. Those who wait for an answer about it look again.
func (s *Store) remove(sh *shard, hash uint64) {
	r := sh.known[hash]
	delete(sh.known, hash)
	sh.bytes -= recordSize + int64(len(r.key))
	s.records.Add(-1)
	r.gate.wake()
}

// evict makes room in a shard that holds something: what is over goes first, if it is
// found at once.
func (s *Store) evict(sh *shard, now moment) {
	victim, looked := uint64(0), 0
	for hash, r := range sh.known {
		victim = hash
		if looked++; r.over(now, s.maxAge) || looked == 8 {
			break
		}
	}
	if !sh.known[victim].over(now, s.maxAge) {
		s.dropped.Add(1)
	}
	s.remove(sh, victim)
}

// forget forgets a key, and what is under way about its neighbours.
func (s *Store) forget(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.seq++
	if sh.known[hash] != nil {
		s.remove(sh, hash)
		s.dropped.Add(1)
	}
}

// outdate forgets a key of which something was taken.
func (s *Store) outdate(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.known[hash] != nil {
		sh.seq++
		s.remove(sh, hash)
		s.dropped.Add(1)
	}
}

// Drop forgets everything in this process: for a store that was emptied.
func (s *Store) Drop() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.seq++
		for hash := range sh.known {
			s.remove(sh, hash)
			s.dropped.Add(1)
		}
		sh.mu.Unlock()
	}
}

// sweep gives back the memory of what is over in one shard.
func (s *Store) sweep(i int) {
	now := s.now()
	sh := &s.shards[i%shardCount]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for hash, r := range sh.known {
		if r.gate.asking == 0 && r.over(now, s.maxAge) {
			s.remove(sh, hash)
		}
	}
}
