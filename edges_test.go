package stint_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"stint"
)

const year = 365 * 24 * time.Hour

// edgeSpecs are limits at the edges of what NewLimit accepts.
func edgeSpecs() []stint.Spec {
	var specs []stint.Spec
	for a := range stint.Unlimited {
		for _, per := range []time.Duration{stint.MinPer, time.Second, year, stint.MaxPer} {
			for _, requests := range []uint32{0, 1, 10_000, 1_000_000, 1_000_000_000, math.MaxUint32} {
				spec := stint.Spec{Algorithm: a, Requests: requests, Per: per}
				specs = append(specs, spec)
				for _, burst := range []uint32{1, 40, 1_000_000, math.MaxUint32} {
					switch a {
					case stint.TokenBucket:
						specs = append(specs, stint.Spec{Algorithm: a, Requests: requests, Per: per, Burst: burst, Step: true},
							stint.Spec{Algorithm: a, Requests: requests, Per: per, Burst: burst, Overdraw: true})
						fallthrough
					case stint.LeakyBucket:
						specs = append(specs, stint.Spec{Algorithm: a, Requests: requests, Per: per, Burst: burst})
					}
				}
				switch a {
				case stint.FixedWindow:
					specs = append(specs, stint.Spec{Algorithm: a, Requests: requests, Per: per, FromFirst: true, Overdraw: true})
				case stint.SlidingWindow:
					specs = append(specs, stint.Spec{Algorithm: a, Requests: requests, Per: per, Blocks: 3200},
						stint.Spec{Algorithm: a, Requests: requests, Per: per, Blocks: 1, Overdraw: true})
				case stint.SlidingLog:
					specs = append(specs, stint.Spec{Algorithm: a, Requests: requests, Per: per, MinInterval: per, CountDenied: true},
						stint.Spec{Algorithm: a, Requests: requests, Per: per, Overdraw: true})
				}
			}
		}
	}
	return specs
}

// Every limit that is accepted keeps its promises with any cost at any time a store
// computes with: an untouched key gives exactly the limit, refusals wait exactly
// long enough, numbers stay in range, and a packed state stays within 52 bits.
func TestEdges(t *testing.T) {
	accepted := 0
	for _, spec := range edgeSpecs() {
		limit, err := stint.NewLimit(spec)
		if err != nil {
			var refused *stint.SpecError
			if !errors.As(err, &refused) || refused.Field == "" || refused.Problem == "" || refused.Hint == "" {
				t.Errorf("%+v: %#v", spec, err)
			}
			continue
		}
		accepted++
		for _, now := range []stint.Instant{0, 1, zero, stint.MaxInstant - 1, stint.MaxInstant} {
			edge(t, limit, now)
			debts(t, limit, now)
		}
	}
	if accepted < 200 {
		t.Errorf("only %d limits were accepted", accepted)
	}
}

func inRange(t *testing.T, limit *stint.Limit, st *stint.State, d stint.Decision) {
	t.Helper()
	if d.Remaining < 0 || d.Remaining > d.Limit || d.ResetAfter < 0 || d.RetryAfter < 0 || d.Delay < 0 || d.Allowed == (d.RetryAfter > 0) {
		t.Fatalf("%+v: %+v", limit.Spec(), d)
	}
	if limit.ForStores().Packed() && st.Written == 0 {
		word := limit.ForStores().Pack(st)
		if back := limit.ForStores().Unpack(word); word>>52 != 0 || limit.ForStores().Pack(&back) != word {
			t.Fatalf("%+v: state %+v packed as %x", limit.Spec(), *st, word)
		}
	}
	clone(t, st)
}

