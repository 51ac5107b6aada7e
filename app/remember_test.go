package app

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/chain/denycache"
	"stint/internal/testkit"
	"stint/store/redis"
	"stint/store/storetest"
)

// spaces counts the namespaces of tests.
var spaces atomic.Int64

// startCache returns a deny cache around the Redis at a URL, which receives notices until the test
// ends. clock is its clock; nil: the real one. Each notice that arrives sends a signal to arrived, if
// somebody waits for it.
func startCache(t testing.TB, url, namespace string, clock func() time.Time, arrived chan<- struct{}) *denycache.Store {
	t.Helper()
	shared, err := redis.Open(url, redis.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	notices := signalled{shared, arrived}
	s := denycache.New(shared, denycache.Options{Notices: notices, Divided: shared.Divided(), Clock: clock})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		shared.Close()
	})
	testkit.Until(t, "notices arrive", func() bool { return s.Stats().Up })
	return s
}

// signalled are the Notices of a store, with a signal to arrived for each one.
type signalled struct {
	denycache.Notices
	arrived chan<- struct{}
}

func (h signalled) Listen(ctx context.Context, channels []string, onMessage func(channel, message string)) error {
	return h.Notices.Listen(ctx, channels, func(channel, message string) {
		onMessage(channel, message)
		select {
		case h.arrived <- struct{}{}:
		default:
		}
	})
}

// A cache of denials around a real Redis works like that Redis.
func TestRefusalsSuite(t *testing.T) {
	testkit.Long(t)
	server := testkit.StartRedis(t)
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			shared, err := redis.Open(server.URL(), redis.Options{Namespace: fmt.Sprint("suite", spaces.Add(1))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(shared.Close)
			return denycache.New(shared, denycache.Options{}) // there is no other process
		},
		Backwards: true, Slow: true,
	})
}

// scripts returns how many scripts the server ran. EVAL does not count: it loads a script that
// EVALSHA did not find, or probes a connection.
func scripts(server *testkit.RedisServer) (n int64) {
	for line := range strings.Lines(server.Do("INFO", "commandstats")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":calls=")
		if name != "cmdstat_evalsha" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if count, err := strconv.ParseInt(calls, 10, 64); err == nil {
			n += count
		}
	}
	return n
}

// A denied key that 64 callers use costs Redis nothing until its retry time, and then at most one
// denial, besides what passes. Only the test moves the node's clock, so its cached answers are not
// too old however slow the machine is.
func TestHotDeniedKey(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	s := startCache(t, server.URL(), "hot", func() time.Time { return time.Unix(0, now.Load()) }, nil)
	const requests = 5
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: requests, Per: 2 * time.Second, FromFirst: true})
	ask := func() stint.Decision {
		call := stint.Call{Takes: []stint.Take{{Key: "hot", Limit: limit, Cost: 1}}}
		if err := s.Decide(t.Context(), &call); err != nil {
			t.Error(err)
			return stint.Decision{}
		}
		return call.Results[0]
	}
	storm := func() (passed, asked int64) {
		before := scripts(server)
		var all atomic.Int64
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for range 500 {
					if ask().Allowed {
						all.Add(1)
					}
				}
			})
		}
		callers.Wait()
		return all.Load(), scripts(server) - before
	}
	last := ask()
	for last.Allowed {
		last = ask()
	}
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		if passed, asked := storm(); passed != 0 || asked != 0 {
			t.Errorf("%d passed and Redis was asked %d times before the retry time", passed, asked)
		}
		<-time.After(last.RetryAfter) // the window is over by the server's clock then; the node's clock follows
		now.Add(int64(last.RetryAfter))
		testkit.Until(t, "a beat of that time is back", func() bool { return s.Stats().Up })
		passed, asked := storm()
		if passed == 0 || asked > passed+1 {
			t.Errorf("after the retry time %d passed and Redis was asked %d times", passed, asked)
		}
		if last = ask(); last.Allowed {
			t.Fatalf("%+v", last)
		}
	}
	if n := s.Stats(); n.Answered < uint64(rounds)*2*64*500-1000 {
		t.Errorf("%+v", n)
	}
}

// A key that is denied all the time costs Redis about one call a second, by its own count; and
// after somebody deletes the key by hand, or empties the server, it is free within a second.
func TestEmptiedByHand(t *testing.T) {
	t.Parallel()
	for _, by := range [][]string{{"DEL", "hand:sliding_log:hot"}, {"FLUSHALL"}} {
		t.Run(by[0], func(t *testing.T) {
			t.Parallel()
			emptiedByHand(t, by)
		})
	}
}

// emptiedByHand is TestEmptiedByHand with one command. It has a server and a node of its own, so that
// no notice of another test drops the denial while it counts calls. Only this test moves the node's
// clock. After each step it waits for a beat of the new time, so it also passes on a slow machine.
func emptiedByHand(t *testing.T, by []string) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 3, Per: time.Hour})
	server := testkit.StartRedis(t)
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	arrived := make(chan struct{})
	s := startCache(t, server.URL(), "hand", func() time.Time { return time.Unix(0, now.Load()) }, arrived)
	const step = 300 * time.Millisecond
	pass := func() {
		now.Add(int64(step))
		<-arrived // it may have been sent before the step
		<-arrived
	}
	ask := func() bool {
		call := stint.Call{Takes: []stint.Take{{Key: "hot", Limit: limit, Cost: 3}}}
		testkit.Must(t, s.Decide(t.Context(), &call))
		return call.Results[0].Allowed
	}
	if !ask() {
		t.Fatal("denied at first")
	}
	ask() // it is denied, and cached
	ctx, cancel := context.WithCancel(t.Context())
	before, answered := scripts(server), s.Stats().Answered
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for ctx.Err() == nil && passed.Load() == 0 {
				if ask() {
					passed.Add(1)
				}
			}
		})
	}
	const watched = 5
	for range watched {
		pass()
	}
	asked, free := scripts(server)-before, passed.Load()
	server.Do(by...)
	took := time.Duration(0)
	for passed.Load() == 0 && took < 5*denycache.DefaultMaxAge {
		pass()
		took += step
	}
	cancel()
	callers.Wait()
	t.Logf("%d calls of %d went to Redis in %v; free after %v", asked, s.Stats().Answered-answered, watched*step, took)
	if free != 0 || asked == 0 || asked > watched*int64(step)/int64(denycache.DefaultMaxAge)+1 {
		t.Errorf("%d passed and Redis was asked %d times in %v", free, asked, watched*step)
	}
	if took > denycache.DefaultMaxAge {
		t.Errorf("free after %v", took)
	}
}

