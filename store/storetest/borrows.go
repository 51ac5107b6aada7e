package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// reservations: with count: responses takes are charged until they are settled or given back, and a
// refund undoes exactly that take, however long it lasted. Under other limits they are ordinary
// takes, and settling them changes nothing.
func reservations(t *testing.T, o Options) {
	eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
		end := func(op stint.Op, d stint.Decision, cost uint32, want int64) {
			s.Helper()
			got := s.decide(noon, stint.Take{Key: "a", Limit: limit, Cost: cost, Op: op, Undo: &d})[0]
			if !got.Allowed || got.Remaining != want {
				s.Fatalf("op %d: %+v, want %d remaining", op, got, want)
			}
		}
		first := s.take(noon, "a", limit, 4)
		second := s.take(noon, "a", limit, 3)
		end(stint.Settle, second, 3, 3)
		if limit.Algorithm() != stint.LeakyBucket { // its last place belongs to the second take
			end(stint.Refund, first, 4, 7)
		}
	})
	t.Run("promises", func(t *testing.T) { retryTimes(t, o) })
	t.Run("over time", func(t *testing.T) {
		s := start(t, o)
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Reserve: true})
		at := func(d time.Duration) stint.Instant { return noon.Add(d) }
		first := s.take(at(0), "a", limit, 3)
		second := s.take(at(time.Millisecond), "a", limit, 2)
		for _, step := range []struct {
			at        time.Duration
			take      stint.Take
			remaining int64
		}{
			{time.Minute, stint.Take{}, 0},
			{time.Minute, stint.Take{Op: stint.Settle, Cost: 2, Undo: &second}, 0},
			{time.Minute + time.Second, stint.Take{}, 2},
			{2 * time.Minute, stint.Take{Op: stint.Refund, Cost: 3, Undo: &first}, 5},
			{2 * time.Minute, stint.Take{Op: stint.Refund, Cost: 3, Undo: &first}, 5},
			{3 * time.Minute, stint.Take{Cost: 5}, 0},
			{3*time.Minute + stint.MaxReservation, stint.Take{}, 0},
			{3*time.Minute + stint.MaxReservation + time.Second, stint.Take{}, 5},
		} {
			step.take.Key, step.take.Limit = "a", limit
			if d := s.decide(at(step.at), step.take)[0]; !d.Allowed || d.Remaining != step.remaining {
				t.Errorf("at %v: %+v, want %d remaining", step.at, d, step.remaining)
			}
		}
	})
}

// retryTimes: a take that is denied while reservations are open passes at its retry time, and not
// before, if none of them comes back; also if some did before.
func retryTimes(t *testing.T, o Options) {
	s := start(t, o)
	for _, step := range []bool{false, true} {
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 10 * time.Second, Burst: 3, Reserve: true, Step: step})
		for ended := range 3 {
			for cost := uint32(1); cost <= 3; cost++ {
				for _, op := range []stint.Op{stint.Settle, stint.Refund} {
					key := stint.Key(fmt.Sprint(step, ended, cost, op))
					var undo []stint.Decision
					for i := range 3 {
						undo = append(undo, s.take(noon.Add(time.Duration(i)*time.Second), key, limit, 1))
					}
					at := noon.Add(4 * time.Second)
					for i := range ended {
						s.decide(at, stint.Take{Key: key, Limit: limit, Cost: 1, Op: op, Undo: &undo[i]})
					}
					d := s.take(at, key, limit, cost)
					if op == stint.Refund && cost <= uint32(ended) {
						if !d.Allowed {
							t.Errorf("key %s: %+v, although as much was given back", key, d)
						}
						continue
					}
					then := at.Add(d.RetryAfter)
					if d.Allowed || d.ResetAfter < d.RetryAfter {
						t.Fatalf("key %s: %+v", key, d)
					}
					if early := s.take(then-1, key, limit, cost); early.Allowed {
						t.Errorf("key %s: passes 1µs before its retry time %v", key, d.RetryAfter)
					}
					if d := s.take(then, key, limit, cost); !d.Allowed {
						t.Errorf("key %s: denied at its retry time, then %+v", key, d)
					}
				}
			}
		}
	}
}

