package index

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stint/internal/testkit"
)

// BenchmarkEnd reports the cost of looking up one of a million addresses and networks, and, as the floor
// in the same run, of one read at a random place of as much memory: mean, and the best 10,000 (best-ns/op).
//
//	go test ./records/index -run '^$' -bench End
func BenchmarkEnd(b *testing.B) {
	const n = 1_000_000
	table := NewTable(func(yield func(netip.Prefix, int64) bool) {
		for i := range n {
			bits := testkit.ScatteredAddress(i).BitLen()
			if i%10 == 0 {
				bits = 24
			}
			if !yield(netip.PrefixFrom(testkit.ScatteredAddress(i), bits).Masked(), 7) {
				return
			}
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	var banned, other []netip.Addr
	for range 1 << 16 {
		banned, other = append(banned, testkit.ScatteredAddress(r.IntN(n))), append(other, testkit.ScatteredAddress(n+r.IntN(n)))
	}
	floor := make([]uint64, 25*n/8)
	for i := range floor {
		floor[i] = uint64(i)
	}
	for i := len(floor) - 1; i > 0; i-- { // one cycle through all
		j := r.IntN(i)
		floor[i], floor[j] = floor[j], floor[i]
	}
	next, hits := uint64(0), 0
	for _, bench := range []struct {
		name string
		do   func(i int)
	}{
		{"banned", func(i int) { count(&hits, table, banned[i&(1<<16-1)]) }},
		{"other", func(i int) { count(&hits, table, other[i&(1<<16-1)]) }},
		{"floor", func(int) { next = floor[next] }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			const round = 10_000
			i := 0
			var times []time.Duration
			began := time.Now()
			for b.Loop() {
				bench.do(i)
				if i++; i%round == 0 {
					times = append(times, time.Since(began))
					began = time.Now()
				}
			}
			if len(times) > 0 {
				b.ReportMetric(float64(slices.Min(times).Nanoseconds())/round, "best-ns/op")
			}
		})
	}
}

func count(hits *int, table Table, addr netip.Addr) {
	if _, ok := table.End(addr); ok {
		*hits++
	}
}
