package redis_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// quick.lua and decide.lua give the same answers and leave the same values, in keys that live
// equally long.
func TestQuickLeavesTheSameStates(t *testing.T) {
	server := testkit.StartRedis(t)
	quick, general := openIn(t, server, "quick"), openIn(t, server, "general")
	general.GeneralForTest()
	quick.KeepTTLsForTest()
	limits := []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 7, Per: time.Second, Burst: 3}),
		stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second, Burst: 4}),
		stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second, Burst: 9, MaxWait: 500 * time.Millisecond}),
		stint.MustLimit(stint.Spec{Requests: 4, Per: time.Second}),
		stint.MustLimit(stint.Spec{Requests: 1 << 30, Per: 366 * 24 * time.Hour}),
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	at := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for step := range 400 {
		at += stint.Instant(r.Int64N(600_000) - 20_000)
		a := stint.Call{At: at}
		for range 1 + r.IntN(4) {
			a.Takes = append(a.Takes, stint.Take{
				Key: stint.Key(fmt.Sprint("key", r.IntN(2))), Limit: limits[0], Cost: uint32(r.IntN(5)), Independent: r.IntN(3) == 0,
			})
			n := len(a.Takes) - 1
			which := r.IntN(len(limits))
			a.Takes[n].Limit, a.Takes[n].Key = limits[which], a.Takes[n].Key+stint.Key(fmt.Sprint(" of ", which))
		}
		b := stint.Call{At: at, Takes: a.Takes}
		if err := quick.Decide(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
		if err := general.Decide(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a.Results, b.Results) {
			t.Fatalf("step %d: %+v\nquick   %+v\ngeneral %+v", step, a.Takes, a.Results, b.Results)
		}
		for _, take := range a.Takes {
			name := ":" + take.Limit.Algorithm().String() + ":" + string(take.Key)
			if one, other := server.Do("GET", "quick"+name), server.Do("GET", "general"+name); one != other {
				t.Fatalf("step %d: %s is %q, in general %q", step, name, one, other)
			}
			one, err1 := strconv.Atoi(server.Do("PTTL", "quick"+name))
			other, err2 := strconv.Atoi(server.Do("PTTL", "general"+name))
			// The time of the calls is two minutes ahead of the server's.
			if apart := one - other; err1 != nil || err2 != nil || apart > 300_000 || apart < -300_000 {
				t.Fatalf("step %d: %s lives for %d ms, in general %d", step, name, one, other)
			}
		}
	}
}

// A peek writes nothing, even beside a take that does.
func TestLooksWriteNothing(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "look")
	for i, limit := range forms {
		taken, looked := stint.Key(fmt.Sprint("taken", i)), stint.Key(fmt.Sprint("looked", i))
		decide(t, s, stint.Take{Key: looked, Limit: limit})
		decide(t, s, stint.Take{Key: taken, Limit: forms[0], Cost: 1}, stint.Take{Key: looked, Limit: limit})
		decide(t, s, stint.Take{Key: looked, Limit: limit}, stint.Take{Key: "window", Limit: forms[4], Cost: 1})
	}
	if keys := server.Do("KEYS", "*looked*"); keys != "" {
		t.Errorf("looks wrote %q", keys)
	}
}

// A value that somebody planted, above any capacity, denies takes and no peeks: the answer is what
// was charged.
func TestLooksBeyondEverything(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "beyond")
	year := 366 * 24 * time.Hour
	window := stint.Take{Key: "window", Limit: stint.MustLimit(stint.Spec{Requests: 100, Per: year}), Cost: 60}
	for head, limit := range map[string]*stint.Limit{
		"1b 100 31622400000000 100": stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: year}),
		"1q 100 31622400000000 99":  stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Per: year, Burst: 99}),
	} {
		server.Do("SET", "beyond:"+limit.Algorithm().String()+":far", head+"|9007199254740992")
		far, near := stint.Take{Key: "far", Limit: limit}, stint.Take{Key: "near", Limit: limit, Cost: 60}
		for _, other := range []stint.Take{near, window} { // few.lua, then quick.lua
			if d := decide(t, s, far, other); !d[0].Allowed || !d[1].Allowed {
				t.Errorf("%s: a look denies: %+v", head, d)
			}
			if d := decide(t, s, other)[0]; d.Allowed {
				t.Errorf("%s: what passed beside a look was not charged: %+v", head, d)
			}
		}
		decide(t, s, stint.Take{Key: window.Key, Limit: window.Limit, Op: stint.Reset})
		if d := decide(t, s, far)[0]; !d.Allowed || d.Remaining != 0 { // by one.lua
			t.Errorf("%s: %+v", head, d)
		}
		far.Cost = 1
		if d := decide(t, s, far, near); d[0].Allowed {
			t.Errorf("%s: %+v", head, d)
		}
	}
}
