package memcached

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strconv"

	"stint"
	"stint/store/memcached/meta"
)

// room is how many bytes of a key follow the namespace and the algorithm at most: the numbers of a
// counter.
const room = 48

// keyName returns the name in memcached of a key under an algorithm: NAMESPACE:ALGORITHM:KEY, or
// NAMESPACE:ALGORITHM#HASH if memcached cannot have the key as it is. numbers stands before the key.
func (s *Store) keyName(algorithm stint.Algorithm, numbers string, key stint.Key) string {
	prefix := s.namespace + ":" + algorithm.String() + numbers
	if plain(key) && len(prefix)+1+len(key) <= meta.MaxKey-room+len(numbers) {
		return prefix + ":" + string(key)
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + "#" + hex.EncodeToString(sum[:16])
}

// plain reports whether memcached takes all bytes of a key: none is a blank, a control character or
// above ASCII.
func plain(key stint.Key) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// counterName returns the name of a counter: of the window or block with a number, whose length is size
// microseconds; 0 stands for windows of the calendar.
func (s *Store) counterName(q *query, size, number int64) string {
	return s.keyName(q.limit.Algorithm(), "@"+strconv.FormatInt(size, 36)+"."+strconv.FormatInt(number, 36), q.key)
}

// place returns a number for the connection of a key: the same for all its counters.
func place[K ~string](key K) uint64 { return maphash.String(seed, string(key)) }

var seed = maphash.MakeSeed()
