package sketch

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// spread returns a uniform hash of a number.
func spread(n uint64) uint64 {
	n ^= n >> 33
	n *= 0xff51afd7ed558ccd
	n ^= n >> 33
	n *= 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}

// checkTop checks the promises of a Top against the true counts.
func checkTop(t *testing.T, top *Top, m int, truth map[uint64]uint64) {
	t.Helper()
	total := uint64(0)
	for _, n := range truth {
		total += n
	}
	if top.Total() != total {
		t.Fatalf("N is %d, want %d", top.Total(), total)
	}
	if top.Len() > m {
		t.Fatalf("keeps %d keys, at most %d", top.Len(), m)
	}
	bound := total / uint64(m)
	for key, n := range truth {
		k, kept := top.Get(key)
		switch {
		case !kept && n > bound:
			t.Fatalf("key %d with %d of %d is not kept by %d", key, n, total, m)
		case !kept && n > top.Smallest():
			t.Fatalf("key %d counts %d and is not kept; the smallest is %d", key, n, top.Smallest())
		case kept && (k.Counts[0] < n || k.Counts[0] > n+bound || k.Counts[0]-k.Error > n):
			t.Fatalf("key %d counts %d, error %d, true %d, bound %d", key, k.Counts[0], k.Error, n, bound)
		}
	}
	list := top.List(m)
	if !slices.IsSortedFunc(list, func(a, b *Key) int { return int(int64(b.Counts[0]) - int64(a.Counts[0])) }) {
		t.Fatal("the list is not sorted")
	}
}

// Whatever the stream, each count is at least the truth and at most N/m above it, and every key above N/m
// is kept.
func TestTopBounds(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := 1 + r.IntN(40)
		top, truth := NewTop(m, 0), map[uint64]uint64{}
		keys := 1 + r.IntN(300)
		for range 3000 {
			key := uint64(float64(keys) * math.Pow(r.Float64(), 3))
			weight := uint64(1)
			if seed%2 == 0 {
				weight = r.Uint64N(50)
			}
			if weight > 0 {
				truth[key] += weight
			}
			top.Add(key, binary.BigEndian.AppendUint64(nil, key), &Counts{weight}, 0)
		}
		checkTop(t, top, m, truth)
		for _, k := range top.List(m) {
			if binary.BigEndian.Uint64(k.Bytes) != k.Hash {
				t.Fatalf("key %d has the bytes of another one", k.Hash)
			}
		}
	}
}

func FuzzTop(f *testing.F) {
	f.Add(uint8(3), []byte{1, 2, 3, 4, 1, 1, 9, 8, 7, 1})
	f.Fuzz(func(t *testing.T, m uint8, stream []byte) {
		top, truth := NewTop(int(m), 0), map[uint64]uint64{}
		for i := 0; i+1 < len(stream); i += 2 {
			if stream[i+1] > 0 {
				truth[uint64(stream[i])] += uint64(stream[i+1])
			}
			top.Add(uint64(stream[i]), stream[i:i+1], &Counts{uint64(stream[i+1])}, 0)
		}
		checkTop(t, top, max(int(m), 1), truth)
	})
}

// The other counts of a key begin when it takes its place.
func TestTopOtherCounts(t *testing.T) {
	top := NewTop(1, 0)
	top.Add(1, []byte("a"), &Counts{0, 5}, 0) // has no place yet
	top.Add(1, []byte("a"), &Counts{2, 7}, 0)
	top.Add(1, []byte("a"), &Counts{0, 1}, 4)
	if k, _ := top.Get(1); k.Counts != (Counts{2, 8}) || k.Spread() != 4 {
		t.Errorf("%+v", k)
	}
	top.Add(2, []byte("b"), &Counts{1, 3}, 0)
	if k, kept := top.Get(2); !kept || k.Counts != (Counts{3, 3}) || k.Error != 2 || string(k.Bytes) != "b" || k.Variance != 0 {
		t.Errorf("%+v", k)
	}
}

// The estimate is within four standard errors, from none to millions, and for merged ones as for one.
func TestDistinct(t *testing.T) {
	for _, n := range []uint64{0, 1, 10, 1000, 4096, 20_000, 300_000, 3_000_000} {
		var all, odd, even Distinct
		for key := range n {
			hash := spread(key + n<<32)
			all.Add(hash)
			all.Add(hash)
			if !all.Counted(hash) {
				t.Fatalf("%x is not counted", hash)
			}
			if key%2 == 0 {
				even.Add(hash)
			} else {
				odd.Add(hash)
			}
		}
		got := float64(all.Estimate())
		if math.Abs(got-float64(n)) > max(4*0.01625*float64(n), 1) {
			t.Errorf("%d keys: estimate %.0f", n, got)
		}
		even.Merge(&odd)
		if even.Estimate() != all.Estimate() {
			t.Errorf("%d keys: merged %d, at once %d", n, even.Estimate(), all.Estimate())
		}
		b, _ := all.MarshalBinary()
		var read Distinct
		if err := read.UnmarshalBinary(b); err != nil || read.Estimate() != all.Estimate() {
			t.Errorf("read back %d, %v", read.Estimate(), err)
		}
	}
}

// Small counts are exact, large ones are off by at most a half of a thousandth.
func TestSeriesCounts(t *testing.T) {
	for _, n := range []uint64{1, 127, 128, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 65_535, 1 << 20, 1<<40 - 1, 2047 << 30} {
		got, size := cutCount(appendCount(nil, n))
		if n < 2048 && got != n || math.Abs(float64(got)/float64(n)-1) > 1.0/2047 || size > 2 {
			t.Errorf("%d reads as %d, %d bytes", n, got, size)
		}
	}
	if got, _ := cutCount(appendCount(nil, math.MaxUint64)); got != 2047<<30 {
		t.Errorf("the largest reads as %d", got)
	}
}

func FuzzSeries(f *testing.F) {
	f.Add(3, []byte{1, 5, 0, 3, 200, 1, 7})
	f.Fuzz(func(t *testing.T, steps int, data []byte) {
		s := Series{Chunks: []Chunk{{Steps: steps, Data: data}}}
		if s.Check(time.Minute) == nil {
			s.Each(time.Time{}, time.Minute, func(time.Time, Numbers) {})
		}
	})
}

func FuzzDistinct(f *testing.F) {
	f.Add(make([]byte, Registers))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Distinct
		if d.UnmarshalBinary(b) == nil {
			d.Estimate()
			if again, _ := d.MarshalBinary(); string(again) != string(b) {
				t.Error("writes other bytes than it read")
			}
		}
	})
}

func BenchmarkTopMisses(b *testing.B) {
	for _, m := range []int{1024, 16384} {
		b.Run(fmt.Sprint(m), func(b *testing.B) {
			top, key := NewTop(m, 0), make([]byte, 24)
			for n := uint64(0); b.Loop(); n++ {
				binary.BigEndian.PutUint64(key, n)
				top.Add(spread(n), key, &Counts{1}, 0)
			}
		})
	}
}
