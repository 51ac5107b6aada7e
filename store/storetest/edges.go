package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"stint"
	"stint/store/storetest/model"
)

// edges: costs and times at their bounds, limits of 0 or nearly unlimited, and calls without takes.
func edges(t *testing.T, o Options) {
	for _, at := range []stint.Instant{1, noon, stint.MaxInstant} {
		eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
			for i, step := range []struct {
				cost  uint32
				allow bool
				left  int64
			}{{0, true, 10}, {11, false, 10}, {math.MaxUint32, false, 10}, {1, true, 9}, {9, true, 0}, {1, false, 0}, {0, true, 0}} {
				d := s.take(at, "a", limit, step.cost)
				if d.Allowed != step.allow || d.Remaining != step.left || d.Limit != 10 || d.At != at || (d.RetryAfter == stint.Never) != (step.cost > 10) {
					s.Fatalf("at %d, step %d, cost %d: %+v", at, i, step.cost, d)
				}
			}
			for range 5 { // a debt beyond any bound
				d := s.decide(at, stint.Take{Key: "b", Limit: limit, Cost: math.MaxUint32, Op: stint.Force})[0]
				if !d.Allowed || d.Remaining != 0 || d.ResetAfter <= 0 || s.take(at, "b", limit, 1).Allowed {
					s.Fatalf("at %d, a debt: %+v", at, d)
				}
			}
		})
	}
	t.Run("most of all", func(t *testing.T) {
		s := start(t, o)
		for a := range stint.Unlimited {
			spec := stint.Spec{Algorithm: a, Requests: 1_000_000, Per: time.Second}
			if a == stint.FixedWindow || a == stint.SlidingWindow || a == stint.SlidingLog {
				spec.Requests = math.MaxUint32
			}
			limit := stint.MustLimit(spec)
			most := uint32(limit.Capacity())
			if d := s.take(noon, "a", limit, most); !d.Allowed || d.Remaining != 0 {
				t.Errorf("%v: all of %d: %+v", a, most, d)
			}
			if d := s.take(noon, "a", limit, 1); d.Allowed {
				t.Errorf("%v: one more than %d: %+v", a, most, d)
			}
		}
	})
	t.Run("starts used up", func(t *testing.T) { // more requests than a block has microseconds
		s := start(t, o)
		limit := stint.MustLimit(stint.Spec{
			Algorithm: stint.SlidingWindow, Requests: 2_000_000, Per: time.Second, Blocks: 2, StartUsedUp: true,
		})
		d := s.take(noon, "a", limit, 1_000_000)
		if d.Allowed || d.RetryAfter <= 0 {
			t.Fatalf("the oldest block's share at once: %+v", d)
		}
		at := noon.Add(d.RetryAfter)
		if d := s.take(at, "a", limit, 1_000_000); !d.Allowed {
			t.Errorf("the same at the promised time: %+v", d)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		s := start(t, o)
		for a := range stint.Unlimited {
			limit := stint.MustLimit(stint.Spec{Algorithm: a, Per: time.Minute})
			if d := s.peek(noon, "a", limit); !d.Allowed || d.Limit != 0 || d.Remaining != 0 {
				t.Errorf("%v of 0 requests, peek: %+v", a, d)
			}
			if d := s.take(noon, "a", limit, 1); d.Allowed || d.RetryAfter != stint.Never {
				t.Errorf("%v of 0 requests: %+v", a, d)
			}
		}
		if got := s.decide(noon); len(got) != 0 {
			t.Errorf("%d results of nothing", len(got))
		}
	})
}

// expiry: after exactly reset_after a key equals an untouched one, and a microsecond earlier it
// does not.
func expiry(t *testing.T, o Options) {
	for _, cost := range []uint32{1, 7, 10} {
		eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
			d := s.take(noon, "a", limit, cost)
			s.decide(noon, stint.Take{Key: "a", Limit: limit, Cost: cost, Op: stint.Settle, Undo: &d})
			end := noon.Add(d.ResetAfter)
			if early := s.peek(end-1, "a", limit); early.ResetAfter != time.Microsecond {
				s.Fatalf("a microsecond before the reset: %+v", early)
			}
			if got, want := s.take(end, "a", limit, 10), s.take(end, "never touched", limit, 10); got != want || !got.Allowed {
				s.Fatalf("after the reset %+v, of a key never touched %+v", got, want)
			}
		})
	}
}

