package app

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/app/settings"
	"stint/app/stores"
	"stint/internal/testkit"
)

// onServers starts a service on a store, with a rule for users that allows them while the store is
// away, and a rule for apps that denies them.
func onServers(t *testing.T, url string, timeout time.Duration) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `domain: api
descriptors:
  - key: user
    rate_limit: {per: 366d, requests: 1000000}
  - key: app
    rate_limit: {per: 366d, requests: 1000000, on_store_failure: deny}
`)
	return start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, url, timeout })
}

// onServer returns which of many users, or apps, lie on a server, and which on others. The store
// must decide all of them.
func (s *service) onServer(t *testing.T, server *testkit.RedisServer, kind string) (there, elsewhere []string) {
	t.Helper()
	for i := range 40 {
		who := fmt.Sprintf("%s=%d", kind, i)
		testkit.Until(t, who+" is decided by the store", func() bool { return strings.Contains(s.ask(t, who), `"degraded":false`) })
		if server.Do("KEYS", fmt.Sprintf("*%s*:%d", kind, i)) != "" {
			there = append(there, who)
		} else {
			elsewhere = append(elsewhere, who)
		}
	}
	if len(there) < 3 || len(elsewhere) < 3 {
		t.Fatalf("keys are not shared out: %v, %v", there, elsewhere)
	}
	return there, elsewhere
}

// tally counts the answers for some keys in a storm.
type tally struct {
	sync.Mutex
	all, degraded, slow int
}

// waiting makes requests for keys of a server that is away until none waits for it any more, and
// returns how many answers took half the timeout of the store.
func (s *service) waiting(t *testing.T, timeout time.Duration, whom []string) (waited int) {
	t.Helper()
	for n, quick := 0, 0; n < 200 && quick < 20; n++ {
		began := time.Now()
		s.ask(t, whom[n%len(whom)])
		if quick++; time.Since(began) >= timeout/2 {
			waited, quick = waited+1, 0
		}
	}
	return waited
}

// storm lets callers use one key after another for some time. An answer counts as slow if it takes
// half the timeout of the store.
func (s *service) storm(t *testing.T, d, timeout time.Duration, whom ...[]string) []*tally {
	counts := make([]*tally, len(whom))
	var callers sync.WaitGroup
	for i, who := range whom {
		counts[i] = new(tally)
		for c := range 2 {
			callers.Go(func() {
				for n, end := c, time.Now().Add(d); time.Now().Before(end); n++ {
					began := time.Now()
					degraded := strings.Contains(s.ask(t, who[n%len(who)]), `"degraded":true`)
					took := time.Since(began)
					counts[i].Lock()
					counts[i].all++
					if degraded {
						counts[i].degraded++
					}
					if took >= timeout/2 {
						counts[i].slow++
					}
					counts[i].Unlock()
				}
			})
		}
	}
	callers.Wait()
	return counts
}

// TestFrozenServer: a server that freezes, of a Cluster or of a list, affects only its own keys:
// they follow their policies, without waiting once its breaker is open, and the store decides all
// others. Health and metrics name the server.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond // for a busy machine
	for _, test := range []struct {
		name  string
		start func(t *testing.T) (server *testkit.RedisServer, url string)
	}{
		{"list", func(t *testing.T) (*testkit.RedisServer, string) {
			a, b := testkit.StartRedis(t), testkit.StartRedis(t)
			return a, "redis://" + a.Addr + "," + b.Addr
		}},
		{"cluster", func(t *testing.T) (*testkit.RedisServer, string) {
			cluster := steadyCluster(t)
			return cluster.Nodes[1], cluster.URL()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server, url := test.start(t)
			s := onServers(t, url, timeout)
			testkit.Until(t, "the servers have metrics of their own", func() bool {
				return s.metric(fmt.Sprintf(`stint_store_server_available{server=%q}`, server.Addr)) == 1
			})
			there, elsewhere := s.onServer(t, server, "user")
			apps, _ := s.onServer(t, server, "app")
			server.Freeze()
			thaw := sync.OnceFunc(server.Thaw)
			t.Cleanup(thaw)
			// The guarantee is three calls that open the breaker, one more each half a second, and
			// no degraded answer for others.
			if waited := s.waiting(t, timeout, there); waited > 5*3 {
				t.Errorf("%d calls waited", waited)
			}
			const d = 3 * time.Second
			counts := s.storm(t, d, timeout, there, elsewhere)
			for i, name := range []string{"its keys", "others"} {
				c := counts[i]
				t.Logf("%s: %d answers in %v, %d degraded, %d slow", name, c.all, d, c.degraded, c.slow)
			}
			if c := counts[0]; c.degraded != c.all || c.slow > c.all/10 {
				t.Errorf("of its keys %d answers of %d are degraded, and %d slow", c.degraded, c.all, c.slow)
			}
			if c := counts[1]; c.degraded > 5 || c.slow > c.all/10 {
				t.Errorf("of other keys %d answers of %d are degraded, and %d slow", c.degraded, c.all, c.slow)
			}
			s.spans(t, there[0], elsewhere[0], apps[0])
			s.names(t, server.Addr)
			at := s.log.await(t, 0, "cannot be used", server.Addr)
			thaw()
			s.log.await(t, at, "is back", server.Addr)
			testkit.Until(t, "the server decides", func() bool { return strings.Contains(s.ask(t, there[0]), `"degraded":false`) })
			if n := s.metric(fmt.Sprintf(`stint_store_server_available{server=%q}`, server.Addr)); n != 1 {
				t.Error("the server is back, and its metric says that it is not")
			}
		})
	}
}

