package storetest

import (
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// clocks: after a clock that was ahead is corrected, keys that were used up deny for no longer than
// a full use from that moment, however far ahead it was; and the same if another server whose clock
// is behind takes over. The difference that clocks may have is added to the wait, and time that
// goes back by no more gives nothing back.
func clocks(t *testing.T, o Options) {
	const clocksDiffer = 5 * time.Second
	aheads := []time.Duration{
		300 * 24 * time.Hour, 24*time.Hour + 53*time.Minute + 20*time.Second, time.Hour, 5*time.Second + time.Microsecond, 5 * time.Second,
	}
	if !testing.Short() {
		aheads = append(aheads, 24*time.Hour, 2*time.Hour, 50*time.Minute, 7*time.Second, 30*time.Millisecond)
	}
	for _, limit := range append(model.Variants(10), stint.MustLimit(stint.Spec{Requests: 10, Calendar: stint.Day}),
		stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 10, Per: time.Hour, Blocks: 6, StartUsedUp: true}),
		stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Second}),
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second}),
		stint.MustLimit(stint.Spec{Requests: 10, Per: time.Second})) {
		t.Run(model.Name(limit)+" per "+limit.Spec().Per.String(), func(t *testing.T) {
			s := start(t, o)
			for _, ahead := range aheads {
				for _, debt := range []uint32{0, 15} {
					key := stint.Key(fmt.Sprint(ahead, debt))
					spent := func(key stint.Key, at stint.Instant, limit *stint.Limit) {
						for range 10 { // one by one, as clients take them
							s.take(at, key, limit, 1)
						}
						s.decide(at, stint.Take{Key: key, Limit: limit, Cost: debt, Op: stint.Force})
					}
					spec := limit.Spec()
					spec.StartUsedUp = false // otherwise the time before counts as used
					empty := stint.MustLimit(spec)
					spent(key, noon.Add(ahead), limit)
					spent("now "+key, noon, empty)
					most := waits(s, noon, "now "+key, empty)
					if span := period(limit); limit.Algorithm() == stint.FixedWindow && !limit.Spec().CarryDebt {
						most = max(most, span) // part of its window may be over at noon
					} else if limit.Algorithm() == stint.FixedWindow {
						most = time.Duration((10+debt+9)/10) * span
					}
					if ahead <= clocksDiffer {
						most += ahead
					}
					s.peek(noon, key, limit)
					if wait := waits(s, noon, key, limit); wait > most || wait == 0 && !(o.Counters && isWindow(limit)) {
						t.Errorf("%v ahead, %d more: denied for %v, want at most %v", ahead, debt, wait, most)
					}
				}
			}
		})
	}
	t.Run("who looks", func(t *testing.T) { clocksLook(t, o) })
	if o.Lends {
		t.Run("what is lent", func(t *testing.T) { clocksLend(t, o) })
	}
}

// clocksLook: a client that only peeks, again and again, or takes under other numbers, sees the
// correction once, and not a full use from each peek.
func clocksLook(t *testing.T, o Options) {
	for _, limit := range model.Variants(10) {
		if limit.Spec().Calendar != stint.NoPeriod || limit.ForStores().Reserves() {
			continue // its period is longer than all others
		}
		spec := limit.Spec()
		spec.Requests, spec.Per = 11, 90*time.Minute
		if spec.Algorithm == stint.TokenBucket {
			spec.Burst = 0
		}
		others := []*stint.Limit{limit}
		if !o.SameNumbers {
			others = append(others, stint.MustLimit(spec))
		}
		for i, asked := range others {
			for cost := range uint32(2) {
				s := start(t, o)
				s.take(noon.Add(24*time.Hour), "a", limit, 10)
				passed := false
				for after := time.Duration(0); after <= 80*time.Minute && !passed; after += 5 * time.Minute {
					d := s.take(noon.Add(after), "a", asked, cost)
					passed = d.Allowed && int64(cost)+d.Remaining > 0
				}
				if !passed {
					t.Errorf("%s, under numbers %d, cost %d: nothing passes for %v", model.Name(limit), i, cost, 80*time.Minute)
				}
			}
		}
	}
}

// waits takes one unit at each retry time until it passes, and returns how long that took.
func waits(s tester, at stint.Instant, key stint.Key, limit *stint.Limit) time.Duration {
	s.Helper()
	asked := at
	for range 100 {
		d := s.take(at, key, limit, 1)
		if d.Allowed {
			return at.Sub(asked)
		}
		at = at.Add(d.RetryAfter)
	}
	s.Fatalf("%s of key %s passes never", model.Name(limit), key)
	return 0
}

func isWindow(l *stint.Limit) bool {
	return l.Algorithm() == stint.FixedWindow || l.Algorithm() == stint.SlidingWindow
}

// period returns the length of a limit's window.
func period(limit *stint.Limit) time.Duration {
	switch limit.Spec().Calendar {
	case stint.Day:
		return 24 * time.Hour
	case stint.Month:
		return 31 * 24 * time.Hour
	}
	return limit.Spec().Per
}

// clocksLend: loans that a clock made which was ahead come back, if no node reports them, as if
// they were made when the clock was corrected, and after a recall from that time units are lent
// again.
func clocksLend(t *testing.T, o Options) {
	for _, limit := range []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 400, Per: time.Second}),
		stint.MustLimit(stint.Spec{Requests: 400, Per: time.Second}),
	} {
		t.Run(model.Name(limit), func(t *testing.T) {
			s := start(t, o)
			ahead := noon.Add(24 * time.Hour)
			loan := stint.Loan{Node: 7, Seq: 1, Want: 40}
			s.decide(ahead, stint.Take{Key: "a", Limit: limit, Cost: 1, Handling: &stint.Handling{Loan: &loan}})
			if loan.Grant == 0 {
				t.Fatalf("nothing was lent: %+v", loan)
			}
			again := stint.Loan{Node: 7, Seq: 2, Want: 40, Epoch: loan.Began, Kept: loan.Grant}
			s.decide(ahead, stint.Take{Key: "a", Limit: limit, Cost: 400, Handling: &stint.Handling{Loan: &again}})
			if !again.Recall {
				t.Fatalf("nothing was recalled: %+v", again)
			}
			d := s.take(noon, "a", limit, 400)
			if d.Allowed || d.RetryAfter > 2500*time.Millisecond+time.Second {
				t.Fatalf("%d were lent: %+v", loan.Grant, d)
			}
			if d := s.take(noon.Add(d.RetryAfter), "a", limit, 400); !d.Allowed {
				t.Errorf("denied at its retry time: %+v", d)
			}
			other := stint.Loan{Node: 8, Seq: 1, Want: 40}
			s.decide(noon.Add(time.Minute), stint.Take{Key: "a", Limit: limit, Cost: 1, Handling: &stint.Handling{Loan: &other}})
			if other.Grant == 0 || other.Recall {
				t.Errorf("nothing is lent any more: %+v", other)
			}
		})
	}
}