// borrows: a take that fits its own limit passes whatever its sources have, and debits them; one
// that does not fit passes if all its sources have room, and does not change its own key.
func borrows(t *testing.T, o Options) {
	own := stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour})
	pool := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Hour})
	most := stint.MustLimit(stint.Spec{Requests: 6, Per: time.Hour})
	// ask decides a take that borrows from the pool and a cap of its own.
	ask := func(s tester, key stint.Key, cost uint32, apart bool) []stint.Decision {
		s.Helper()
		return s.decide(noon,
			stint.Take{Key: key, Limit: own, Cost: cost, Borrows: 2, Independent: apart},
			stint.Take{Key: "pool", Limit: pool, Cost: cost, Independent: apart},
			stint.Take{Key: "cap of " + key, Limit: most, Cost: cost, Independent: apart})
	}
	type numbers struct{ own, pool, most int64 }
	for _, apart := range []bool{false, true} {
		t.Run(map[bool]string{false: "together", true: "apart"}[apart], func(t *testing.T) {
			s := start(t, o)
			for i, step := range []struct {
				key           stint.Key
				cost          uint32
				allowed, over bool
				left          numbers
			}{
				{"a", 1, true, false, numbers{1, 4, 5}},
				{"a", 0, true, false, numbers{1, 4, 5}},
				{"a", 1, true, false, numbers{0, 3, 4}},
				{"a", 2, true, true, numbers{0, 1, 2}},
				{"a", 2, false, false, numbers{0, 1, 2}}, // the pool has 1
				{"b", 2, true, false, numbers{0, 0, 4}},  // fits its own limit, though the pool has 1
				{"a", 1, false, false, numbers{0, 0, 2}},
				{"c", 3, false, false, numbers{2, 0, 6}}, // more than its own limit
				{"c", 9, false, false, numbers{2, 0, 6}},
			} {
				got := ask(s, step.key, step.cost, apart)
				left := numbers{got[0].Remaining, s.peek(noon, "pool", pool).Remaining, s.peek(noon, "cap of "+step.key, most).Remaining}
				if got[0].Allowed != step.allowed || got[0].Over != step.over || left != step.left {
					t.Errorf("step %d: %+v, left %+v, want %+v", i, got[0], left, step)
				}
				if never := step.cost == 9; !step.allowed && (got[0].RetryAfter == stint.Never) != never || got[0].RetryAfter < 0 {
					t.Errorf("step %d: retry after %v", i, got[0].RetryAfter)
				}
			}
		})
	}
	t.Run("the sooner way", func(t *testing.T) { soonerRetry(t, o) })
	t.Run("charged all the same", func(t *testing.T) { chargedRetry(t, o) })
	t.Run("a debt has an end", func(t *testing.T) {
		s := start(t, o)
		cut := 0
		for i := range 6 {
			got := ask(s, stint.Key(rune('a'+i)), 2, false)
			if !got[0].Allowed || got[0].Over {
				t.Fatalf("take %d inside its own limit: %+v", i, got[0])
			}
			if got[1].Over {
				cut++
			}
		}
		back := s.decide(noon, stint.Take{Key: "pool", Limit: pool, Cost: 6, Op: stint.Refund})[0]
		if cut != 1 || back.Remaining != 1 {
			t.Errorf("12 of a pool of 5 were taken, %d debits were cut; 6 came back: %+v, want 1 remaining", cut, back)
		}
	})
	t.Run("denied by another", func(t *testing.T) {
		s := start(t, o)
		ask(s, "a", 2, false)
		for range 2 {
			got := s.decide(noon,
				stint.Take{Key: "a", Limit: own, Cost: 1, Borrows: 1}, stint.Take{Key: "pool", Limit: pool, Cost: 1},
				stint.Take{Key: "x", Limit: own, Cost: 3})
			if !got[0].Allowed || got[0].Over || !got[1].Allowed || got[1].Remaining != 3 || got[2].Allowed {
				t.Fatalf("%+v", got)
			}
		}
	})
	t.Run("errors", func(t *testing.T) { borrowErrors(t, o) })
}

