package lease

import (
	"sync/atomic"
	"time"
)

// busyFilter tells keys that ask often from those that do not, in 64 KiB whatever their number:
// a place for the fingerprints of many keys knows the last of them and how often that asked
// in the present stretch of time. One that is pushed out by others asks the store once more.
type busyFilter [1 << 13]atomic.Uint64

// A place holds 32 bits of the fingerprint, 16 of the number of the stretch, 16 of a count.
const maxCount = 1<<16 - 1

// count notes that a key asks at now, and returns how often it has in this stretch of length
// d and the one before.
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
