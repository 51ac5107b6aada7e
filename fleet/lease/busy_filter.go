package lease

import (
	"sync/atomic"
	"time"

	"stint"
)

// busyFilter finds busy keys in 64 KiB of memory, whatever the number of keys. Each slot counts
// the takes of one key in the current second, and half of those in the second before, a quarter of
// those before that, and so on while each second has takes. Keys that share a slot replace each
// other, and a replaced key starts again.
type busyFilter [1 << 13]atomic.Uint64

// maxCount is the largest of the two counts of a slot. A slot has 32 bits of the fingerprint, 16 of the
// second's number, 8 for the takes before this second and 8 for those in it.
const maxCount = 1<<8 - 1

const (
	// busyTakes in one second make a key busy.
	busyTakes = 2 * stint.LeaseRate

	// busyCount makes a key busy whatever its takes are distributed over: about half as many a second.
	// It is so much larger than busyTakes that a key with fewer than LeaseRate takes a second does not
	// reach it by chance: its attempts to borrow would cost the store more than they save.
	busyCount = 3 * stint.LeaseRate
)

// busy counts a take of a key at now and reports whether the key is busy.
func (h *busyFilter) busy(fp uint64, now Moment) bool {
	second := uint64(now.Mono/int64(time.Second)) & 0xffff
	place := &h[fp>>51]
	old := place.Load()
	before, takes := uint64(0), uint64(1)
	if passed := (second - old>>16) & 0xffff; uint32(old>>32) == uint32(fp) && passed <= 1 {
		before, takes = old>>8&maxCount, old&maxCount
		if passed == 1 {
			before, takes = min((before+takes)/2, maxCount), 0
		}
		takes = min(takes+1, maxCount)
	}
	place.Store(uint64(uint32(fp))<<32 | second<<16 | before<<8 | takes)
	return takes >= busyTakes || before+takes >= busyCount
}