// spans checks calls with a key on a frozen server and one on another.
func (s *service) spans(t *testing.T, there, elsewhere, denied string) {
	t.Helper()
	results := func(body string) []string {
		_, list, _ := strings.Cut(body, `"results":[`)
		return strings.SplitAfter(list, "}")
	}
	both := results(s.ask(t, there, elsewhere))
	if !strings.Contains(both[0], `"degraded":true`) || !strings.Contains(both[1], `"degraded":false`) {
		t.Errorf("a call of both: %q", both)
	}
	before := s.ask(t, elsewhere)
	if body := s.ask(t, denied, elsewhere); !strings.Contains(body, `"allowed":false`) {
		t.Errorf("a policy does not deny: %s", body)
	}
	if after := s.ask(t, elsewhere); remaining(after) != remaining(before)-1 {
		t.Errorf("a denied call was charged: %s, then %s", before, after)
	}
}

// remaining returns the remaining units in an answer.
func remaining(body string) (n int) {
	_, text, _ := strings.Cut(body, `"remaining":`)
	_, _ = fmt.Sscan(text, &n)
	return n
}

// names checks that health and metrics name this one server as away.
func (s *service) names(t *testing.T, address string) {
	t.Helper()
	testkit.Until(t, "health names the server", func() bool {
		_, _, ready := s.get("admin", "/readyz")
		return strings.Contains(ready, `"error":"`+address+": ")
	})
	_, _, text := s.get("admin", "/metrics")
	var away []string
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(name, "stint_store_server_available{") && value == "0" {
			away = append(away, name)
		}
	}
	if !slices.Equal(away, []string{`stint_store_server_available{server="` + address + `"`}) || s.metric("stint_store_available") != 0 {
		t.Errorf("metrics say that these are away: %q", away)
	}
}

// TestFrozenPrimaryReplaced: when a replica has replaced a frozen primary the whole store works
// again, though the frozen one does not come back.
func TestFrozenPrimaryReplaced(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartRedisCluster(t, 3)
	s := onServers(t, cluster.URL(), 200*time.Millisecond)
	frozen := cluster.Nodes[1]
	there, elsewhere := s.onServer(t, frozen, "user")
	frozen.Freeze()
	t.Cleanup(frozen.Thaw)
	testkit.Until(t, "its keys have no server", func() bool { return strings.Contains(s.ask(t, there[0]), `"degraded":true`) })
	testkit.Until(t, "its keys have another one", func() bool { return strings.Contains(s.ask(t, there[0]), `"degraded":false`) })
	testkit.Until(t, "all is well", func() bool {
		_, _, ready := s.get("admin", "/readyz")
		return strings.Contains(ready, `"error":""`) && s.metric("stint_store_available") == 1
	})
	for _, who := range append(there, elsewhere...) { // their connections are new
		testkit.Until(t, who+" is decided", func() bool { return strings.Contains(s.ask(t, who), `"degraded":false`) })
	}
	testkit.Until(t, "the frozen server is not named any more", func() bool {
		return s.metric(fmt.Sprintf(`stint_store_server_available{server=%q}`, frozen.Addr)) == 0
	})
}

