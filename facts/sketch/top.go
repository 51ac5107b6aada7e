package sketch

import (
	"cmp"
	"math"
	"slices"
)

// Kinds is how many counts a key has.
const Kinds = 3

// Counts are the counts of a key by kind.
type Counts [Kinds]uint64

// Top finds the keys with the largest counts by Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi,
// "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005, with weights.
//
// It keeps at most m keys. A key that is not kept takes the place of the one with the smallest
// count, and inherits that count as its error. If all weights together are N, then for every key
//
//	count <= its weight + N/m, and count >= its weight
//
// so that every key above N/m is kept. Memory grows with the keys that are kept.
//
// Keys are identified by a 64-bit hash alone. It must be keyed with a secret, so that nobody can search
// for keys that collide. Top is not safe for concurrent use.
type Top struct {
	m    int
	kind int
	n    uint64
	byID map[uint64]int32 // index in keys
	keys []Key
	heap []node // the smallest count first; four children to a node, so that it is flat
}

// node is a key in the heap.
type node struct {
	count uint64
	key   int32
}

// Key is a key that Top keeps.
type Key struct {
	Hash uint64

	// Bytes is the key itself.
	Bytes []byte

	// Counts are the counts of the key. The one of Top's kind includes Error. Others count from when
	// the key took its place, so they may be too small.
	Counts Counts

	// Error is by how much the count may be too large.
	Error uint64

	// Variance is the variance of the count if it was sampled, see [Top.Add].
	Variance float64

	at int32 // index in the heap
}

// NewTop returns a Top that keeps m keys with the largest counts of a kind.
func NewTop(m, kind int) *Top {
	return &Top{m: max(m, 1), kind: kind, byID: map[uint64]int32{}}
}

// Add adds to the counts of a key. variance is that of the added count if it is an estimate, 0 if it
// is exact. Add copies key. A key without a count of Top's kind takes no place.
func (t *Top) Add(hash uint64, key []byte, counts *Counts, variance float64) {
	weight := counts[t.kind]
	t.n += weight
	i, found := t.byID[hash]
	switch {
	case found:
	case weight == 0:
		return
	case len(t.keys) < t.m:
		i = int32(len(t.keys))
		t.keys = append(t.keys, Key{Hash: hash, Bytes: slices.Clone(key), at: i})
		t.byID[hash] = i
		t.heap = append(t.heap, node{0, i})
		t.up(len(t.heap) - 1)
	default:
		i = t.heap[0].key
		k := &t.keys[i]
		delete(t.byID, k.Hash)
		t.byID[hash] = i
		smallest := k.Counts[t.kind]
		*k = Key{Hash: hash, Bytes: append(k.Bytes[:0], key...), Error: smallest, at: 0}
		k.Counts[t.kind] = smallest
	}
	k := &t.keys[i]
	for kind := range k.Counts {
		k.Counts[kind] += counts[kind]
	}
	k.Variance += variance
	t.heap[k.at].count = k.Counts[t.kind]
	t.down(int(k.at))
}

// Total returns N: the sum of all weights.
func (t *Top) Total() uint64 { return t.n }

// Len returns how many keys are kept.
func (t *Top) Len() int { return len(t.keys) }

// Get returns a key that is kept.
func (t *Top) Get(hash uint64) (*Key, bool) {
	i, found := t.byID[hash]
	if !found {
		return nil, false
	}
	return &t.keys[i], true
}

// Smallest returns the most that a key may count which is not kept.
func (t *Top) Smallest() uint64 {
	if len(t.keys) < t.m {
		return 0
	}
	return t.heap[0].count
}

// List returns the n keys with the largest counts, the largest first. They are valid until the next Add.
func (t *Top) List(n int) []*Key {
	list := make([]*Key, len(t.keys))
	for i := range t.keys {
		list[i] = &t.keys[i]
	}
	slices.SortFunc(list, func(a, b *Key) int {
		return cmp.Or(cmp.Compare(b.Counts[t.kind], a.Counts[t.kind]), cmp.Compare(a.Hash, b.Hash))
	})
	return list[:min(n, len(list))]
}

// Spread returns twice the standard deviation of the sampled part of a count.
func (k *Key) Spread() uint64 { return uint64(math.Ceil(2 * math.Sqrt(k.Variance))) }

// up moves a node of the heap towards the root until its parent is not larger.
func (t *Top) up(i int) {
	n := t.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if t.heap[parent].count <= n.count {
			break
		}
		t.put(i, t.heap[parent])
		i = parent
	}
	t.put(i, n)
}

// down moves a node of the heap away from the root until no child is smaller.
func (t *Top) down(i int) {
	n := t.heap[i]
	for {
		child := 4*i + 1
		if child >= len(t.heap) {
			break
		}
		for other := child + 1; other < min(4*i+5, len(t.heap)); other++ {
			if t.heap[other].count < t.heap[child].count {
				child = other
			}
		}
		if t.heap[child].count >= n.count {
			break
		}
		t.put(i, t.heap[child])
		i = child
	}
	t.put(i, n)
}

func (t *Top) put(i int, n node) {
	t.heap[i] = n
	t.keys[n.key].at = int32(i)
}