// edge spends an untouched key at now.
func edge(t *testing.T, limit *stint.Limit, now stint.Instant) {
	t.Helper()
	most := uint64(limit.Capacity())
	for _, costs := range [][]uint64{{most}, {1, most - 1}, {most / 2, most - most/2}} {
		var st stint.State
		for _, cost := range []uint64{0, most + 1, math.MaxUint32, math.MaxUint64} {
			if d := limit.Test(&st, now, cost); d.Allowed != (cost <= most) {
				t.Fatalf("%+v, cost %d of an untouched key: %+v", limit.Spec(), cost, d)
			}
		}
		if most == 0 {
			return
		}
		for i, cost := range costs {
			d := limit.Take(&st, now, cost)
			inRange(t, limit, &st, d)
			if i > 0 && limit.Spec().MinInterval > 0 {
				return
			}
			if !d.Allowed {
				t.Fatalf("%+v at %d, cost %d: %+v", limit.Spec(), now, cost, d)
			}
		}
		d := limit.Test(&st, now, 1)
		inRange(t, limit, &st, d)
		if d.Allowed || d.Remaining != 0 {
			t.Fatalf("%+v at %d: one more than the limit: %+v", limit.Spec(), now, d)
		}
		if later := now.Add(d.RetryAfter); limit.Test(&st, later-1, 1).Allowed || !limit.Test(&st, later, 1).Allowed {
			t.Fatalf("%+v at %d: retry is not exact: %+v", limit.Spec(), now, d)
		}
	}
}

// debts forces far more units than the limit has, and gives them back.
func debts(t *testing.T, limit *stint.Limit, now stint.Instant) {
	t.Helper()
	if limit.Capacity() == 0 {
		return
	}
	var st stint.State
	for range 100 {
		for _, cost := range []uint64{math.MaxUint32, math.MaxUint64} {
			d := limit.Force(&st, now, cost)
			inRange(t, limit, &st, d)
			if cost == math.MaxUint32 {
				continue // a leaky bucket may hold one more
			}
			if d.Remaining != 0 || limit.Test(&st, now, 1).Allowed || limit.Untouched(&st, now) {
				t.Fatalf("%+v at %d in debt: %+v", limit.Spec(), now, d)
			}
			inRange(t, limit, &st, limit.Take(&st, now, 1))
			inRange(t, limit, &st, limit.Take(&st, now, math.MaxUint32))
		}
	}
	for range 1000 {
		d := limit.Refund(&st, now, math.MaxUint64, nil)
		if inRange(t, limit, &st, d); d.Remaining == d.Limit {
			return
		}
	}
	if limit.Algorithm() != stint.SlidingLog && limit.Algorithm() != stint.SlidingWindow {
		t.Fatalf("%+v at %d: never given back: %+v", limit.Spec(), now, st)
	}
}

