package limits

import "stint"

// Entry is a state that a store may evict.
type Entry struct {
	Key, Word uint64 // of the store; Key is a hash
	Rank      uint64 // order of eviction, see Rank
}

const (
	overLimit = 1 << 63 // bit of a rank: the key could not take now
	rankBits  = 11      // bits of a rank beside overLimit and an instant
)

// Rank returns the order of eviction of a live state: the smallest first. Keys that could take come
// before those over their limit, and those nearest their reset before others. Among equal states
// the hash decides, by its bits 32 to 42: a store that searches by others finds no clusters then.
func Rank(key uint64, limit *stint.Limit, st *stint.State, expiry, now stint.Instant) uint64 {
	r := uint64(expiry)<<rankBits | key>>32&(1<<rankBits-1)
	if !limit.Test(st, now, 1).Allowed {
		r |= overLimit
	}
	return r
}

// Evict chooses the states to evict, moves them to the front and returns how many of them could still
// take, and how many could not: at least need in all, and up to extra more so that the next eviction is
// not soon. Of keys over their limit it evicts only as many as it must, plus a quarter of extra.
func Evict(live []Entry, need, extra int) (idle, over int) {
	for i := range live {
		if live[i].Rank < overLimit {
			idle++
		}
	}
	n := need + extra
	if n > idle {
		n = max(idle, need+extra/4)
	}
	n = min(n, len(live))
	smallest(live, n)
	idle = min(idle, n)
	return idle, n - idle
}

// smallest moves the n entries of the smallest ranks to the front (Hoare's selection).
func smallest(e []Entry, n int) {
	for lo, hi := 0, len(e)-1; lo < hi && n > lo && n <= hi; {
		pivot := e[lo+(hi-lo)/2].Rank
		i, j := lo, hi
		for i <= j {
			for e[i].Rank < pivot {
				i++
			}
			for e[j].Rank > pivot {
				j--
			}
			if i <= j {
				e[i], e[j] = e[j], e[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n <= j:
			hi = j
		case n >= i:
			lo = i
		default:
			return
		}
	}
}
