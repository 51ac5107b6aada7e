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

// TestPeaksClockBack: a period that began while the clock was ahead ends when it is set back, and bursts are seen again.
func TestPeaksClockBack(t *testing.T) {
	const second = stint.Instant(1_000_000)
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 60, Per: time.Minute, Burst: 10})
	begin := stint.At(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	var p peaks
	ask := func(at stint.Instant, allowed bool) {
		p.observe(&event{limit: limit, hash: 1, at: at, cost: 1, allowed: allowed}, 100)
	}
	ask(begin+3600*second, true)
	for i := range stint.Instant(1800) { // every other second
		ask(begin+i*2*second, true)
	}
	ask(begin+3605*second, false)
	p.finishAll(begin + 2*3600*second)
	if got := p.now.shown(); got.P999 > 1 || got.Periods < 50 {
		t.Errorf("half of the limit is measured as %.2f in %d periods", got.P999, got.Periods)
	}
	p = peaks{}
	ask(begin+3600*second, true)
	ask(begin, false)
	if p.now.Bursts != 1 {
		t.Errorf("%d bursts", p.now.Bursts)
	}
}
