package facts

import (
	"testing"
	"time"

	"stint"
)

// TestLargestPeaks: a key counts by the largest of its peaks, and once as new.
func TestLargestPeaks(t *testing.T) {
	const minute = stint.Instant(60_000_000)
	limit := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Minute})
	begin := stint.At(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	var p peaks
	for _, asks := range []struct {
		hash    uint64
		at      stint.Instant
		n       int
		allowed bool
	}{{1, begin, 2, true}, {2, begin, 1, true}, {1, begin + minute, 12, false}, {3, begin + minute, 1, true}} {
		for i := range stint.Instant(asks.n) {
			p.observe(&event{limit: limit, hash: asks.hash, at: asks.at + i, cost: 1, allowed: asks.allowed}, 100)
		}
	}
	p.finishAll(begin + 2*minute)
	measured := p.current()
	sum := measured
	sum.add(&measured)
	got := sum.shown() // of two nodes that measured the same
	if got.Periods != 8 || got.FirstPeriods != 6 || got.Sampled != 6 || got.KeyP99 < 1.17 || got.KeyP99 > 1.23 {
		t.Errorf("%+v", got)
	}
}
