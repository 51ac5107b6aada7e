package lease

import (
	"sync/atomic"
	"time"
)

// busyFilter finds busy keys in 64 KiB of memory, whatever the number of keys. Each slot counts
// the takes of one key in the current second, half of those in the second before, a quarter of
// those before that, and so on while each second has takes. Keys that share a slot replace each
// other, and a replaced key starts again.
type busyFilter [1 << 13]atomic.Uint64

// maxCount is the largest count. A slot has 32 bits of the fingerprint, 16 of the interval's
// number and 16 of the count.
const maxCount = 1<<16 - 1

// count counts a take of a key at now and returns the key's count: about twice its takes a second.
func (h *busyFilter) count(fp uint64, now Moment) uint64 {
	stretch := uint64(now.Mono/int64(time.Second)) & 0xffff
	place := &h[fp>>51]
	old := place.Load()
	asks := uint64(1)
	if passed := (stretch - old>>16) & 0xffff; uint32(old>>32) == uint32(fp) && passed <= 1 {
		asks = min(asks+old&maxCount>>passed, maxCount)
	}
	place.Store(uint64(uint32(fp))<<32 | stretch<<16 | asks)
	return asks
}