// carried: a key keeps its use when the numbers of its limit change, as transaction.Record describes;
// another algorithm is another bucket.
func carried(t *testing.T, o Options) {
	for i := range model.Variants(1) {
		s, want := start(t, o), tester{t, new(model.Store)}
		for _, numbers := range [][2]uint32{{10, 1000}, {1000, 10}, {10, 7}, {7, 10}, {10, 1}} {
			old, next := model.Variants(numbers[0])[i], model.Variants(numbers[1])[i]
			for _, used := range []uint32{0, 1, numbers[0] / 2, numbers[0]} {
				for _, later := range []time.Duration{0, time.Millisecond, 20 * time.Minute} {
					key := stint.Key(fmt.Sprint(numbers, used, "after", later))
					for _, s := range []tester{s, want} {
						s.take(noon, key, old, used)
					}
					for _, cost := range []uint32{0, 1, 9, 1, 991} {
						got, want := s.take(noon.Add(later), key, next, cost), want.take(noon.Add(later), key, next, cost)
						if got != want {
							t.Fatalf("%s from %d to %d with %d used, %v later, cost %d:\n got %+v\nwant %+v",
								model.Name(old), numbers[0], numbers[1], used, later, cost, got, want)
						}
					}
				}
			}
		}
	}
	t.Run("another algorithm", func(t *testing.T) {
		s, all := start(t, o), model.Variants(10)
		s.take(noon, "a", all[0], 10)
		for _, limit := range all {
			if limit.Algorithm() == stint.SlidingLog || limit.Algorithm() == stint.LeakyBucket {
				if d := s.take(noon, "a", limit, 4); !d.Allowed || d.Remaining != 6 {
					t.Errorf("%s: %+v", model.Name(limit), d)
				}
			}
		}
		if d := s.peek(noon, "a", all[0]); d.Remaining != 0 {
			t.Errorf("the first bucket after others took: %+v", d)
		}
	})
}

