package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/storetest/model"
)

// Meters is a store that keeps histories and has an outbox. Usage returns the history of a take's key, Usages those of all keys, Pending the
// oldest events, and Done removes events.
type Meters interface {
	stint.Store
	Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error)
	Usages(ctx context.Context, yield func(transaction.Usage) bool) error
	Pending(ctx context.Context, max int) ([]transaction.Event, error)
	Done(ctx context.Context, ids []string) error
}

// meter returns a copy of a take with a history.
func meter(t stint.Take, keep int, notify ...uint8) stint.Take {
	t.Handling = &stint.Handling{
		Terms: &stint.Terms{Domain: "api", Rule: "api/user", Usage: keep, Notify: notify},
		Meter: &transaction.Meter{Subject: "user=" + string(t.Key), Plan: "pro", Limit: "calls", Of: t.Limit.Capacity()},
	}
	return t
}

// usage compares the histories and events of the store with those of the model, in random histories of
// windows of all kinds whose numbers change.
func usage(t *testing.T, o Options) {
	if _, ok := o.New(t).(Meters); !ok {
		return
	}
	t.Run("Steps", func(t *testing.T) { usageSteps(t, o) })
	t.Run("Outbox", func(t *testing.T) { usageOutbox(t, o) })
	histories := *historiesFlag
	if o.Slow {
		histories /= 10
	}
	r := random(t)
	for range histories {
		h := model.NewHistory(r, noon, o.NoBorrowing)
		for i := range h.Limits {
			h.Limits[i] = model.RandomLimitOf(r, stint.FixedWindow)
		}
		if o.SameNumbers {
			h.Limits = h.Limits[:1]
		}
		keep, notify := r.IntN(4), pick(r, []uint8{80, 100}, []uint8{1}, []uint8{25, 50, 75, 99}, nil)
		s, m, text := sameHistories(t, o, h, func() stint.Call {
			call := h.Next(o.Backwards)
			for i := range call.Takes {
				if !call.Takes[i].Candidate() {
					call.Takes[i] = meter(call.Takes[i], keep, notify...)
				}
			}
			return call
		})
		got, want := withoutIDs(t, events(t, s), o), withoutIDs(t, events(t, m), o)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%skeep %d, notify %d:\n got %+v\nwant %+v", text, keep, notify, got, want)
		}
	}
}

// sameHistories decides calls with a new store and a new model, and compares the decisions and the
// histories of use. It returns both, and what they decided.
func sameHistories(t *testing.T, o Options, h *model.History, next func() stint.Call) (Meters, *model.Store, string) {
	t.Helper()
	s, m := o.New(t).(Meters), new(model.Store)
	var text strings.Builder
	for range 60 {
		call := next()
		fmt.Fprintf(&text, "at noon%+dµs:\n%s", call.At-noon, model.Describe(call))
		want, problem := compare(tester{t, s}, tester{t, m}, call, o)
		if problem != "" {
			t.Fatal(text.String() + problem)
		}
		h.Remember(call, want)
		for i := range call.Takes {
			if call.Takes[i].Metered() {
				sameUsage(t, s, m, &call.Takes[i], &text)
			}
		}
	}
	return s, m, text.String()
}

// sameUsage compares the history of a take's key with that of the model.
func sameUsage(t *testing.T, s Meters, m *model.Store, take *stint.Take, text *strings.Builder) {
	t.Helper()
	got, err := s.Usage(context.Background(), take)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := m.Usage(context.Background(), take)
	model.Normalize(&got)
	model.Normalize(&want)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s%s:\n got %+v %+v\nwant %+v %+v", text.String(), take.Key, got, got.Book, want, want.Book)
	}
}

// outbox is a store with events.
type outbox interface {
	Pending(ctx context.Context, max int) ([]transaction.Event, error)
}