// The error for a refused Spec names the wrong word.
func TestRefusedSpecs(t *testing.T) {
	s := time.Second
	for _, test := range []struct {
		field string
		spec  stint.Spec
	}{
		{"per", stint.Spec{Requests: 1}},
		{"per", stint.Spec{Requests: 1, Per: -s}},
		{"per", stint.Spec{Requests: 1, Per: stint.MinPer - time.Microsecond}},
		{"per", stint.Spec{Requests: 1, Per: stint.MaxPer + time.Microsecond}},
		{"per", stint.Spec{Requests: 1, Per: s + 1}},
		{"requests", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000_000, Per: s}},
		{"requests", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1_000_001, Per: s}},
		{"requests", stint.Spec{Algorithm: stint.Unlimited, Requests: 1}},
		{"burst", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: year, Burst: 100}},
		{"burst", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: year, Burst: 100, Step: true}},
		{"burst", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: year, Burst: math.MaxUint32}},
		{"burst", stint.Spec{Requests: 1, Per: s, Burst: 1}},
		{"refill", stint.Spec{Requests: 1, Per: s, Step: true}},
		{"max_wait", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: s, MaxWait: s}},
		{"max_wait", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: s, MaxWait: -s}},
		{"align", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: s, FromFirst: true}},
		{"blocks", stint.Spec{Requests: 1, Per: s, Blocks: 2}},
		{"start", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: s, StartUsedUp: true}},
		{"blocks", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1, Per: s, Blocks: -1}},
		{"blocks", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1, Per: s, Blocks: 3}},
		{"blocks", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1, Per: s, Blocks: stint.MaxBlocks + 1}},
		{"min_interval", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: s, MinInterval: s + time.Microsecond}},
		{"min_interval", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: s, MinInterval: -s}},
		{"min_interval", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: s, MinInterval: 1}},
		{"count_denied", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: s, CountDenied: true}},
		{"overdraw", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: s, Overdraw: true}},
		{"time_zone", stint.Spec{Requests: 1, Per: s, Zone: time.UTC}},
		{"time_zone", stint.Spec{Requests: 1, Per: s, Calendar: stint.Day}},
		{"time_zone", stint.Spec{Requests: 1, Calendar: stint.Day, FromFirst: true}},
		{"time_zone", stint.Spec{Requests: 1, Calendar: stint.Year + 1}},
		{"time_zone", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Calendar: stint.Day}},
		{"algorithm", stint.Spec{Algorithm: stint.Penalty + 1}},
		{"ladder", stint.Spec{Requests: 1, Per: s, Ladder: "1s"}},
		{"decay", stint.Spec{Requests: 1, Per: s, Decay: s}},
		{"jitter", stint.Spec{Requests: 1, Per: s, Jitter: 1}},
		{"burst", stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: s, Decay: s, Ladder: "1s", Burst: 1}},
		{"after", stint.Spec{Algorithm: stint.Penalty, Per: s, Decay: s, Ladder: "1s"}},
		{"ladder", stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: s, Decay: s}},
		{"ladder", stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: s, Decay: s, Ladder: "2s 1s"}},
		{"ladder", stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: s, Decay: s, Ladder: "1500ns"}},
		{"decay", stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: s, Decay: s - 1000, Ladder: "1s"}},
		{"jitter", stint.Spec{Algorithm: stint.Penalty, Requests: 1, Per: s, Decay: s, Ladder: "1s", Jitter: 1_000_001}},
	} {
		_, err := stint.NewLimit(test.spec)
		var refused *stint.SpecError
		if !errors.As(err, &refused) || refused.Field != test.field || refused.Hint == "" {
			t.Errorf("%+v: %v, want an error about %s", test.spec, err, test.field)
		}
	}
}

// Instants are rounded down, before and after the point they are counted from.
func TestInstants(t *testing.T) {
	for _, test := range []struct {
		add  time.Duration
		want stint.Instant
	}{
		{0, 0}, {999, 0}, {1000, 1}, {1999, 1}, {-1, -1}, {-1000, -1}, {-1001, -2}, {time.Hour, 3_600_000_000},
	} {
		if got := zero.Add(test.add) - zero; got != test.want {
			t.Errorf("%d ns added makes %d µs, want %d", test.add, got, test.want)
		}
	}
	if got := stint.MaxInstant.Sub(0); got <= 0 || got == stint.Never {
		t.Errorf("all of time is %v long", got)
	}
	if got := zero.Add(-time.Second).Sub(zero); got != -time.Second {
		t.Errorf("a second earlier is %v", got)
	}
	if at := time.Date(2026, 1, 2, 3, 4, 5, 6999, time.UTC); !stint.At(at).Time().Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("%v became %v", at, stint.At(at).Time())
	}
}

// A call that no store can decide is refused before anything is touched.
func TestCallCheck(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second})
	for _, test := range []struct {
		name string
		call stint.Call
		want error
	}{
		{"nothing asked", stint.Call{}, nil},
		{"fine", stint.Call{At: stint.MaxInstant, Takes: []stint.Take{{Key: "a", Limit: limit}}}, nil},
		{"no limit", stint.Call{Takes: []stint.Take{{Key: "a", Limit: limit}, {Key: "a"}}}, stint.ErrNoLimit},
		{"no key", stint.Call{Takes: []stint.Take{{Limit: limit}}}, stint.ErrNoKey},
		{"before 1970", stint.Call{At: -1}, stint.ErrTime},
		{"after the end of time", stint.Call{At: stint.MaxInstant + 1}, stint.ErrTime},
	} {
		if err := test.call.Check(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}
