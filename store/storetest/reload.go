package storetest

import (
	"testing"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// reload: while a fleet reloads a limit node by node, takes of one key come under two sets of
// numbers. Takes under the lower ones are denied and lose nothing, and no more passes than the
// higher ones allow.
func reload(t *testing.T, o Options) {
	for i, low := range model.Variants(100) {
		high := model.Variants(1000)[i]
		s := start(t, o)
		s.take(noon, "a", high, 900)
		for _, ask := range []struct {
			limit *stint.Limit
			cost  uint32
			op    stint.Op
			allow bool
			left  int64
		}{
			{low, 1, stint.Ask, false, 0},
			{low, 0, stint.Ask, true, 0},
			{low, 0, stint.Force, true, 0},
			{high, 0, stint.Ask, true, 100},
			{low, 7, stint.Force, true, 0},
			{high, 0, stint.Ask, true, 93},
			{low, 2, stint.Refund, true, 0},
			{high, 0, stint.Ask, true, 95},
			{high, 96, stint.Ask, false, 95},
			{high, 95, stint.Ask, true, 0},
		} {
			d := s.decide(noon, stint.Take{Key: "a", Limit: ask.limit, Cost: ask.cost, Op: ask.op})[0]
			if d.Allowed != ask.allow || d.Remaining != ask.left || d.Limit != ask.limit.Capacity() {
				t.Fatalf("%s, op %d of %d under %d: %+v", model.Name(high), ask.op, ask.cost, ask.limit.Capacity(), d)
			}
		}
		r := s.decide(noon, // in a call
			stint.Take{Key: "a", Limit: low, Cost: 1},
			stint.Take{Key: "b", Limit: high, Cost: 1},
			stint.Take{Key: "c", Limit: high, Cost: 1, Independent: true})
		if r[0].Allowed || r[0].Remaining != 0 || !r[1].Allowed || r[1].Remaining != 1000 || r[2].Remaining != 999 {
			t.Fatalf("%s, in a call: %+v", model.Name(high), r)
		}
	}
	t.Run("bound", func(t *testing.T) { reloadBound(t, o) })
	t.Run("back", func(t *testing.T) { reloadBack(t, o) })
}

// reloadBack gives back, under other numbers, the whole debt of a log: the rest counts from its own
// time.
func reloadBack(t *testing.T, o Options) {
	log := func(requests uint32, per time.Duration) *stint.Limit {
		return stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: requests, Per: per, Overdraw: true})
	}
	long, short := log(3, 24*time.Hour), log(1, 100*time.Millisecond)
	const us = time.Microsecond
	likeModel(t, o, []model.Moment{
		{At: 0, Op: stint.Ask, Cost: 2, Limit: long},
		{At: 1 * us, Op: stint.Ask, Cost: 3, Limit: short},
		{At: 2 * us, Op: stint.Ask, Cost: 3, Limit: long},
		{At: 38*time.Hour + 3*us, Op: stint.Refund, Cost: 2, Limit: short},
		{At: 38*time.Hour + 4*us, Op: stint.Ask, Cost: 1, Limit: short},
	})
}

// reloadBound lets two nodes take as much as they get, one under 100 and the other under 150 an
// hour.
func reloadBound(t *testing.T, o Options) {
	for i, low := range model.Variants(100) {
		high := model.Variants(150)[i]
		if a := high.Algorithm(); a == stint.LeakyBucket || a == stint.SlidingWindow {
			continue // they bound the outflow, and only roughly
		}
		s, r := start(t, o), random(t)
		passed, at := uint32(0), noon
		for at < noon.Add(time.Hour) {
			limit, cost := pick(r, low, high), pick[uint32](r, 0, 1, 2, 5, 20)
			if s.take(at, "a", limit, cost).Allowed {
				passed += cost
			}
			at += stint.Instant(r.Int64N((20 * time.Second).Microseconds()))
		}
		if passed < 100 || passed > 300 { // burst and refill, or two windows
			t.Errorf("%s: %d passed in an hour, 100 to 300 may", model.Name(high), passed)
		}
	}
}