// After one node gives units back another one calls Redis for that key within a second; the test
// waits longer, for a busy machine. On a Cluster notices pass between its servers.
func TestRefusalsForgotten(t *testing.T) {
	t.Parallel()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 3, Per: time.Hour})
	take := func(op stint.Op, cost uint32) stint.Take {
		return stint.Take{Key: "key", Limit: limit, Op: op, Cost: cost}
	}
	decide := func(t *testing.T, s *denycache.Store, take stint.Take) stint.Decision {
		t.Helper()
		call := stint.Call{Takes: []stint.Take{take}}
		testkit.Must(t, s.Decide(t.Context(), &call))
		return call.Results[0]
	}
	check := func(t *testing.T, url string) {
		a, b := startCache(t, url, "forget", nil, nil), startCache(t, url, "forget", nil, nil)
		for name, change := range map[string]stint.Take{"reset": take(stint.Reset, 0), "refund": take(stint.Refund, 3)} {
			if d := decide(t, b, take(stint.Ask, 3)); !d.Allowed {
				t.Fatalf("%s: %+v", name, d)
			}
			testkit.Until(t, "the refusal is remembered", func() bool {
				before := b.Stats().Answered
				return !decide(t, b, take(stint.Ask, 1)).Allowed && b.Stats().Answered > before
			})
			began := time.Now()
			decide(t, a, change)
			testkit.Until(t, "the refusal is forgotten", func() bool { return decide(t, b, take(stint.Ask, 3)).Allowed })
			t.Logf("%s: after %v", name, time.Since(began))
			decide(t, a, take(stint.Reset, 0))
		}
	}
	t.Run("one server", func(t *testing.T) { check(t, testkit.StartRedis(t).URL()) })
	t.Run("cluster", func(t *testing.T) { check(t, steadyCluster(t).URL()) })
}

// Services cache denials until another one resets a key or has other rules, or the channel between
// them is lost; unless the setting is off.
func TestServicesRemember(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	dir := t.TempDir()
	on := func(name string, remember bool) *service {
		file := filepath.Join(dir, name)
		write(t, file, rulesOf(2))
		return start(t, func(c *settings.Config) {
			c.Rules, c.Store, c.StoreTimeout, c.RememberRefusals = []string{file}, server.URL(), patient, remember
		})
	}
	a, b, off := on("a.yaml", true), on("b.yaml", true), on("off.yaml", false)
	b.log.await(t, 0, "refusals are remembered")
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}`
	ask := func(s *service) bool {
		t.Helper()
		_, _, body := s.do(http.MethodPost, "http", "/v1/check", question)
		return strings.Contains(body, `"allowed":true`)
	}
	remembered := func() {
		t.Helper()
		testkit.Until(t, "the refusal is remembered", func() bool {
			before := b.metric("stint_refusals_answered_total")
			return !ask(b) && b.metric("stint_refusals_answered_total") > before
		})
	}
	ask(a)
	ask(a)
	remembered()
	for range 3 {
		if ask(off) {
			t.Error("passed where nothing is remembered")
		}
	}
	if _, _, text := off.get("admin", "/metrics"); strings.Contains(text, "stint_refusals") {
		t.Error("what is off has metrics")
	}

	if status, _, body := a.do(http.MethodPost, "admin", "/v1/reset", question); status != http.StatusOK {
		t.Fatal(status, body)
	}
	testkit.Until(t, "the reset is known", func() bool { return ask(b) })
	ask(b)
	remembered()

	write(t, filepath.Join(dir, "a.yaml"), rulesOf(3))
	testkit.Must(t, a.Reload("test"))
	testkit.Until(t, "the refusal is forgotten", func() bool { return b.metric("stint_refusals_keys") == 0 })
	remembered()

	at, lost := b.log.size(), b.metric("stint_refusals_channel_lost_total")
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	at = b.log.await(t, at, "level=WARN", "refusals are not remembered")
	b.log.await(t, at, "refusals are remembered")
	if b.metric("stint_refusals_channel_lost_total") <= lost {
		t.Error("the loss was not counted")
	}
	remembered()
}

// A denial is cached for no longer than remember-refusals-for.
func TestRememberRefusalsFor(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(1))
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout, c.RememberRefusalsFor = []string{file}, server.URL(), patient, time.Millisecond
	})
	s.log.await(t, 0, "refusals are remembered")
	s.ask(t, "user=1")
	for range 20 {
		if strings.Contains(s.ask(t, "user=1"), `"allowed":true`) {
			t.Fatal("passed, of what is used up")
		}
		<-time.After(2 * time.Millisecond) // by then it is too old
	}
	if n := s.metric("stint_refusals_answered_total"); n != 0 {
		t.Errorf("%v refusals were older than a millisecond", n)
	}
	server.Do("FLUSHALL")
	if strings.Contains(s.ask(t, "user=1"), `"allowed":false`) {
		t.Error("denied by what was remembered")
	}
}
