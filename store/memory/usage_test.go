package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

var tenAnHour = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})

// metered returns a take with a history of two periods, and events at 50 and 100 %.
func meteredTake(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{
		Terms: &stint.Terms{Domain: "api", Rule: "user", Usage: 2, Notify: []uint8{50, 100}},
		Meter: &transaction.Meter{Subject: "user=" + string(key), Of: limit.Capacity()},
	}}
}

func usageOf(t *testing.T, s *Store, take *stint.Take) transaction.Usage {
	t.Helper()
	u, err := s.Usage(context.Background(), take)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A snapshot has the histories and the outbox, and only then another version. What has expired is not
// loaded.
func TestUsageSnapshot(t *testing.T) {
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	options := Options{Clock: func() stint.Instant { return now }}
	s := New(options)
	s.Take("plain", tenAnHour, 1)
	if got := binary.LittleEndian.Uint32(snapshot(t, s)[len(snapshotMagic):]); got != plainVersion {
		t.Errorf("version %d without a history", got)
	}
	a := meteredTake("a", tenAnHour, 6)
	for range 2 {
		call := stint.Call{Takes: []stint.Take{a, meteredTake("b", tenAnHour, 2)}}
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	saved := snapshot(t, s)
	if got := binary.LittleEndian.Uint32(saved[len(snapshotMagic):]); got != meterVersion {
		t.Errorf("version %d with a history", got)
	}
	again, err := Load(bytes.NewReader(saved), options)
	if err != nil {
		t.Fatal(err)
	}
	got, want := usageOf(t, again, &a), usageOf(t, s, &a)
	if !reflect.DeepEqual(got, want) || len(got.History) != 2 {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	events, _ := again.Pending(context.Background(), 10)
	if wantEvents, _ := s.Pending(context.Background(), 10); !reflect.DeepEqual(events, wantEvents) || len(events) != 2 {
		t.Errorf("after a restart %+v, want %+v", events, wantEvents)
	}
	call := stint.Call{Takes: []stint.Take{a}}
	if err := again.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	if got := usageOf(t, again, &a); len(got.History) != 3 {
		t.Errorf("after a restart and a take %+v", got)
	}
	now = now.Add(5 * time.Hour)
	later, err := Load(bytes.NewReader(saved), options)
	if err != nil {
		t.Fatal(err)
	}
	if got := usageOf(t, later, &a); len(got.History) != 0 {
		t.Errorf("loaded after its expiry: %+v", got)
	}
	before := s.Stats().Bytes
	s.Sweep()
	if got := usageOf(t, s, &a); len(got.History) != 0 || s.Stats().Bytes >= before {
		t.Errorf("kept after its expiry: %+v, %d bytes, %d before", got, s.Stats().Bytes, before)
	}
	for n := headSize; n < len(saved); n += 11 {
		if _, err := Load(bytes.NewReader(saved[:n]), options); err == nil {
			t.Fatalf("loaded the first %d of %d bytes", n, len(saved))
		}
	}
}

// A snapshot has what keys used of their grants and what they carry, and only then another version.
func TestGrantsSnapshot(t *testing.T) {
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	options := Options{Clock: func() stint.Instant { return now }}
	s := New(options)
	take := meteredTake("a", tenAnHour, 12)
	take.Handling.Meter.Rollover = 5
	take.Handling.Meter.Grants = []transaction.Grant{{ID: "g", Units: 10, Priority: limits.GrantPriority, Until: now.Add(100 * time.Hour)}}
	remaining := func(s *Store, cost uint32) int64 {
		t.Helper()
		take := take
		take.Cost = cost
		call := stint.Call{Takes: []stint.Take{take, meteredTake("plain", tenAnHour, 1)}}
		if err := s.Decide(context.Background(), &call); err != nil || !call.Results[0].Allowed {
			t.Fatalf("%+v, %v", call.Results, err)
		}
		return call.Results[0].Remaining
	}
	if got := remaining(s, 12); got != 8 {
		t.Errorf("%d units remain, want 8", got)
	}
	now = now.Add(time.Hour)
	if got := remaining(s, 7); got != 11 {
		t.Errorf("%d units remain, want 11", got)
	}
	now = now.Add(time.Hour)
	saved := snapshot(t, s)
	if got := binary.LittleEndian.Uint32(saved[len(snapshotMagic):]); got != snapshotVersion {
		t.Errorf("version %d with a book", got)
	}
	again, err := Load(bytes.NewReader(saved), options)
	if err != nil {
		t.Fatal(err)
	}
	if got := remaining(again, 0); got != 21 {
		t.Errorf("%d units remain after a restart, want 21: 10, 3 of the last hour, and 8 of the grant", got)
	}
	for n := headSize; n < len(saved); n += 11 {
		if _, err := Load(bytes.NewReader(saved[:n]), options); err == nil {
			t.Fatalf("loaded the first %d of %d bytes", n, len(saved))
		}
	}
	now = now.Add(97*time.Hour + time.Minute)
	if s.Sweep(); len(usageOf(t, s, &take).History) == 0 {
		t.Error("the use of a grant is dropped before its end")
	}
	now = now.Add(366 * 24 * time.Hour)
	if s.Sweep(); len(usageOf(t, s, &take).History) == 0 {
		t.Error("the use of a grant is dropped in the year after its end")
	}
	now = now.Add(time.Hour)
	if s.Sweep(); len(usageOf(t, s, &take).History) > 0 {
		t.Error("the use of a grant is kept longer than a year after its end")
	}
	if got := s.Stats().Bytes; got != 0 {
		t.Errorf("%d bytes of an empty store", got)
	}
	if again.Sweep(); again.Stats().Bytes != 0 {
		t.Errorf("%d bytes of an empty store after a restart", again.Stats().Bytes)
	}
}

// A threshold is of the limit itself, whatever a key uses of its grants, and the use has all units.
func TestGrantsThresholds(t *testing.T) {
	s := New(Options{Clock: func() stint.Instant { return stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) }})
	for i, step := range []struct {
		cost   uint32
		used   uint64
		events []uint8
	}{{10, 10, nil}, {4, 14, nil}, {1, 15, []uint8{50}}, {7, 22, []uint8{50, 100}}, {8, 30, []uint8{50, 100}}} {
		take := meteredTake("a", tenAnHour, step.cost)
		take.Handling.Meter.Grants = []transaction.Grant{{ID: "before", Units: 10, Priority: 1, Until: stint.MaxInstant}, {ID: "after", Units: 10, Priority: limits.GrantPriority, Until: stint.MaxInstant}}
		call := stint.Call{Takes: []stint.Take{take}}
		if err := s.Decide(context.Background(), &call); err != nil || !call.Results[0].Allowed {
			t.Fatalf("step %d: %+v, %v", i, call.Results, err)
		}
		var fired []uint8
		events, _ := s.Pending(context.Background(), 10)
		for _, e := range events {
			fired = append(fired, e.Threshold)
			if e.Used > 10 || e.Of != 10 {
				t.Errorf("step %d: %+v", i, e)
			}
		}
		if u := usageOf(t, s, &take); u.History[0].Used != step.used || !slices.Equal(fired, step.events) {
			t.Errorf("step %d: %+v, events at %d", i, u.History, fired)
		}
	}
}

// Many goroutines take and give back at once, alone and with another key: never more is taken than the
// limit and the grants have, and all of it can be given back.
func TestGrantsConcurrent(t *testing.T) {
	s := New(Options{})
	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: 366 * 24 * time.Hour})
	grants := []transaction.Grant{{ID: "a", Units: 30, Priority: 1, Until: stint.MaxInstant}, {ID: "b", Units: 70, Priority: limits.GrantPriority, Until: stint.MaxInstant}}
	take := func(key stint.Key, cost uint32) stint.Take {
		t := meteredTake(key, limit, cost)
		t.Handling.Meter.Grants = grants
		return t
	}
	var taken atomic.Int64
	decide := func(call *stint.Call) {
		if err := s.Decide(context.Background(), call); err != nil {
			t.Error(err)
		}
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 300 {
				call := stint.Call{Takes: []stint.Take{take("k", uint32(1+r.IntN(40)))}}
				if r.IntN(2) == 0 {
					call.Takes = append(call.Takes, take("other", 0), take("k", 1))
				}
				cost := int64(call.Takes[0].Cost) + int64(len(call.Takes)/2)
				if decide(&call); !call.Results[0].Allowed {
					continue
				}
				if n := taken.Add(cost); n > 200 {
					t.Errorf("%d units are taken of 200", n)
				}
				taken.Add(-cost)
				for i := range call.Takes {
					decide(&stint.Call{Takes: []stint.Take{transaction.Refund(call.Takes[i], uint64(call.Takes[i].Cost), &call.Results[i])}})
				}
			}
		})
	}
	group.Wait()
	call := stint.Call{Takes: []stint.Take{take("k", 0)}}
	if decide(&call); call.Results[0].Remaining != 200 {
		t.Errorf("%+v", call.Results[0])
	}
}

