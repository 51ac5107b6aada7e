package storetest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/store/storetest/model"
)

// grants compares the store with the model in random histories of keys with grants and a rollover: the
// decisions with all that they spent, and the histories of use. Grants come, change and go, periods pass
// with takes and without, and takes are given back.
func grants(t *testing.T, o Options) {
	if _, ok := o.New(t).(Meters); !ok {
		return
	}
	t.Run("Steps", func(t *testing.T) { grantSteps(t, o) })
	histories := *historiesFlag
	if o.Slow {
		histories /= 10
	}
	r := random(t)
	for range histories {
		grantHistory(t, o, r)
	}
}

// grantHistory compares the store with the model in one history.
func grantHistory(t *testing.T, o Options, r *rand.Rand) {
	h := model.NewGrantHistory(r, noon)
	if o.SameNumbers {
		h.Limits = h.Limits[:1]
	}
	keep, of := r.IntN(3), map[stint.Key]*limits.Meter{}
	sameHistories(t, o, h, func() stint.Call {
		if r.IntN(6) == 0 {
			h.Leap(o.Backwards)
		}
		call := h.Next(o.Backwards)
		for i := range call.Takes {
			if t := &call.Takes[i]; !t.Candidate() {
				*t = h.Grant(meter(*t, keep), call.At, of, len(h.Limits) == 1 && !o.Backwards)
			}
		}
		return call
	})
}

// grantSteps: a take of several grants, takes of one key in one call that are given back one by one, a
// denied call that charges nothing, and takes of at most their costs.
func grantSteps(t *testing.T, o Options) {
	s := start(t, o)
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	take := func(key stint.Key, cost uint32) stint.Take {
		t := meter(stint.Take{Key: key, Limit: limit, Cost: cost}, 1)
		t.Handling.Meter.Grants = []limits.Grant{{ID: "first", Units: 4, Priority: 1, Until: noon.Add(48 * time.Hour)}, {ID: "last", Units: 8, Priority: limits.GrantPriority, Until: noon.Add(48 * time.Hour)}}
		t.Handling.Meter.Rollover = 5
		return t
	}
	remaining := func(at stint.Instant, key stint.Key, want int64) {
		t.Helper()
		if got := s.decide(at, take(key, 0))[0]; got.Remaining != want {
			t.Errorf("%d units of %s remain, want %d", got.Remaining, key, want)
		}
	}
	both := s.decide(noon, take("a", 3), take("a", 12), take("b", 20))
	if d := both[1]; !d.Allowed || d.Remaining != 7 || d.Limit != 22 {
		t.Errorf("%+v", d)
	}
	remaining(noon, "b", 2)
	if d := s.decide(noon, take("a", 1), take("b", 3)); d[1].Allowed || d[1].RetryAfter != d[1].ResetAfter {
		t.Errorf("%+v", d[1])
	}
	remaining(noon, "a", 7)
	most := take("a", 100)
	most.Op = stint.AskAtMost
	if d := s.decide(noon, most)[0]; d.Charged != 7 || d.Remaining != 0 {
		t.Errorf("%+v", d)
	}
	back := take("a", 12)
	back.Op, back.Undo = stint.Refund, &both[1]
	if d := s.decide(noon.Add(time.Hour), back)[0]; d.Remaining != 12 { // 10, and 1 of each grant
		t.Errorf("%+v", d)
	}
	back = take("a", 3)
	back.Op, back.Undo = stint.Refund, &both[0]
	if d := s.decide(noon.Add(time.Hour), back)[0]; d.Remaining != 15 {
		t.Errorf("%+v", d)
	}
	wrong := take("b", 1)
	wrong.Limit = stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour, FromFirst: true})
	if _, err := ask(s, stint.Call{At: noon.Add(time.Hour), Takes: []stint.Take{take("a", 1), wrong}}); !errors.Is(err, limits.ErrGrants) {
		t.Errorf("a rollover between windows that begin with a take: error %v", err)
	}
	remaining(noon.Add(time.Hour), "a", 15)
	s.decide(noon.Add(time.Hour), take("b", 1))
	remaining(noon.Add(2*time.Hour), "b", 17) // 10, 5 of the 9 that were left, and 2 of the grant
	if o.Backwards {
		plain, next := take("c", 6), noon.Add(time.Hour-6*time.Second) // a second after its window began
		plain.Handling.Meter.Rollover = 0
		s.decide(next, plain)
		s.decide(next.Add(-2*time.Second), take("c", 1))
		remaining(next, "c", 15) // 7, and 8 of a grant: the hour before leaves nothing, as the clock went back to it
	}
}