// errorsOf: a call that cannot be decided returns the right error, and its other takes are not
// charged.
func errorsOf(t *testing.T, o Options) {
	limits := model.Variants(10)
	good := stint.Take{Key: "good", Limit: limits[0], Cost: 4}
	leader := stint.Take{Key: "a", Limit: limits[0], Cost: 1, Borrows: 1, Independent: true}
	itself := stint.Take{Key: "a", Limit: limits[0], Cost: 1, Independent: true}
	for _, test := range []struct {
		name  string
		at    stint.Instant
		takes []stint.Take
		want  error
	}{
		{"no limit", noon, []stint.Take{good, {Key: "a"}}, stint.ErrNoLimit},
		{"zero limit", noon, []stint.Take{good, {Key: "a", Limit: new(stint.Limit), Cost: 1}}, stint.ErrNoLimit},
		{"zero limit apart", noon, []stint.Take{good, {Key: "a", Limit: new(stint.Limit), Cost: 1, Independent: true}}, stint.ErrNoLimit},
		{"no key alone", noon, []stint.Take{{Limit: limits[0], Cost: 1}}, stint.ErrNoKey},
		{"zero limit alone", noon, []stint.Take{{Key: "a", Limit: new(stint.Limit), Cost: 1}}, stint.ErrNoLimit},
		{"no key", noon, []stint.Take{good, {Limit: limits[0]}}, stint.ErrNoKey},
		{"no key apart", noon, []stint.Take{good, {Limit: limits[0], Independent: true}}, stint.ErrNoKey},
		{"before 1970", -1, []stint.Take{good}, stint.ErrTime},
		{"after the end of time", stint.MaxInstant + 1, []stint.Take{good}, stint.ErrTime},
		{"other numbers", noon, []stint.Take{good, {Key: "good", Limit: model.Variants(11)[0], Cost: 1}}, stint.ErrMixedLimits},
		{"asked and forced", noon, []stint.Take{good, {Key: "good", Limit: limits[0], Cost: 1, Op: stint.Force}}, stint.ErrMixedLimits},
		{"reset and asked", noon, []stint.Take{{Key: "good", Limit: limits[0], Op: stint.Reset}, good}, stint.ErrMixedLimits},
		{"asked twice at most", noon, []stint.Take{good, {Key: "a", Limit: limits[0], Cost: 1, Op: stint.AskAtMost}, {Key: "a", Limit: limits[0], Cost: 1}}, stint.ErrMixedLimits},
		{"mixed apart, after one", noon, []stint.Take{good, leader, itself}, stint.ErrMixedLimits},
		{"mixed apart, after two", noon, []stint.Take{good, good, leader, itself}, stint.ErrMixedLimits},
		{"the fault comes first", noon, []stint.Take{{Key: "a"}, good}, stint.ErrNoLimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, o)
			s.take(noon, "good", limits[0], 1)
			err := s.Decide(context.Background(), &stint.Call{At: test.at, Takes: test.takes})
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if d := s.peek(noon, "good", limits[0]); d.Remaining != 9 {
				t.Errorf("charged by a call that was an error: %+v", d)
			}
		})
	}
	s := start(t, o)
	if taker, ok := s.Store.(interface {
		Take(key stint.Key, limit *stint.Limit, cost uint32) stint.Decision
	}); ok { // Take returns no error, so it panics
		for name, test := range map[string]struct {
			key   stint.Key
			limit *stint.Limit
			want  error
		}{
			"no key":     {"", limits[0], stint.ErrNoKey},
			"no limit":   {"a", nil, stint.ErrNoLimit},
			"zero limit": {"a", new(stint.Limit), stint.ErrNoLimit},
		} {
			panicked := func() (value any) {
				defer func() { value = recover() }()
				taker.Take(test.key, test.limit, 1)
				return nil
			}()
			if text, ok := panicked.(string); !ok || !strings.Contains(text, test.want.Error()) {
				t.Errorf("Take with %s: %v, want a panic with %q", name, panicked, test.want)
			}
		}
	}
	t.Run("same numbers of another limit", func(t *testing.T) {
		s := start(t, o)
		r := s.decide(noon, good, stint.Take{Key: "good", Limit: model.Variants(10)[0], Cost: 4})
		if !r[0].Allowed || r[0].Remaining != 2 {
			t.Errorf("%+v", r)
		}
	})
}

// keys: any bytes are a key, each has a bucket of its own, and the store does not keep the memory
// of a key after it has decided.
func keys(t *testing.T, o Options) {
	long := bytes.Repeat([]byte("k"), 1<<20)
	all := []stint.Key{
		"a", "A", "a ", " a", "a\x00", "\x00a", "a\x00b", "a:b", "a/b", "{a}", "{a}b", "\x00", "\x00\x00", "\n", "\r\n", "\xff", "\xff\xfe", "\xc3\x28",
		"\u00e9", "e\u0301", "*", "?", "%s", "a'b", `a"b`, `a\b`, "0", "-1", stint.Key(long), stint.Key(long[1:]), stint.Key(append(slices.Clone(long), 0)),
	}
	for _, limit := range []*stint.Limit{model.Variants(100)[0], model.Variants(100)[5]} {
		s := start(t, o)
		for i, key := range all {
			if d := s.take(noon, key, limit, uint32(i)); !d.Allowed || d.Remaining != int64(100-i) {
				t.Fatalf("key %d %.20q is not its own: %+v", i, key, d)
			}
		}
		for i, key := range all {
			if d := s.peek(noon, key, limit); d.Remaining != int64(100-i) {
				t.Fatalf("key %d %.20q: %+v", i, key, d)
			}
		}
	}
	t.Run("memory of the key", func(t *testing.T) {
		for _, limit := range model.Variants(10) {
			s := start(t, o)
			memory := []byte("first key")
			borrowed := stint.Key(unsafe.String(&memory[0], len(memory)))
			s.take(noon, borrowed, limit, 4)
			s.decide(noon, stint.Take{Key: borrowed, Limit: limit, Cost: 1}, stint.Take{Key: "beside", Limit: limit})
			copy(memory, "other")
			s.take(noon, borrowed, limit, 1)
			for key, want := range map[stint.Key]int64{"first key": 5, "other key": 9} {
				if d := s.peek(noon, key, limit); d.Remaining != want {
					t.Errorf("%s, %q: %+v, want %d remaining", model.Name(limit), key, d, want)
				}
			}
		}
	})
}

