package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/chain/denycache"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
	"stint/store/redis"
)

const ladderRules = `
domain: login
descriptors:
  - key: user
    descriptors:
      - key: remote_address
        rate_limit: {requests: 5, per: 1m, align: first, penalty: {after: 3, ladder: [1m, 10m, 1h, 24h], decay: 24h, jitter: 10%}}
`

// penalties returns a limiter by rules on a store.
func penalties(t *testing.T, store stint.Store, rules string) *limiter.Limiter {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "login.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	return limiter.New(store, table, limiter.Options{})
}

// pair makes a try of a user from an address.
func pair(user, address string) *limiter.Request {
	return &limiter.Request{Domain: "login", Descriptors: []limiter.Descriptor{{
		Entries: []rule.Entry{{Key: "user", Value: user}, {Key: "remote_address", Value: address}}, Cost: 1,
	}}}
}

// TestLadder: a client that goes on climbs the ladder, and each answer says until when; one that
// stops is free exactly on time and steps down; nobody else at its address is ever kept away. It is
// the same in every store.
func TestLadder(t *testing.T) {
	server := testkit.StartRedis(t)
	cluster := testkit.StartRedisCluster(t, 3)
	for name, open := range map[string]func() stint.Store{
		"memory":  func() stint.Store { return memory.New(memory.Options{}) },
		"redis":   func() stint.Store { return openRedis(t, server.URL()) },
		"cluster": func() stint.Store { return openRedis(t, cluster.URL()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := &climber{T: t, limiter: penalties(t, open(), ladderRules), now: stint.At(time.Now())}
			level := uint8(0)
			for i, step := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 24 * time.Hour} {
				level = min(level+1, 4)
				wait := c.climb()
				if wait < step || wait > step+step/10 {
					t.Fatalf("step %d lasts %v, want %v and at most a tenth more", i+1, wait, step)
				}
				if got := c.level(); got != level {
					t.Fatalf("level %d, want %d", got, level)
				}
				c.pass(wait - time.Microsecond)
				if v := c.try("ann"); v.Allowed || !v.Penalized || v.RetryAfter != time.Microsecond {
					t.Fatalf("a microsecond before the end of step %d: %+v", i+1, v.Decision)
				}
				if v := c.try("bob"); !v.Allowed {
					t.Fatalf("another account at the same address: %+v", v.Decision)
				}
				c.pass(time.Microsecond)
				if v := c.try("ann"); !v.Allowed {
					t.Fatalf("at the end of step %d: %+v", i+1, v.Decision)
				}
			}
			for ; level > 0; level-- {
				c.pass(24*time.Hour - time.Microsecond)
				if got := c.level(); got != level {
					t.Fatalf("level %d before decay, want %d", got, level)
				}
				c.pass(time.Microsecond)
			}
			if got := c.level(); got != 0 {
				t.Fatalf("level %d in the end", got)
			}
			if wait := c.climb(); wait < time.Minute || wait > 66*time.Second {
				t.Errorf("the ladder begins with a step of %v again", wait)
			}
		})
	}
}

func openRedis(t *testing.T, url string) *redis.Store {
	t.Helper()
	store, err := redis.Open(url, redis.Options{})
	testkit.Must(t, err)
	t.Cleanup(store.Close)
	return store
}

// climber is a client at a time of its own.
type climber struct {
	*testing.T
	limiter *limiter.Limiter
	now     stint.Instant
	v       limiter.Verdict
}

func (c *climber) pass(d time.Duration) { c.now = c.now.Add(d) }

func (c *climber) try(user string) *limiter.Verdict {
	c.Helper()
	req := pair(user, "192.0.2.1")
	req.At = c.now
	testkit.Must(c, c.limiter.Decide(context.Background(), req, &c.v))
	return &c.v
}

// climb tries until a step begins, and returns how long it lasts.
func (c *climber) climb() time.Duration {
	c.Helper()
	denied := 0
	for range 20 {
		v := c.try("ann")
		if !v.Allowed {
			denied++
		}
		if v.Penalized {
			if denied != 4 {
				c.Errorf("%d denied tries started the step, want 4", denied)
			}
			return v.RetryAfter
		}
	}
	c.Fatal("no step begins")
	return 0
}

func (c *climber) level() uint8 {
	c.Helper()
	req := pair("ann", "192.0.2.1")
	req.At, req.Penalties, req.Descriptors[0].Cost = c.now, true, 0
	testkit.Must(c, c.limiter.Decide(context.Background(), req, &c.v))
	d, _ := c.v.Penalty(0)
	return uint8(d.Debt)
}

// calls counts the calls of a store.
type calls struct {
	stint.Store
	n atomic.Int64
}

func (c *calls) Decide(ctx context.Context, call *stint.Call) error {
	c.n.Add(1)
	return c.Store.Decide(ctx, call)
}