// What remains charged of a take that asked for at most its cost, after a part was given back, can be given
// back too, all to where it came from.
func TestGrantsTrimmed(t *testing.T) {
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := New(Options{Clock: func() stint.Instant { return now }})
	most := meteredTake("a", tenAnHour, 100)
	most.Op = stint.AskAtMost
	most.Handling.Meter.Grants = []transaction.Grant{{ID: "g", Units: 5, Priority: limits.GrantPriority, Until: now.Add(time.Hour)}}
	call := stint.Call{Takes: []stint.Take{most}}
	if err := s.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	all := func(t *stint.Take) (stint.Take, bool) { return *t, true }
	if err := transaction.Trim(context.Background(), s, &call, 12, all); err != nil || call.Results[0].Remaining != 3 {
		t.Fatalf("%+v, %v", call.Results, err)
	}
	back := stint.Call{Takes: []stint.Take{transaction.Refund(most, 12, &call.Results[0])}}
	if err := s.Decide(context.Background(), &back); err != nil || back.Results[0].Remaining != 15 {
		t.Errorf("%+v, %v", back.Results, err)
	}
}

// Many goroutines charge, give back and read at once: a history is the sum of what was admitted, and
// each threshold has one event.
func TestUsageConcurrent(t *testing.T) {
	s := New(Options{})
	limit := stint.MustLimit(stint.Spec{Requests: 1000, Per: 366 * 24 * time.Hour})
	var admitted [4]atomic.Int64
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 500 {
				n := r.IntN(len(admitted))
				take := meteredTake(stint.Key(fmt.Sprint(n)), limit, uint32(r.IntN(4)))
				call := stint.Call{Takes: []stint.Take{take}}
				if r.IntN(2) == 0 {
					other := meteredTake(stint.Key(fmt.Sprint((n+1)%len(admitted))), limit, take.Cost)
					call.Takes = append(call.Takes, other)
				}
				if err := s.Decide(context.Background(), &call); err != nil {
					t.Error(err)
					return
				}
				if d, _ := stint.Combine(call.Results); !d.Allowed {
					continue
				}
				for i := range call.Takes {
					admitted[(n+i)%len(admitted)].Add(int64(take.Cost))
				}
			}
		})
	}
	group.Wait()
	for n := range admitted {
		take := meteredTake(stint.Key(fmt.Sprint(n)), limit, 0)
		h := usageOf(t, s, &take).History
		if len(h) != 1 || int64(h[0].Used) != admitted[n].Load() {
			t.Errorf("key %d: %+v, admitted %d", n, h, admitted[n].Load())
		}
	}
	events, _ := s.Pending(context.Background(), 100)
	ids := map[string]bool{}
	for _, e := range events {
		ids[e.ID] = true
	}
	if len(ids) != len(events) || len(events) < len(admitted) {
		t.Errorf("%d events of %d IDs", len(events), len(ids))
	}
}

