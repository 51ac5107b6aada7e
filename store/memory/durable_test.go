package memory

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
)

// durableTake returns a take of a durable rule.
func durableTake(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Durable: true}}}
}

// journaled returns a store with a journal, and its records so far.
func journaled(clock func() stint.Instant) (*Store, *[][]byte) {
	records := new([][]byte)
	s := New(Options{Clock: clock, Journal: func(record []byte) { *records = append(*records, bytes.Clone(record)) }})
	return s, records
}

// decide decides takes as one call.
func decide(t *testing.T, s *Store, takes ...stint.Take) []stint.Decision {
	t.Helper()
	call := stint.Call{Takes: takes}
	testkit.Must(t, s.Decide(context.Background(), &call))
	return call.Results
}

// The records of a journal alone give every durable key the state it had, for every algorithm, whether a
// call has one take or several, and however often they are replayed.
func TestReplay(t *testing.T) {
	now := stint.Instant(1e15)
	clock := func() stint.Instant { return now }
	s, records := journaled(clock)
	limits := []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour}),
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour}),
		stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Hour}),
		stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 10, Per: time.Hour, Blocks: 4}),
	}
	for i := range 3 {
		for _, limit := range limits {
			now += stint.Instant(i)
			decide(t, s, durableTake("a", limit, 1))
			decide(t, s, durableTake("b", limit, 1), durableTake("c", limit, 2))
			decide(t, s, durableTake("gone", limit, 1))
		}
	}
	for _, limit := range limits {
		reset := durableTake("gone", limit, 0)
		reset.Op = stint.Reset
		decide(t, s, reset)
	}
	after := New(Options{Clock: clock})
	testkit.Must(t, after.ReplayHead(s.JournalHead()))
	for range 2 {
		for _, record := range *records {
			testkit.Must(t, after.Replay(record))
		}
	}
	for _, limit := range limits {
		for _, key := range []stint.Key{"a", "b", "c", "gone"} {
			want, got := decide(t, s, durableTake(key, limit, 0))[0], decide(t, after, durableTake(key, limit, 0))[0]
			if want != got {
				t.Errorf("%v %s: %+v, want %+v", limit.Algorithm(), key, got, want)
			}
		}
	}
}

// A denied take and a look change nothing, so the journal gets nothing. Nor does it for other rules.
func TestJournalOfNoChange(t *testing.T) {
	s, records := journaled(nil)
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour})
	decide(t, s, durableTake("a", limit, 1))
	if len(*records) != 1 {
		t.Fatalf("%d records of a take", len(*records))
	}
	decide(t, s, durableTake("a", limit, 1))
	decide(t, s, durableTake("a", limit, 0))
	decide(t, s, stint.Take{Key: "b", Limit: limit, Cost: 1})
	if len(*records) != 1 {
		t.Errorf("%d records, want 1", len(*records))
	}
}

// Records replace what an older or later snapshot has, also a history, and bring events back.
func TestReplayOnASnapshot(t *testing.T) {
	now := stint.Instant(1e15)
	clock := func() stint.Instant { return now }
	s, records := journaled(clock)
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	metered := durableTake("a", limit, 4)
	metered.Handling.Terms.Usage, metered.Handling.Terms.Notify = 3, []uint8{50}
	metered.Handling.Meter = &transaction.Meter{Subject: "user=1", Of: 10}
	decide(t, s, metered)
	var early, late bytes.Buffer
	testkit.Must(t, s.WriteSnapshot(&early))
	decide(t, s, metered)
	testkit.Must(t, s.WriteSnapshot(&late))
	want, err := s.Usage(context.Background(), &metered)
	testkit.Must(t, err)
	for _, snapshot := range []*bytes.Buffer{&early, &late} {
		after, err := Load(snapshot, Options{Clock: clock})
		testkit.Must(t, err)
		testkit.Must(t, after.ReplayHead(s.JournalHead()))
		for _, record := range *records {
			testkit.Must(t, after.Replay(record))
		}
		got, err := after.Usage(context.Background(), &metered)
		testkit.Must(t, err)
		if !slices.Equal(got.History, want.History) {
			t.Errorf("history %+v, want %+v", got.History, want.History)
		}
		metered.Cost = 0
		if d := decide(t, after, metered)[0]; d.Remaining != 2 {
			t.Errorf("%d remaining, want 2", d.Remaining)
		}
		if events, _ := after.Pending(context.Background(), 10); len(events) != 1 || events[0].Threshold != 50 {
			t.Errorf("events %+v", events)
		}
		metered.Cost = 4
	}
}

// Records bring back what was used of grants, and what was given back also where the key is untouched then.
func TestReplayGrants(t *testing.T) {
	now := stint.Instant(1e15)
	s, records := journaled(func() stint.Instant { return now })
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	take := durableTake("a", limit, 13)
	take.Handling.Terms.Usage = 1
	take.Handling.Meter = &transaction.Meter{Subject: "user=1", Of: 10, Grants: []transaction.Grant{
		{ID: "g", Units: 5, Priority: 200, Until: now + 1e10},
	}}
	charged := decide(t, s, take)[0]
	compare := func(left int64, used uint64) {
		t.Helper()
		after := New(Options{Clock: func() stint.Instant { return now }})
		testkit.Must(t, after.ReplayHead(s.JournalHead()))
		for _, record := range *records {
			testkit.Must(t, after.Replay(record))
		}
		look := take
		look.Cost = 0
		got, err := after.Usage(context.Background(), &take)
		testkit.Must(t, err)
		if d := decide(t, after, look)[0]; d.Remaining != left || got.History[0].Used != used {
			t.Errorf("%d remaining and %+v, want %d and %d used", d.Remaining, got.History, left, used)
		}
	}
	compare(2, 13)
	take.Op, take.Undo = stint.Refund, &charged
	decide(t, s, take)
	take.Op, take.Undo = stint.Ask, nil
	compare(15, 0)
}

// Damaged records, and a journal of other counts, are refused.
func TestReplayRefuses(t *testing.T) {
	s, records := journaled(nil)
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour})
	decide(t, s, durableTake("a", limit, 1))
	record := (*records)[0]
	other := New(Options{})
	other.Take("x", limit, 1)
	if err := other.ReplayHead(s.JournalHead()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a journal of other counts: %v", err)
	}
	if err := other.ReplayHead(s.JournalHead()[1:]); !errors.Is(err, ErrDamaged) {
		t.Errorf("a head that is cut: %v", err)
	}
	for n := range record {
		if n == 0 {
			continue
		}
		if err := New(Options{}).Replay(record[:n]); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if err := New(Options{}).Replay(append(bytes.Clone(record), 99)); !errors.Is(err, ErrDamaged) {
		t.Errorf("an unknown record: %v", err)
	}
}