// events returns all events of an outbox by key, each in order.
func events(t *testing.T, s outbox) map[string][]transaction.Event {
	t.Helper()
	all, err := s.Pending(context.Background(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]transaction.Event{}
	for _, e := range all {
		by[e.Subject] = append(by[e.Subject], e)
	}
	return by
}

// withoutIDs checks that each event has an ID of its own, and removes the IDs: they depend on the
// namespace of the store. A store that charges a call in several steps may report fewer units used.
func withoutIDs(t *testing.T, all map[string][]transaction.Event, o Options) map[string][]transaction.Event {
	t.Helper()
	ids := map[string]bool{}
	for _, list := range all {
		for i := range list {
			if id := list[i].ID; len(id) != 40 || ids[id] {
				t.Errorf("event ID %q, %v before", id, ids[id])
			}
			ids[list[i].ID], list[i].ID = true, ""
			if o.Scattered {
				list[i].Used = 0
			}
		}
	}
	return all
}

// usageSteps: what is admitted counts in the period of its window, what is given back does not, a
// denied call counts nothing, and thresholds are reached once in each period, all of a jump in order.
func usageSteps(t *testing.T, o Options) {
	s := o.New(t).(Meters)
	hour := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})
	half := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Hour})
	if o.SameNumbers {
		half = hour
	}
	for i, step := range []struct {
		after time.Duration
		limit *stint.Limit
		cost  uint32
		op    stint.Op
		used  []uint64 // of all periods, the oldest first
		fired []uint8  // so far
	}{
		{0, hour, 7, stint.Ask, []uint64{7}, nil},
		{0, hour, 4, stint.Ask, []uint64{7}, nil}, // denied
		{0, hour, 3, stint.Refund, []uint64{4}, nil},
		{0, hour, 6, stint.Ask, []uint64{10}, []uint8{80, 100}},
		{0, hour, 9, stint.Refund, []uint64{1}, []uint8{80, 100}},
		{0, hour, 9, stint.AskAtMost, []uint64{10}, []uint8{80, 100}},
		{time.Hour, hour, 8, stint.Ask, []uint64{10, 8}, []uint8{80, 100, 80}},
		{time.Hour, hour, 0, stint.Reset, []uint64{10, 8}, []uint8{80, 100, 80}}, // the use stays
		{2 * time.Hour, hour, 12, stint.Force, []uint64{10, 8, 12}, []uint8{80, 100, 80, 80, 100}},
		{3 * time.Hour, hour, 4, stint.Ask, []uint64{8, 12, 4}, []uint8{80, 100, 80, 80, 100}},
		{3 * time.Hour, half, 1, stint.Ask, []uint64{8, 12, 5}, []uint8{80, 100, 80, 80, 100, 80, 100}},
	} {
		if o.SameNumbers && i == 10 {
			break
		}
		call := stint.Call{At: noon.Add(step.after), Takes: []stint.Take{meter(stint.Take{Key: "k", Limit: step.limit, Cost: step.cost, Op: step.op}, 2, 80, 100)}}
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
		u, err := s.Usage(context.Background(), &call.Takes[0])
		if err != nil {
			t.Fatal(err)
		}
		var used []uint64
		for _, p := range u.History.At(step.limit, 2, call.At) {
			used = append(used, p.Used)
		}
		var fired []uint8
		ids := map[string]bool{}
		for _, e := range events(t, s)["user=k"] {
			fired = append(fired, e.Threshold)
			ids[e.ID] = true
		}
		if !slices.Equal(used, step.used) || !slices.Equal(fired, step.fired) || len(ids) != len(fired) {
			t.Fatalf("step %d: used %d, fired %d (%d IDs), want %d, %d", i, used, fired, len(ids), step.used, step.fired)
		}
	}
	var all []transaction.Usage
	err := s.Usages(context.Background(), func(u transaction.Usage) bool { all = append(all, u); return true })
	if err != nil || len(all) != 1 || all[0].Subject != "user=k" || all[0].Plan != "pro" || all[0].Rule != "api/user" || all[0].Domain != "api" || all[0].Limit != "calls" || len(all[0].History) != 3 {
		t.Errorf("all histories: %+v, %v", all, err)
	}
}

// usageOutbox: an event stays until it is done.
func usageOutbox(t *testing.T, o Options) {
	s := o.New(t).(Meters)
	ctx, limit := context.Background(), stint.MustLimit(stint.Spec{Requests: 4, Per: time.Hour})
	for _, key := range []stint.Key{"a", "b", "c"} {
		call := stint.Call{At: noon, Takes: []stint.Take{meter(stint.Take{Key: key, Limit: limit, Cost: 2}, 0, 50)}}
		if err := s.Decide(ctx, &call); err != nil {
			t.Fatal(err)
		}
	}
	two, err := s.Pending(ctx, 2)
	if err != nil || len(two) != 2 {
		t.Fatalf("%+v, %v", two, err)
	}
	e := two[0]
	if e.Of != 4 || e.Used != 2 || e.Threshold != 50 || e.At != noon || e.Start > noon || e.End != e.Start.Add(time.Hour) || e.Plan != "pro" {
		t.Errorf("%+v", e)
	}
	if err := s.Done(ctx, []string{e.ID, "unknown"}); err != nil {
		t.Fatal(err)
	}
	rest, err := s.Pending(ctx, 10)
	if err != nil || len(rest) != 2 || slices.ContainsFunc(rest, func(o transaction.Event) bool { return o.ID == e.ID }) {
		t.Errorf("%+v, %v", rest, err)
	}
	if err := s.Done(ctx, nil); err != nil {
		t.Error(err)
	}
}