// soonerRetry: a denied take gets the sooner of two retry times: of its own limit, or of all its
// sources.
func soonerRetry(t *testing.T, o Options) {
	s := start(t, o)
	bucket := func(requests uint32) *stint.Limit {
		return stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: requests, Per: time.Minute})
	}
	slow, quick := bucket(1), bucket(60)
	spent := func(key stint.Key, limit *stint.Limit) stint.Take {
		s.take(noon, key, limit, uint32(limit.Capacity()))
		return stint.Take{Key: key, Limit: limit, Cost: 1}
	}
	for _, step := range []struct {
		own, pool *stint.Limit
		want      time.Duration
	}{{slow, quick, time.Second}, {quick, slow, time.Second}, {slow, slow, time.Minute}} {
		leader, pool := spent("own", step.own), spent("pool", step.pool)
		leader.Borrows = 1
		d := s.decide(noon, leader, pool)[0]
		if d.Allowed || d.RetryAfter != step.want {
			t.Errorf("%+v, want retry after %v", d, step.want)
		}
		s.decide(noon, stint.Take{Key: "own", Limit: step.own, Op: stint.Reset}, stint.Take{Key: "pool", Limit: step.pool, Op: stint.Reset})
	}
}

// chargedRetry: a take that is denied and charged all the same, by a limit that overdraws or counts
// denied takes, its own or its source's, gets the time at which it passes if nobody else takes.
func chargedRetry(t *testing.T, o Options) {
	spec := func(algorithm stint.Algorithm, requests uint32, more stint.Spec) *stint.Limit {
		more.Algorithm, more.Requests, more.Per = algorithm, requests, time.Minute
		return stint.MustLimit(more)
	}
	plain, never := spec(stint.TokenBucket, 60, stint.Spec{}), spec(stint.FixedWindow, 0, stint.Spec{})
	overdrawn := spec(stint.TokenBucket, 60, stint.Spec{Overdraw: true})
	log := spec(stint.SlidingLog, 3, stint.Spec{CountDenied: true})
	for name, limits := range map[string][2]*stint.Limit{
		"own overdraws": {overdrawn, never}, "own counts denied": {log, never},
		"pool overdraws": {never, overdrawn}, "both": {overdrawn, overdrawn}, "neither": {plain, plain},
	} {
		s := start(t, o)
		for i, limit := range limits {
			if limit != never {
				s.take(noon, stint.Key(fmt.Sprint("key", i)), limit, uint32(limit.Capacity()))
			}
		}
		ask := func(at stint.Instant, cost uint32) stint.Decision {
			return s.decide(at,
				stint.Take{Key: "key0", Limit: limits[0], Cost: cost, Borrows: 1},
				stint.Take{Key: "key1", Limit: limits[1], Cost: cost})[0]
		}
		at := noon.Add(2500 * time.Millisecond)
		d := ask(at, 3)
		if d.Allowed || d.RetryAfter == stint.Never {
			t.Fatalf("%s: %+v", name, d)
		}
		if then := ask(at.Add(d.RetryAfter), 3); !then.Allowed {
			t.Errorf("%s: denied at its retry time, after %v: %+v", name, d.RetryAfter, then)
		}
	}
}

// borrowErrors: a take with invalid sources is an error, before anything is charged.
func borrowErrors(t *testing.T, o Options) {
	s := start(t, o)
	limit := model.Variants(5)[0]
	take := func(key stint.Key) stint.Take { return stint.Take{Key: key, Limit: limit, Cost: 1} }
	leader := take("a")
	leader.Borrows = 1
	forced, apart, chain := take("b"), take("b"), take("b")
	forced.Op, apart.Independent, chain.Borrows = stint.Force, true, 1
	unsettled := take("a")
	unsettled.Op = stint.Settle
	for name, test := range map[string]struct {
		takes []stint.Take
		want  error
	}{
		"nothing":           {[]stint.Take{leader}, stint.ErrSource},
		"a forced take":     {[]stint.Take{leader, forced}, stint.ErrSource},
		"one that is apart": {[]stint.Take{leader, apart}, stint.ErrSource},
		"a chain":           {[]stint.Take{leader, chain, take("c")}, stint.ErrSource},
		"itself":            {[]stint.Take{leader, take("a")}, stint.ErrMixedLimits},
		"and not":           {[]stint.Take{leader, take("b"), take("a")}, stint.ErrMixedLimits},
		"settles nothing":   {[]stint.Take{unsettled}, stint.ErrNoUndo},
	} {
		call := stint.Call{At: noon, Takes: test.takes}
		if err := s.Decide(context.Background(), &call); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if d := s.peek(noon, "a", limit); d.Remaining != 5 {
		t.Errorf("errors charged: %+v", d)
	}
}