// TestReplicaKilled: the death of a Cluster's replica is no outage: there is no error in the log,
// health and metrics do not change, and no answer is degraded.
func TestReplicaKilled(t *testing.T) {
	t.Parallel()
	cluster := steadyCluster(t)
	s := onServers(t, cluster.URL(), patient)
	s.ask(t, "user=1")
	for _, replica := range cluster.Nodes[3:5] {
		replica.Stop()
	}
	end := time.After(stores.LookEvery/2 + halved(2*stores.LookEvery))
	tick := time.NewTicker(stores.LookEvery / 10)
	defer tick.Stop()
	for n := 0; ; n++ {
		if body := s.ask(t, fmt.Sprintf("user=%d", n)); strings.Contains(body, `"degraded":true`) {
			t.Fatal(body)
		}
		status, _, ready := s.get("admin", "/readyz")
		if status != http.StatusOK || !strings.Contains(ready, `"error":""`) || s.metric("stint_store_available") != 1 {
			t.Fatalf("%d: %s", status, ready)
		}
		select {
		case <-tick.C:
			continue
		case <-end:
		}
		break
	}
	if text, _ := s.log.Follow(); strings.Contains(text, "level=ERROR") {
		t.Error(text)
	}
}

// TestStoreEmptied: within a second the service notices that a server was emptied without a lost
// connection: it logs and counts that, and compares the namespace secret again.
func TestStoreEmptied(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	s := onServers(t, server.URL(), patient)
	s.ask(t, "user=1")
	testkit.Until(t, "the server has an epoch", func() bool { return server.Do("GET", "stint:epoch") != "" })
	first := server.Do("GET", "stint:epoch")
	for n := 1; n <= 2; n++ {
		began := time.Now()
		server.Do("FLUSHALL")
		testkit.Until(t, "it is noticed", func() bool { return s.metric("stint_store_lost_total") == float64(n) })
		if took := time.Since(began); took > 5*stores.LookEvery {
			t.Errorf("noticed after %v", took)
		}
	}
	s.log.await(t, 0, "the store may have lost counts")
	if now := server.Do("GET", "stint:epoch"); now == first || !strings.Contains(now, " 1 ") {
		t.Errorf("the epoch was %s and is %s", first, now)
	}
	if strings.Contains(s.ask(t, "user=1"), `"degraded":true`) {
		t.Error("the store that was emptied does not decide")
	}
}

// TestWrongSecretAfterFlush: a node whose namespace secret differs from the one in an emptied
// server ends, though it lost no connection.
func TestWrongSecretAfterFlush(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	s := onServers(t, server.URL(), patient)
	testkit.Until(t, "the server has an epoch", func() bool { return server.Do("GET", "stint:epoch") != "" })
	server.Do("FLUSHALL")
	server.Do("SET", "stint:secret", "of another node")
	select {
	case err := <-s.failed:
		if err == nil || !strings.Contains(err.Error(), "namespace secret") {
			t.Error(err)
		}
	case <-time.After(testTimeout):
		t.Error("the node goes on")
	}
}

// TestFreedInAllModes: after a key is deleted by hand, or a server is emptied, the key is free
// within a second, whatever the mode of the rule, while callers use the denied key on two nodes all
// the time.
func TestFreedInAllModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strict", "leased, after_loss: kept", "eventual"} {
		name, _, _ := strings.Cut(mode, ",")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			freed(t, name, mode)
		})
	}
}

// freed uses up a key under a coordination, deletes it by hand, and measures the time until it
// passes again.
func freed(t *testing.T, name, mode string) {
	server := testkit.StartRedis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit: {per: 1h, requests: 20, coordination: %s}
`, mode))
	var nodes [2]*service
	for i := range nodes {
		nodes[i] = start(t, func(c *settings.Config) {
			c.Rules, c.Store, c.StoreTimeout, c.Namespace = []string{file}, server.URL(), patient, name
		})
	}
	var passed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if strings.Contains(nodes[i%2].ask(t, "user=1"), `"allowed":true`) {
					passed.Add(1)
				}
			}
		})
	}
	for _, by := range []string{"DEL", "FLUSHALL"} {
		last := int64(-1)
		testkit.Until(t, "the key is used up", func() bool {
			<-time.After(stores.LookEvery) // nothing passes in this time
			before := last
			last = passed.Load()
			return last == before
		})
		words := []string{by}
		if by == "DEL" {
			words = append(words, strings.Fields(server.Do("KEYS", name+":*user*"))...)
		}
		server.Do(words...)
		began := time.Now()
		testkit.Until(t, "the key is free", func() bool { return passed.Load() > last })
		took := time.Since(began)
		t.Logf("%s, %s: free after %v", name, by, took)
		if took > 5*time.Second {
			t.Errorf("%s, %s: free after %v", name, by, took)
		}
	}
	cancel()
	callers.Wait()
}