const hammered = `
domain: login
descriptors:
  - key: user
    descriptors:
      - key: remote_address
        rate_limit: {requests: 1, per: 1h, align: first, penalty: {after: 50, ladder: [5m, 1h]}}
`

// TestCachedDenialsAreCounted: tries that the cache of denials answers cost no call of the store,
// and count within a second. Then the step is in force, and a reset ends it, also where tries of
// before are still to be counted.
func TestCachedDenialsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &calls{Store: memory.New(memory.Options{})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		nodes := make([]*limiter.Limiter, 2)
		for i := range nodes {
			cache := denycache.New(store, denycache.Options{})
			go cache.Run(ctx)
			nodes[i] = penalties(t, cache, hammered)
		}
		synctest.Wait()
		var v limiter.Verdict
		try := func(node int) *limiter.Verdict {
			t.Helper()
			testkit.Must(t, nodes[node].Decide(ctx, pair("ann", "a"), &v))
			return &v
		}
		if !try(0).Allowed || try(0).Allowed {
			t.Fatal("the limit of 1 does not work")
		}
		try(0)
		before := store.n.Load()
		for range 40 {
			if try(0).Penalized {
				t.Fatal("the step begins too early")
			}
		}
		if n := store.n.Load() - before; n > 0 {
			t.Errorf("40 denials of the cache cost %d calls", n)
		}
		time.Sleep(time.Second)
		look := pair("ann", "a")
		look.Penalties, look.Descriptors[0].Cost = true, 0
		testkit.Must(t, nodes[1].Decide(ctx, look, &v))
		if d, _ := v.Penalty(0); d.Remaining != 9 {
			t.Fatalf("%d tries are left after 42, want 9", d.Remaining)
		}
		for range 20 {
			try(0)
			time.Sleep(100 * time.Millisecond)
		}
		if d, _ := v.Penalty(0); !v.Penalized || d.Allowed || d.RetryAfter > 5*time.Minute || d.RetryAfter < 4*time.Minute || v.RetryAfter < 59*time.Minute {
			t.Fatalf("after 62 denied tries: penalized %v, for %v; the limit itself denies for %v", v.Penalized, d.RetryAfter, v.RetryAfter)
		}
		if !try(1).Penalized {
			t.Error("the other node does not know the step")
		}
		reset := pair("ann", "a")
		reset.Op = stint.Reset
		testkit.Must(t, nodes[0].Decide(ctx, reset, &v))
		if !try(0).Allowed || try(0).Allowed {
			t.Errorf("after the reset: %+v", v.Decision)
		}
		try(0)
		for range 60 {
			try(0) // gathered
		}
		testkit.Must(t, nodes[1].Decide(ctx, reset, &v))
		time.Sleep(2 * time.Second)
		testkit.Must(t, nodes[1].Decide(ctx, look, &v))
		if d, _ := v.Penalty(0); d.Debt != 0 || d.Remaining != 51 {
			t.Errorf("tries of before the reset count after it: level %d, %d left", d.Debt, d.Remaining)
		}
	})
}

// TestStepOfCachedDenials: where one node answers all tries of a client, the try that starts a step says
// so, though the cache of denials answered those before. Otherwise the client would come back when the
// limit has room, and be denied.
func TestStepOfCachedDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := denycache.New(memory.New(memory.Options{}), denycache.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go cache.Run(ctx)
		synctest.Wait()
		l := penalties(t, cache, hammered)
		var v limiter.Verdict
		for try := range 52 { // one is allowed
			testkit.Must(t, l.Decide(ctx, pair("ann", "a"), &v))
			if started := try == 51; v.Penalized != started {
				t.Fatalf("try %d: penalized %v", try, v.Penalized)
			}
		}
		if d, _ := v.Penalty(0); d.RetryAfter != 5*time.Minute {
			t.Errorf("the step lasts %v", d.RetryAfter)
		}
		time.Sleep(2 * time.Second) // the timer of the first denial
	})
}

// TestReportTries: a process that ends counts the tries that wait, in a few calls.
func TestReportTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		cache := denycache.New(store, denycache.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go cache.Run(ctx)
		synctest.Wait()
		l := penalties(t, cache, hammered)
		var v limiter.Verdict
		const keys = 300
		for range 10 {
			for i := range keys {
				testkit.Must(t, l.Decide(ctx, pair(fmt.Sprint("user", i), "a"), &v))
			}
		}
		l.ReportTries()
		for i := range keys {
			look := pair(fmt.Sprint("user", i), "a")
			look.Penalties, look.Descriptors[0].Cost = true, 0
			testkit.Must(t, l.Decide(ctx, look, &v))
			if d, _ := v.Penalty(0); d.Remaining != 51-9 {
				t.Fatalf("user %d: %d tries are left after 9", i, d.Remaining)
			}
		}
		time.Sleep(2 * time.Second) // the timer of the first denial
	})
}
