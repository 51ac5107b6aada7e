package index

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	cacheShards = 16
	shardMost   = 10_000 / cacheShards // entries of a shard
)

// Cache holds the 10,000 values that were used last, or nearly so: it evicts a value that was not
// used since the last round over all values of its shard. Readers of different keys rarely wait for
// each other.
type Cache[K comparable, V any] struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard[K, V]
}

type cacheShard[K comparable, V any] struct {
	mu   sync.RWMutex
	by   map[K]*cached[K, V]
	ring []*cached[K, V] // all values, and dropped ones
	hand int             // the position in ring that is checked next
}

type cached[K comparable, V any] struct {
	key   K
	value V
	used  atomic.Bool
}

// NewCache returns an empty cache.
func NewCache[K comparable, V any]() *Cache[K, V] {
	c := &Cache[K, V]{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].by = map[K]*cached[K, V]{}
	}
	return c
}

func (c *Cache[K, V]) shard(key K) *cacheShard[K, V] {
	return &c.shards[maphash.Comparable(c.seed, key)%cacheShards]
}

// Get returns the value of a key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	s := c.shard(key)
	s.mu.RLock()
	entry := s.by[key]
	s.mu.RUnlock()
	if entry == nil {
		return value, false
	}
	if !entry.used.Load() {
		entry.used.Store(true)
	}
	return entry.value, true
}

// Add adds a value if valid returns true. A drop of the key waits until add has returned.
func (c *Cache[K, V]) Add(key K, value V, valid func() bool) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !valid() || s.by[key] != nil {
		return
	}
	entry := &cached[K, V]{key: key, value: value}
	s.by[key] = entry
	if len(s.ring) < shardMost {
		s.ring = append(s.ring, entry)
		return
	}
	for s.ring[s.hand].used.Swap(false) {
		s.hand = (s.hand + 1) % shardMost
	}
	if old := s.ring[s.hand]; s.by[old.key] == old {
		delete(s.by, old.key)
	}
	s.ring[s.hand] = entry
	s.hand = (s.hand + 1) % shardMost
}

// Drop removes a key.
func (c *Cache[K, V]) Drop(key K) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry := s.by[key]; entry != nil {
		entry.used.Store(false) // evicted first
		delete(s.by, key)
	}
}

// Clear removes all keys.
func (c *Cache[K, V]) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		clear(s.by)
		clear(s.ring)
		s.ring, s.hand = s.ring[:0], 0
		s.mu.Unlock()
	}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		n += len(s.by)
		s.mu.RUnlock()
	}
	return n
}
