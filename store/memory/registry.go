package memory

import (
	"sync"
	"sync/atomic"

	"stint"
)

// registry numbers the limits under which states were written, so that a state of
// one word can say in 11 bits how it is to be read. It holds 2,045 different sets
// of numbers; states under any more live in the map, where they carry their limit
// themselves. Sets are never forgotten.
type registry struct {
	limits [1 << 11]atomic.Pointer[stint.Limit]

	last atomic.Pointer[named] // the latest answer of id

	mu  sync.RWMutex
	ids map[stint.Spec]uint64
}

// named is a limit and its number.
type named struct {
	limit *stint.Limit
	id    uint64
}

// get returns the limit of an id that was given out.
func (r *registry) get(id uint64) *stint.Limit { return r.limits[id&(1<<11-1)].Load() }

// id returns the number of the limit, 0 if there is none left.
func (r *registry) id(limit *stint.Limit) uint64 {
	if n := r.last.Load(); n != nil && n.limit == limit {
		return n.id
	}
	key := numbers(limit)
	r.mu.RLock()
	id, ok := r.ids[key]
	r.mu.RUnlock()
	if !ok {
		id = r.add(key, limit)
	}
	if id != 0 {
		r.last.Store(&named{limit, id})
	}
	return id
}

// add numbers a limit, unless somebody else just did.
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

// numbers returns what stint.Limit.Same compares; packed limits have no calendar.
func numbers(limit *stint.Limit) stint.Spec {
	s := limit.Spec()
	return stint.Spec{Algorithm: s.Algorithm, Requests: s.Requests, Per: s.Per, Burst: s.Burst, Step: s.Step}
}
