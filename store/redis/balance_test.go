package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memory"
	"stint/store/redis"
)

// What a key has of its grants and of its rollover is read as in memory: after takes, after units were given back, in
// later periods, and after a take without a rollover. Grants may have IDs with blanks and colons, and a key that used none
// has no book.
func TestBalances(t *testing.T) {
	store, err := redis.Open(testkit.StartRedis(t).URL(), redis.Options{Namespace: "balances"})
	testkit.Must(t, err)
	t.Cleanup(store.Close)
	inMemory := memory.New(memory.Options{})
	limit := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})
	begin := stint.At(time.Now().Truncate(time.Hour))
	grants := []transaction.Grant{
		{ID: "a b:c 1", Units: 5, Priority: 7, Until: begin.Add(50 * time.Hour)},
		{ID: "order-7", Units: 100, Priority: 200, Until: begin.Add(50 * time.Hour)},
	}
	take := func(cost uint32, rollover int64) stint.Take {
		return stint.Take{Key: "k", Limit: limit, Cost: cost, Handling: &stint.Handling{
			Terms: &stint.Terms{Domain: "api", Rule: "calls", Usage: 2},
			Meter: &transaction.Meter{Subject: "user=k", Of: 10, Grants: grants, Rollover: rollover},
		}}
	}
	balances := func(keeper interface {
		Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error)
	}, at stint.Instant,
	) string {
		t.Helper()
		named := take(0, 0)
		u, err := keeper.Usage(t.Context(), &named)
		testkit.Must(t, err)
		of, until := u.Book.OfRollover(limit, 4, at)
		return fmt.Sprint(u.Book == nil, u.Book.OfGrant(&grants[0]), u.Book.OfGrant(&grants[1]), of, until.Sub(begin))
	}
	if got, want := balances(store, begin), balances(inMemory, begin); got != want {
		t.Errorf("untouched: %s, want %s", got, want)
	}
	var undo stint.Decision
	for i, step := range []struct {
		after    time.Duration
		cost     uint32
		rollover int64
		back     uint32
		bare     bool // without grants
	}{
		{0, 3, 4, 0, false},
		{time.Minute, 20, 4, 0, false},
		{2 * time.Minute, 0, 4, 9, false},
		{time.Hour, 8, 4, 0, false},
		{2 * time.Hour, 3, 4, 0, false},
		{2*time.Hour + time.Minute, 2, 0, 0, false},
		{3 * time.Hour, 1, 0, 0, false},
		{3*time.Hour + time.Minute, 2, 4, 0, false},
		{4 * time.Hour, 1, 0, 0, true},
	} {
		at := begin.Add(step.after)
		for _, s := range []stint.Store{store, inMemory} {
			call := stint.Call{At: at, Takes: []stint.Take{take(step.cost, step.rollover)}}
			if step.bare {
				call.Takes[0].Handling.Meter.Grants = nil
			}
			if step.back > 0 {
				before := undo
				call.Takes[0].Op, call.Takes[0].Cost, call.Takes[0].Undo = stint.Refund, step.back, &before
			}
			testkit.Must(t, s.Decide(t.Context(), &call))
			if step.back == 0 && s == stint.Store(store) {
				undo = call.Results[0]
			}
		}
		if got, want := balances(store, at), balances(inMemory, at); got != want {
			t.Errorf("step %d: %s, want %s", i, got, want)
		}
	}
}
