package memory

import (
	"sync"
	"sync/atomic"

	"stint"
)

// registry numbers the limits under which states were written, so that a state of one word can name
// its limit in 11 bits. It holds 2,045 different sets of numbers; states under any more are in the
// map, where each has its limit. Sets are never removed.
type registry struct {
	// limits by the top 12 bits of a word: nil for a busy word or no state.
	limits [1 << 12]atomic.Pointer[stint.Limit]

	// known caches the number of each limit by its address, so that a known address costs one
	// look-up. At maxKnown entries it is emptied, for programs that make a new limit for every
	// call.
	known sync.Map
	count atomic.Int64

	mu  sync.Mutex
	ids map[stint.Spec]uint64
}

const maxKnown = 1 << 16

// of returns the limit under which the state in a word was written, nil if the word
// is untouched, busy, moved or frozen.
func (r *registry) of(word uint64) *stint.Limit { return r.limits[word>>stateBits].Load() }

// id returns the number of the limit, 0 if all numbers are used.
func (r *registry) id(limit *stint.Limit) uint64 {
	if id, ok := r.known.Load(limit); ok {
		return id.(uint64)
	}
	id := r.add(numbers(limit), limit)
	if r.count.Add(1) > maxKnown {
		r.known.Clear()
		r.count.Store(0)
	}
	r.known.Store(limit, id)
	return id
}

// add returns the number of a spec, and gives it one if it is new.
func (r *registry) add(key stint.Spec, limit *stint.Limit) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, ok := r.ids[key]; ok {
		return id
	}
	if len(r.ids) >= maxID {
		return 0
	}
	if r.ids == nil {
		r.ids = make(map[stint.Spec]uint64)
	}
	id := uint64(len(r.ids) + 1)
	r.limits[id].Store(limit)
	r.ids[key] = id
	return id
}

// numbers returns the fields that stint.StoreLimit.Same compares; packed limits have no calendar.
func numbers(limit *stint.Limit) stint.Spec {
	s := limit.Spec()
	return stint.Spec{Algorithm: s.Algorithm, Requests: s.Requests, Per: s.Per, Burst: s.Burst, Step: s.Step}
}
