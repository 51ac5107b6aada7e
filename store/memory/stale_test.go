package memory

import (
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// A goroutine that was suspended after it read the clock has a time before the last write of a
// state; the state does not count as from the future for that. A call of several keys reads the
// clock only while it holds all of them.
func TestStaleTime(t *testing.T) {
	bucket := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	queue := limit(t, stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1000, Per: time.Second, Burst: 999})
	overdrawn := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000, Overdraw: true})
	for name, takes := range map[string][]stint.Take{
		"bucket":                   {{Key: "a", Limit: bucket, Cost: 1}},
		"queue":                    {{Key: "a", Limit: queue, Cost: 1}},
		"bucket that is overdrawn": {{Key: "a", Limit: overdrawn, Cost: 1}},
		"bucket in the map":        {{Key: "a", Limit: bucket, Cost: 1, Handling: &stint.Handling{Loan: new(stint.Loan{Node: 1})}}},
		"two keys":                 {{Key: "a", Limit: bucket, Cost: 1}, {Key: "b", Limit: queue, Cost: 1}},
		"two keys, one in the map": {{Key: "a", Limit: bucket, Cost: 1, Handling: &stint.Handling{Loan: new(stint.Loan{Node: 1})}}, {Key: "b", Limit: bucket, Cost: 1}},
		"two keys in the map":      {{Key: "a", Limit: bucket, Cost: 1, Handling: &stint.Handling{Loan: new(stint.Loan{Node: 1})}}, {Key: "b", Limit: bucket, Cost: 1, Handling: &stint.Handling{Loan: new(stint.Loan{Node: 1})}}},
		"apart":                    {{Key: "a", Limit: bucket, Cost: 1, Independent: true}, {Key: "b", Limit: bucket, Cost: 1, Independent: true}},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.StaleTime(t, func(clock *testkit.StaleClock) stint.Store {
				s := New(Options{Clock: clock.Read})
				clock.Holds = func() bool { return s.holdsForTest(t, takes) }
				return s
			}, takes...)
		})
	}
}

// holdsForTest reports whether a caller holds the keys of all takes. If it holds only some of them
// the test fails, because others could write the rest and would wait for these.
func (s *Store) holdsForTest(t *testing.T, takes []stint.Take) bool {
	held := 0
	for i := range takes {
		fp := s.fingerprint(takes[i].Limit.Algorithm(), takes[i].Key)
		sh := s.shard(fp)
		locked := !sh.mu.TryLock()
		if !locked {
			sh.mu.Unlock()
		}
		// Others can write a state in a slot without the lock.
		if sl, _ := sh.table.Load().find(fp); sl != nil && sl.word.Load() != moved {
			locked = sl.word.Load()&busy != 0
		}
		if locked {
			held++
		}
	}
	if held > 0 && held < len(takes) {
		t.Fatalf("the clock was read by a caller that holds %d of %d keys", held, len(takes))
	}
	return held > 0
}

// A call of keys that exist reads the clock once, whatever it does to them.
func TestReadsOfTheClock(t *testing.T) {
	bucket := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 9, Per: time.Hour, Burst: 9})
	log := limit(t, stint.Spec{Algorithm: stint.SlidingLog, Requests: 9, Per: time.Hour})
	for name, takes := range map[string][]stint.Take{
		"slots":        {{Key: "a", Limit: bucket, Cost: 1}, {Key: "b", Limit: bucket, Cost: 1}},
		"slot and map": {{Key: "a", Limit: bucket, Cost: 1}, {Key: "b", Limit: log, Cost: 1}},
		"ask":          {{Key: "a", Limit: bucket, Cost: 1}},
		"ask at most":  {{Key: "a", Limit: bucket, Cost: 1, Op: stint.AskAtMost}},
		"force":        {{Key: "a", Limit: bucket, Cost: 1, Op: stint.Force}},
		"refund":       {{Key: "a", Limit: bucket, Cost: 1, Op: stint.Refund}},
		"map":          {{Key: "a", Limit: log, Cost: 1}},
		"loan":         {{Key: "a", Limit: bucket, Cost: 1, Handling: &stint.Handling{Loan: new(stint.Loan{Node: 1})}}},
	} {
		now, reads := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), 0
		s := New(Options{Clock: func() stint.Instant { reads++; return now }})
		for range 2 {
			reads = 0
			testkit.Decide(t, s, takes...)
		}
		if reads != 1 {
			t.Errorf("%s: %d reads", name, reads)
		}
	}
}

// A peek with a stale time changes nothing.
func TestStaleLook(t *testing.T) {
	bucket := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	clock := testkit.NewStaleClock()
	s := New(Options{Clock: clock.Read})
	clock.Hold(13*time.Millisecond, func() { s.Take("a", bucket, 1000) })
	if d := s.Take("a", bucket, 0); d.Remaining != 0 {
		t.Errorf("of a key that is used up: %+v", d)
	}
	if d := s.Take("a", bucket, 1); d.Allowed {
		t.Errorf("something came back: %+v", d)
	}
}

// One call that takes of a key several times is decided in that order, never at an earlier time
// than the take before, as that would cost more.
func TestTimesOfOneCall(t *testing.T) {
	bucket := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Hour, Burst: 2})
	roomy := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 9, Per: time.Hour, Burst: 9})
	apart := stint.Take{Key: "a", Limit: bucket, Cost: 1, Independent: true}
	for name, takes := range map[string][]stint.Take{
		"alone": {apart, apart},
		"one of them by a source": {
			{Key: "b", Limit: roomy, Cost: 1, Independent: true},
			{Key: "c", Limit: roomy, Cost: 1, Independent: true, Borrows: 1},
			apart, apart,
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			s := New(Options{Clock: func() stint.Instant { now++; return now }})
			for i, d := range testkit.Decide(t, s, takes...) {
				if !d.Allowed {
					t.Errorf("take %d of an unused key that holds both: %+v", i, d)
				}
			}
		})
	}
}