// contexts: a call whose context is done is decided, or returns that error; then nothing was
// charged unless it is ErrUnknown.
func contexts(t *testing.T, o Options) {
	s, limit := start(t, o), model.Variants(10)[0]
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	call := stint.Call{At: noon, Takes: []stint.Take{{Key: "a", Limit: limit, Cost: 4}}}
	err := s.Decide(ctx, &call)
	left := s.peek(noon, "a", limit).Remaining
	switch {
	case err == nil && (len(call.Results) != 1 || !call.Results[0].Allowed || left != 6):
		t.Errorf("decided: %+v, %d remaining", call.Results, left)
	case err == nil, errors.Is(err, stint.ErrUnknown):
	case !errors.Is(err, context.Canceled) || left != 10:
		t.Errorf("%v, and %d remaining", err, left)
	}
}

// results: a store reuses the memory of earlier results, sets their number, and leaves nothing of
// them.
func results(t *testing.T, o Options) {
	for _, limit := range model.Variants(10) {
		s := start(t, o)
		dirt := stint.Decision{
			Allowed: true, Degraded: true, Over: true, Own: true, Debt: 1, Limit: -1, Remaining: -1, RetryAfter: -1, ResetAfter: -1, Delay: -1, At: -1,
		}
		memory := slices.Repeat([]stint.Decision{dirt}, 8)
		call := stint.Call{At: noon, Results: memory}
		for n, takes := range [][]stint.Take{
			{{Key: "a", Limit: limit, Cost: 9}},
			{{Key: "a", Limit: limit, Cost: 0}, {Key: "b", Limit: limit, Cost: 1}},
			{{Key: "a", Limit: limit, Cost: 9}, {Key: "b", Limit: limit, Cost: 1}, {Key: "c", Limit: limit, Cost: 1, Independent: true}},
			{{Key: "a", Limit: limit, Cost: 9}},
			{{Key: "a", Limit: limit, Cost: 3, Op: stint.Refund}},
			{},
		} {
			for i := range memory {
				memory[i] = dirt
			}
			call.Takes = takes
			if err := s.Decide(context.Background(), &call); err != nil {
				t.Fatal(err)
			}
			if len(call.Results) != len(takes) || len(takes) > 0 && &call.Results[0] != &memory[0] {
				t.Fatalf("%s, call %d: %d results for %d takes, or in other memory", model.Name(limit), n, len(call.Results), len(takes))
			}
			for i, d := range call.Results {
				if d.Degraded || d.Over || d.Limit != 10 || d.Remaining < 0 || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Delay < 0 || d.At != noon {
					t.Fatalf("%s, call %d, take %d: %+v", model.Name(limit), n, i, d)
				}
			}
		}
	}
}

// ownClock: a call without a time is decided at the present.
func ownClock(t *testing.T, o Options) {
	eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
		before := time.Now()
		first, second := s.take(0, "a", limit, 10), s.take(0, "a", limit, 10)
		if !first.Allowed || second.Allowed {
			s.Fatalf("%+v, then %+v", first, second)
		}
		if apart := first.At.Time().Sub(before); apart < -time.Minute || apart > time.Minute {
			s.Errorf("the store's clock is %v off", apart)
		}
		if second.At < first.At {
			s.Errorf("the store's clock ran back from %v to %v", first.At.Time(), second.At.Time())
		}
	})
}
