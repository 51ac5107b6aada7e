package script

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Recent remembers keys that had a value in Redis a short time ago. one.lua needs the key of the process
// only for a key without a value, and a call with one key costs less than one with two. A key that is
// remembered wrongly costs a second script. Recent has a fixed size: two keys in the same place replace
// each other. It is safe for concurrent use.
type Recent struct {
	seed   maphash.Seed
	places [1 << 12]atomic.Uint64 // 48 bits of a key's hash, and 16 of the second
}

// recentFor is how many seconds a key is remembered. Redis keeps a value for ten seconds or more after the
// key is unused again.
const recentFor = 5

// NewRecent returns a Recent without keys.
func NewRecent() *Recent { return &Recent{seed: maphash.MakeSeed()} }

// Mark stores that a key has a value at a time.
func (r *Recent) Mark(key string, now time.Duration) {
	hash := maphash.String(r.seed, key)
	r.places[hash>>52].Store(hash<<16 | uint64(now/time.Second)&0xffff)
}

// Has reports whether a key probably has a value at a time.
func (r *Recent) Has(key string, now time.Duration) bool {
	hash := maphash.String(r.seed, key)
	word := r.places[hash>>52].Load()
	return word>>16 == hash<<16>>16 && (uint64(now/time.Second)-word)&0xffff <= recentFor
}
