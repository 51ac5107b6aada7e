package lease

import (
	"sync/atomic"
	"time"
)

// busyFilter finds busy keys in 64 KiB of memory, whatever the number of keys. Each slot counts
// the takes of one key in the current and the previous interval. Keys that share a slot replace
// each other; a replaced key asks the store once more.
type busyFilter [1 << 13]atomic.Uint64

// maxCount is the largest count. A slot has 32 bits of the fingerprint, 16 of the interval's
// number and 16 of the count.
const maxCount = 1<<16 - 1

// count counts a take of a key at now, and returns the count of this interval of length d and the
// one before.
func (h *busyFilter) count(fp uint64, now Moment, d time.Duration) uint64 {
	stretch := uint64(now.Mono/int64(d)) & 0xffff
	place := &h[fp>>51]
	old := place.Load()
	asks := uint64(1)
	if uint32(old>>32) == uint32(fp) && (stretch-old>>16)&0xffff <= 1 {
		asks = min(asks+old&maxCount, maxCount)
	}
	place.Store(uint64(uint32(fp))<<32 | stretch<<16 | asks)
	return asks
}
