package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint"
)

// UndecodableStore is a store that cannot decode the states of some keys. It decides all takes that
// are not decided together with one of these.
type UndecodableStore struct {
	stint.Store
	Bad func(key stint.Key) bool
}

// Decide is part of stint.Store.
func (s *UndecodableStore) Decide(ctx context.Context, call *stint.Call) error {
	var undecodable stint.CorruptState
	together := true // independent takes are decided
	for i, t := range call.Takes {
		if s.Bad(t.Key) {
			undecodable.Takes = append(undecodable.Takes, i)
			together = together && t.Independent
		}
	}
	if undecodable.Takes == nil {
		return s.Store.Decide(ctx, call)
	}
	well := stint.Call{At: call.At}
	var of []int
	for i := 0; i < len(call.Takes); i++ {
		t, end := &call.Takes[i], i+int(call.Takes[i].Borrows)
		reads := !slices.ContainsFunc(undecodable.Takes, func(n int) bool { return i <= n && n <= end })
		for ; i <= end; i++ {
			if t.Independent && reads || !t.Independent && together {
				well.Takes, of = append(well.Takes, call.Takes[i]), append(of, i)
			}
		}
		i = end
	}
	if err := s.Store.Decide(ctx, &well); err != nil {
		return err
	}
	call.Results = make([]stint.Decision, len(call.Takes)) // the results of undecided takes deny
	for n, i := range of {
		call.Results[i] = well.Results[n]
	}
	return fmt.Errorf("transactiontest: %w", &undecodable)
}

// noon is the time of all calls.
var noon = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// NoonClock is the clock for in-memory stores of these tests.
func NoonClock() stint.Instant { return noon }

// limits are the limits of the keys in calls.
var limits = [...]*stint.Limit{
	stint.MustLimit(stint.Spec{Requests: 20, Per: time.Hour}),
	stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 20, Per: time.Hour, Burst: 20}),
	stint.MustLimit(stint.Spec{Requests: 20, Per: time.Hour, Overdraw: true}),
}

// CheckUndecodable sends the same calls to one store, and to several stores behind another one,
// which before returns. Both must return the same results. server returns the next store; all of
// them must use NoonClock.
func CheckUndecodable(t *testing.T, server func() stint.Store, before func(server func() stint.Store) stint.Store) {
	said, seeds := 0, 300
	if testing.Short() {
		seeds = 60
	}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 11))
		var away atomic.Bool
		garbled := func() stint.Store {
			return &UndecodableStore{server(), func(key stint.Key) bool { return away.Load() && strings.HasPrefix(string(key), "bad") }}
		}
		one, several := garbled(), before(garbled)
		for step := range 40 {
			away.Store(r.IntN(4) > 0)
			call := stint.Call{Takes: randomTakes(r)}
			want, got := stint.Call{Takes: slices.Clone(call.Takes)}, stint.Call{Takes: slices.Clone(call.Takes)}
			wanted, err := one.Decide(t.Context(), &want), several.Decide(t.Context(), &got)
			if errors.Is(err, stint.ErrUnknown) {
				break // which is allowed
			}
			differs := compareUndecodable(&want, &got, wanted, err)
			if differs != "" {
				t.Fatalf("seed %d, step %d: %s\nof %s\n%v\n%v", seed, step, differs, showCall(&call), wanted, err)
			}
			if err != nil {
				said++
			}
		}
	}
	if said < 5*seeds {
		t.Errorf("only %d calls were decided in part", said)
	}
}

// randomTakes returns the takes of a random call.
func randomTakes(r *rand.Rand) (list []stint.Take) {
	used := map[stint.Key]bool{}
	for range 1 + r.IntN(6) {
		n := r.IntN(12)
		key := stint.Key(fmt.Sprintf("key%d", n))
		if n%3 == 0 {
			key = "bad" + key
		}
		t := stint.Take{
			Key: key, Limit: limits[n%len(limits)], Cost: r.Uint32N(5), Independent: r.IntN(3) == 0, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Coordination(n % 4)}},
		}
		switch again := used[key]; {
		case again && (t.Independent || !slices.ContainsFunc(list, func(o stint.Take) bool { return o.Key == key && !o.Independent && o.Op == stint.Ask })):
			continue // other calls between its stores see the charge
		case !again && r.IntN(8) == 0:
			t.Op = stint.Force
		}
		used[key] = true
		list = append(list, t)
		if r.IntN(6) == 0 && !used["lead"] {
			list, used["lead"] = append(list, borrowingTakes(r)...), true
		}
	}
	return list
}

// borrowingTakes returns a take and its source.
func borrowingTakes(r *rand.Rand) []stint.Take {
	lead := stint.Take{Key: "lead", Limit: limits[1], Cost: r.Uint32N(5), Borrows: 1, Independent: r.IntN(2) == 0}
	pool := stint.Take{Key: "pool", Limit: limits[1], Cost: lead.Cost, Independent: lead.Independent}
	switch r.IntN(4) {
	case 0:
		lead.Key = "badlead"
	case 1:
		pool.Key = "badpool"
	}
	return []stint.Take{lead, pool}
}

// compareUndecodable returns the difference of two answers.
func compareUndecodable(want, got *stint.Call, wanted, err error) string {
	say := func(err error) []int {
		if said, ok := errors.AsType[*stint.CorruptState](err); ok {
			return said.Takes
		}
		return nil
	}
	if (wanted == nil) != (err == nil) || !slices.Equal(say(wanted), say(err)) {
		return fmt.Sprintf("%d cannot be read, want %d", say(err), say(wanted))
	}
	for i := range want.Takes {
		if wanted != nil && !decidedUndecodable(want, say(wanted), i) {
			continue
		}
		w, g := &want.Results[i], &got.Results[i]
		if w.Allowed != g.Allowed || w.Remaining != g.Remaining || w.Over != g.Over || w.Limit != g.Limit {
			return fmt.Sprintf("take %d: %+v, want %+v", i, *g, *w)
		}
	}
	return ""
}

// decidedUndecodable reports whether a take was decided although others were undecodable.
func decidedUndecodable(call *stint.Call, undecodable []int, take int) bool {
	group := func(n int) int {
		if !call.Takes[n].Independent {
			return -1
		}
		for n > 0 && call.Takes[n-1].Borrows > 0 {
			n--
		}
		return n
	}
	return !slices.ContainsFunc(undecodable, func(n int) bool { return group(n) == group(take) })
}

// showCall formats a call.
func showCall(call *stint.Call) string {
	var s strings.Builder
	for i := range call.Takes {
		t := &call.Takes[i]
		fmt.Fprintf(&s, "%d: op %d %s cost %d, leans %d, apart %v, %v; ", i, t.Op, t.Key, t.Cost, t.Borrows, t.Independent, t.Coordination())
	}
	return s.String()
}