// While the outbox is full no threshold is reached, and none is lost.
func TestOutboxFull(t *testing.T) {
	s, ctx := New(Options{}), context.Background()
	for i := range transaction.MaxEvents {
		s.outbox.Add(transaction.Event{ID: fmt.Sprint(i)})
	}
	call := stint.Call{Takes: []stint.Take{meteredTake("a", tenAnHour, 5)}}
	for i, want := range []int{transaction.MaxEvents, transaction.MaxEvents} {
		if err := s.Decide(ctx, &call); err != nil {
			t.Fatal(err)
		}
		all := s.outbox.First(transaction.MaxEvents + 1)
		if got := len(all); got != want {
			t.Errorf("after take %d: %d events, want %d", i, got, want)
		}
		if last := all[len(all)-1]; (last.Subject == "user=a") != (i == 1) {
			t.Errorf("after take %d: %+v", i, last)
		}
		if i == 0 {
			if err := s.Done(ctx, []string{"7"}); err != nil {
				t.Fatal(err)
			}
			call.Takes[0].Cost = 1
		}
	}
}

// A full budget drops the history that would expire first.
func TestUsageBudget(t *testing.T) {
	s := New(Options{Budget: 1})
	for i := range 20_000 {
		call := stint.Call{Takes: []stint.Take{meteredTake(stint.Key(fmt.Sprint(i)), tenAnHour, 1)}}
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
	}
	if stats := s.Stats(); stats.Bytes > stats.Budget+64<<10 || stats.EvictedOver == 0 {
		t.Errorf("%+v", stats)
	}
}

// A refund has the later end of a grant, so that its use is kept for a year from then.
func TestGrantsExtended(t *testing.T) {
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := New(Options{Clock: func() stint.Instant { return now }})
	take := meteredTake("a", tenAnHour, 15)
	until := func(at stint.Instant) {
		take.Handling.Meter.Grants = []transaction.Grant{{ID: "g", Units: 10, Priority: limits.GrantPriority, Until: at}}
	}
	do := func(op stint.Op, cost uint32) stint.Decision {
		t.Helper()
		one := take
		one.Op, one.Cost = op, cost
		call := stint.Call{Takes: []stint.Take{one}}
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
		return call.Results[0]
	}
	until(now.Add(time.Hour))
	do(stint.Ask, 15)
	later := now.Add(2 * 366 * 24 * time.Hour)
	until(later.Add(time.Hour))
	do(stint.Refund, 1)
	now = later
	if s.Sweep(); do(stint.Ask, 0).Remaining != 16 {
		t.Errorf("%+v, want 10 units, and 6 of the grant", do(stint.Ask, 0))
	}
}
