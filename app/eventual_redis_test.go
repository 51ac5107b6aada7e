package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/redis"
)

// startFleet runs n nodes around a store until the test ends.
func startFleet(t testing.TB, store stint.Store, n int, o eventual.Options) *testkit.Fleet[*eventual.Store] {
	t.Helper()
	return testkit.StartFleet(t, store, n, func(s stint.Store) *eventual.Store { return eventual.New(s, o) })
}

func ownTake(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}}
}

// thousandOnce passes 1,000 and hardly refills during a test.
var thousandOnce = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer})

// onRedis starts n nodes on a real Redis.
func onRedis(t *testing.T, n int, o eventual.Options) *testkit.Fleet[*eventual.Store] {
	t.Helper()
	s, err := redis.Open(testkit.StartRedis(t).URL(), redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return startFleet(t, s, n, o)
}

// Nodes on one Redis exceed the limit by no more than the bound, and Redis counts everything.
func TestRedisBound(t *testing.T) {
	const nodes = 4
	for _, limit := range []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer}),
		stint.MustLimit(stint.Spec{Requests: 1000, Per: stint.MaxPer, CarryDebt: true}),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			f := onRedis(t, nodes, eventual.Options{Interval: 20 * time.Millisecond})
			var passed atomic.Int64
			var callers sync.WaitGroup
			for i := range nodes * 4 {
				callers.Go(func() {
					call := stint.Call{}
					for range 3000 {
						call.Takes = append(call.Takes[:0], ownTake("a", limit, 1))
						if err := f.Nodes[i%nodes].Decide(context.Background(), &call); err != nil {
							t.Error(err)
							return
						}
						if call.Results[0].Allowed {
							passed.Add(1)
						}
					}
				})
			}
			callers.Wait()
			f.Stop()
			d := f.Stored(t, "a", limit)
			if n := passed.Load(); n < 1000 || n > nodes*1000 {
				t.Errorf("%d passed, want 1000 to %d", n, nodes*1000)
			}
			counted := 1000 + d.Debt
			if limit.Algorithm() == stint.TokenBucket {
				counted = int64(d.ResetAfter/(stint.MaxPer/1000)) + 1 // the last has begun to refill
			}
			if counted != passed.Load() {
				t.Errorf("%d passed, and Redis has counted %d: %+v", passed.Load(), counted, d)
			}
			t.Logf("%d passed of 1000", passed.Load())
		})
	}
}

// steadyCluster starts a Cluster whose nodes do not fail.
func steadyCluster(t *testing.T) *testkit.RedisCluster {
	t.Helper()
	c := testkit.StartRedisCluster(t, 3)
	c.Timeout(testkit.Steady)
	return c
}

// On a Cluster each partition gets the messages about its own keys, and each message is charged
// once, though every third answer is lost.
func TestEventualCluster(t *testing.T) {
	t.Parallel()
	s, err := redis.Open(steadyCluster(t).URL(), redis.Options{})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	lossy := &losing{Store: s}
	f := startFleet(t, lossy, 2, eventual.Options{Interval: 20 * time.Millisecond, Part: s.Part})
	passed := make([]atomic.Int64, 300)
	for round := range 10 {
		for user := range passed {
			if f.Decide(t, (user+round)%2, ownTake(userKey(user), thousandOnce, 3))[0].Allowed {
				passed[user].Add(3)
			}
		}
		lossy.loses.Store(round > 0)
		testkit.Until(t, "some messages have gone", func() bool { return lossy.asked.Load() >= int64(40*max(0, round-1)) }) // the first two are reads
	}
	lossy.loses.Store(false)
	testkit.Until(t, "all are answered", func() bool { return f.Nodes[0].Stats().Unanswered+f.Nodes[1].Stats().Unanswered == 0 })
	f.Stop()
	if lossy.lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	compareUsers(t, s, thousandOnce, passed)
}

// losing loses every third answer to a message.
type losing struct {
	stint.Store
	loses       atomic.Bool
	asked, lost atomic.Int64
}

// Decide implements stint.Store.
func (l *losing) Decide(ctx context.Context, call *stint.Call) error {
	err := l.Store.Decide(ctx, call)
	if call.At != 0 && l.asked.Add(1)%3 == 0 && l.loses.Load() {
		l.lost.Add(1)
		return stint.ErrUnknown
	}
	return err
}

// A million users share a hundred thousand places: the busy ones stay, and in the end Redis has
// counted what passed.
func TestCacheOfActiveUsers(t *testing.T) {
	users, places, callers := 1_000_000, 100_000, 128 // nearly all of the time callers wait for Redis
	if testing.Short() {
		users, places, callers = 20_000, 2_000, 16
	}
	busy := places / 10
	f := onRedis(t, 1, eventual.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer})
	terms := &stint.Terms{Rule: "user", Limit: limit, Keys: places, Coordination: stint.Eventual}
	passed := make([]atomic.Int64, users)
	ask := func(call *stint.Call, user int) {
		call.Takes = append(call.Takes[:0], stint.Take{Key: userKey(user), Limit: limit, Cost: 1, Handling: &stint.Handling{Terms: terms}})
		if err := f.Nodes[0].Decide(context.Background(), call); err != nil {
			t.Error(err)
		} else if call.Results[0].Allowed {
			passed[user].Add(1)
		}
	}
	began := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			r, call := rand.New(rand.NewPCG(uint64(c), 1)), stint.Call{}
			for user := c; user < users; user += callers { // each user comes once, with busy ones in between
				ask(&call, user)
				for range 2 {
					ask(&call, r.IntN(busy))
				}
			}
		})
	}
	all.Wait()
	took, before := time.Since(began), f.Nodes[0].Stats()
	if before.Keys > int64(places) {
		t.Errorf("%d keys have %d places", before.Keys, places)
	}
	if before.Refused > uint64(users/8) {
		t.Errorf("%d decisions about %d users found no place", before.Refused, users)
	}
	call := stint.Call{}
	for user := range busy {
		ask(&call, user)
	}
	gone := f.Nodes[0].Stats().Reads - before.Reads
	if gone > uint64(busy/50) {
		t.Errorf("%d of %d busy users had to be read again", gone, busy)
	}
	testkit.Until(t, "all counts are sent", func() bool { keys, _ := f.Nodes[0].Unsent(); return keys == 0 }) // Stop sends for a second only
	f.Stop()
	t.Logf("%d decisions of %d users over %d places in %v; %d read, %d evicted, %d decided by the store; %d of %d busy ones were gone",
		3*users, users, places, took.Round(time.Millisecond), before.Reads, before.Evicted, before.Refused, gone, busy)
	compareUsers(t, f.Store.Store, limit, passed)
}

func userKey(user int) stint.Key { return stint.Key(fmt.Sprint("api/user=", user)) }

// compareUsers compares the counts of a store with what passed.
func compareUsers(t *testing.T, store stint.Store, limit *stint.Limit, passed []atomic.Int64) {
	t.Helper()
	wrong := 0
	for first := 0; first < len(passed); first += 32 {
		var takes []stint.Take
		for user := first; user < min(first+32, len(passed)); user++ {
			takes = append(takes, stint.Take{Key: userKey(user), Limit: limit, Independent: true})
		}
		for i, d := range testkit.Decide(t, store, takes...) {
			if want := passed[first+i].Load(); d.Limit-d.Remaining != want {
				if wrong++; wrong < 5 {
					t.Errorf("user %d: %d passed, and the store has counted %d", first+i, want, d.Limit-d.Remaining)
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d users are counted wrongly", wrong)
	}
}
