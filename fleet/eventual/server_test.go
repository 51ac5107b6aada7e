package eventual

import (
	"math/rand/v2"
	"testing"

	"stint"
)

// The clock of the store is known to within its quickest answers, and does not leap when one
// is slow; a clock that drifts or is set back is followed.
func TestClockOfTheStore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const ahead, quickest = 5_000_000, 200 // microseconds
	h, off := new(server), stint.Instant(ahead)
	check := func(now stint.Instant, least, most int64) {
		t.Helper()
		if by := int64(h.now(now) - now - off); by < least || by > most {
			t.Fatalf("at %d the clock is %d us off", now, by)
		}
	}
	now := stint.Instant(10_000_000_000)
	for step := range 2000 {
		now += 100_000
		late := stint.Instant(quickest)
		if step > 0 && r.IntN(4) != 0 {
			late += stint.Instant(r.IntN(50_000))
		}
		h.setClock(now-late+off, now)
		check(now, -quickest, 0)
	}
	for range 600 { // the store's clock is slower, by 50 in a million
		now += 100_000
		off -= 5
		h.setClock(now-quickest+off, now)
		check(now, -quickest, 1000)
	}
	off -= 3600 * 1_000_000
	now += 100_000
	h.setClock(now-quickest+off, now)
	check(now, -quickest, 0)
}
