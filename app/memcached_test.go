package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/internal/testkit"
	"stint/store/storetest"
)

// onMemcached starts a service of rules with a store.
func onMemcached(t *testing.T, rules, url string, timeout time.Duration) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rules)
	return start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, url, timeout })
}

// Services on one memcached share counts, with authentication, and keep its password out of what they
// show.
func TestServicesShareMemcached(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users")
	testkit.Must(t, os.WriteFile(users, []byte("stint:hunter2\n"), 0o600))
	server := testkit.StartMemcached(t, "-Y", users)
	url := "memcached://stint:hunter2@" + server.Addr
	a, b := onMemcached(t, rulesOf(5), url, patient), onMemcached(t, rulesOf(5), url, patient)
	passed := 0
	for i := range 10 {
		if strings.Contains([]*service{a, b}[i%2].checkUser("user", "42"), `"allowed":true`) {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of two services passed, want 5", passed)
	}
	if _, _, ready := a.get("admin", "/readyz"); !strings.Contains(ready, fmt.Sprintf(`"store":{"kind":"memcached://%s","error":""}`, server.Addr)) {
		t.Errorf("/readyz: %s", ready)
	}
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}`
	if status, _, body := a.do(http.MethodPost, "admin", "/v1/reset", question); status != http.StatusOK {
		t.Errorf("reset: %d %s", status, body)
	}
	if body := b.checkUser("user", "42"); !strings.Contains(body, `"remaining":4`) {
		t.Errorf("after a reset by the other service: %s", body)
	}
	if strings.Contains(a.log.String(), "hunter2") {
		t.Error("the log has the password")
	}
}

// TestMemcachedServersSuite: three memcached servers work as one store.
func TestMemcachedServersSuite(t *testing.T) {
	testkit.Long(t)
	var hosts []string
	for range 3 {
		hosts = append(hosts, testkit.StartMemcached(t).Addr)
	}
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			c := settings.Default()
			c.Store, c.Namespace, c.StoreTimeout = "memcached://"+strings.Join(hosts, ","), fmt.Sprint("suite", spaces.Add(1)), patient
			a, err := New(c)
			testkit.Must(t, err)
			t.Cleanup(a.stores.Close)
			return a.stores.Chain()
		},
		Scattered: true, Slow: true, SameNumbers: true, Counters: true,
	})
}

// The death of one of three servers affects only its own keys, which follow their rules' policies.
func TestMemcachedServers(t *testing.T) {
	t.Parallel()
	var servers []*testkit.MemcachedServer
	var hosts []string
	for range 3 {
		servers = append(servers, testkit.StartMemcached(t))
		hosts = append(hosts, servers[len(servers)-1].Addr)
	}
	s := onMemcached(t, policies, "memcached://"+strings.Join(hosts, ","), patient)
	const users = 30
	for i := range users {
		s.checkUser("login", fmt.Sprint(i))
	}
	servers[0].Stop()
	at := s.log.await(t, 0, "the store cannot be used", servers[0].Addr, "hint=")
	away := 0
	for i := range users {
		switch body := s.checkUser("login", fmt.Sprint(i)); {
		case strings.Contains(body, `"degraded":true`):
			if away++; !strings.Contains(body, `"allowed":false`) {
				t.Errorf("its server is away: %s", body)
			}
		case !strings.Contains(body, `"remaining":3`):
			t.Errorf("its server is there: %s", body)
		}
	}
	if away == 0 || away == users {
		t.Errorf("%d of %d keys lie on the server that is away", away, users)
	}
	servers[0].Restart()
	s.log.await(t, at, "the store is back", servers[0].Addr)
}

// While memcached is frozen or slow each rule follows its policy, and the log, /readyz and the metrics
// show it. It decides again by itself.
func TestMemcachedFrozenAndSlow(t *testing.T) {
	t.Parallel()
	server := testkit.StartMemcached(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{})
	s := onMemcached(t, policies, "memcached://"+proxy.Addr(), 250*time.Millisecond)
	at := 0
	for name, fault := range map[string]struct{ begin, end func() }{
		"frozen": {server.Freeze, server.Thaw},
		"slow": {
			func() { proxy.Set(testkit.ProxyOptions{Delay: time.Second}) },
			func() { proxy.Set(testkit.ProxyOptions{}) },
		},
		"cut off": {proxy.Stall, proxy.Resume},
	} {
		s.decided("free")
		fault.begin()
		for _, step := range []struct{ key, allowed string }{{"free", "true"}, {"login", "false"}, {"part", "true"}, {"login", "false"}} {
			body := s.checkUser(step.key, name)
			if !strings.Contains(body, `"degraded":true`) || !strings.Contains(body, `"allowed":`+step.allowed) {
				t.Errorf("%s, %s: %s", name, step.key, body)
			}
		}
		at = s.log.await(t, at, "level=ERROR", "the store cannot be used; each rule follows its on_store_failure", "hint=")
		if _, _, ready := s.get("admin", "/readyz"); strings.Contains(ready, `"error":""`) {
			t.Errorf("%s: /readyz: %s", name, ready)
		}
		if s.metric("stint_store_available") != 0 {
			t.Errorf("%s: available by the metric", name)
		}
		fault.end()
		at = s.log.await(t, at, "the store is back")
		s.decided("login")
	}
}

// Frozen under load, memcached costs nobody more than a frozen Redis does.
func TestMemcachedFrozenUnderLoad(t *testing.T) { frozenUnderLoad(t, testkit.StartMemcached(t)) }

// Restarts of memcached, one after another, never leave a service without it.
func TestMemcachedRestarts(t *testing.T) {
	t.Parallel()
	server := testkit.StartMemcached(t)
	s := outage(t, server.URL(), 250*time.Millisecond)
	l := drive(s, 4, 5*time.Millisecond, "free", "part")
	for range 20 {
		server.Restart()
		if back := s.normal("free", "part"); back > slack*5*time.Second {
			t.Errorf("back after %v", back)
		}
	}
	l.end()
}

// A memcached that does not accept the password fails calls: rules follow their policies, and the log
// says what to do.
func TestMemcachedRejects(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users")
	testkit.Must(t, os.WriteFile(users, []byte("stint:right\n"), 0o600))
	secured := testkit.StartMemcached(t, "-Y", users)
	for url, hint := range map[string]string{
		"memcached://stint:wrong@" + secured.Addr: "the password of the URL",
		"memcached://" + secured.Addr:             "write a user and a password",
	} {
		s := onMemcached(t, policies, url, patient)
		for i, want := range map[string]string{"free": "true", "login": "false"} {
			testkit.Until(t, url+": "+i+" follows its policy", func() bool {
				body := s.check(i)
				return strings.Contains(body, `"degraded":true`) && strings.Contains(body, `"allowed":`+want)
			})
		}
		s.log.await(t, 0, "level=ERROR", hint)
		if strings.Contains(s.log.String(), "wrong@") {
			t.Error("the log has the password")
		}
	}
}

// Killed under load and started again empty, memcached costs no answer: what it loses is logged and
// counted, and limits begin unused.
func TestMemcachedKilledAndEmpty(t *testing.T) {
	t.Parallel()
	s := killedAndEmpty(t, testkit.StartMemcached(t))
	s.log.await(t, 0, "level=WARN", "the store may have lost counts", "docs/memcached.md")
	if s.metric("stint_store_lost_total") == 0 {
		t.Error("no metric counts the loss")
	}
}

// A restart between two decisions, which no call has seen, is found all the same; so is a flush.
func TestMemcachedForgets(t *testing.T) {
	t.Parallel()
	server := testkit.StartMemcached(t)
	s := onMemcached(t, policies, server.URL(), patient)
	s.decided("free")
	began := time.Now()
	testkit.Until(t, "the service has seen the server", func() bool { return s.stores.Problem() == "" && time.Since(began) > 1100*time.Millisecond })
	server.Restart()
	at := s.log.await(t, 0, "level=WARN", "the store may have lost counts")
	server.Do("flush_all")
	s.log.await(t, at, "level=WARN", "the store may have lost counts")
}

// A memcached without -M is warned of at the start. When it evicts keys, each rule follows its policy
// within five seconds, and decides again when it evicts no more.
func TestMemcachedEvicts(t *testing.T) {
	t.Parallel()
	server := testkit.StartEvictingMemcached(t, "-m", "2")
	s := onMemcached(t, policies, server.URL(), patient)
	s.log.await(t, 0, "level=WARN", "the store may forget limits", server.Addr, "-M")
	s.decided("login")
	began := time.Now()
	testkit.Until(t, "the service has seen the server", func() bool { return time.Since(began) > 1100*time.Millisecond })
	for i := range 6000 { // of another program that uses the same memcached
		server.Do(fmt.Sprintf("set other%d 0 0 1000\r\n%s", i, strings.Repeat("x", 1000)))
	}
	began = time.Now()
	testkit.Until(t, "the rule follows its policy", func() bool { return strings.Contains(s.checkUser("login", "x"), `"degraded":true`) })
	if took := time.Since(began); took > slack*5*time.Second {
		t.Errorf("after %v", took)
	}
	at := s.log.await(t, 0, "level=ERROR", "the store cannot be used", "evicts keys", "-M")
	if s.metric("stint_store_server_evictions_total") == 0 {
		t.Error("no metric counts evictions")
	}
	s.log.await(t, at, "the store is back")
	s.decided("login")
}

// Rules that memcached cannot decide are refused at the start, and by a reload.
func TestMemcachedRefuses(t *testing.T) {
	t.Parallel()
	s := onMemcached(t, policies, testkit.StartMemcached(t).URL(), patient)
	for words, why := range map[string]string{
		"requests: 5, coordination: leased":        "lends no units",
		"requests: 5, coordination: eventual":      "changes one key at a time",
		"requests: 150000, algorithm: sliding_log": "have room for 140000",
		"requests: 5, usage: 13":                   "cannot write a history",
		"requests: 5, notify: 80%":                 "cannot write a history",
	} {
		refused := strings.Replace(policies, "requests: 5", words, 1)
		file := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, file, refused)
		c := settings.Default()
		c.Rules, c.Store = []string{file}, "memcached://127.0.0.1"
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s, at the start: %v", words, err)
		}
		write(t, s.config.Rules[0], refused)
		if err := s.Reload("test"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s, by a reload: %v", words, err)
		}
	}
	if body := s.check("login"); !strings.Contains(body, `"remaining":4`) {
		t.Errorf("the old rules: %s", body)
	}
	for words, why := range map[string]string{
		"coordination: leased": "lends no units", "unit: month, time_zone: UTC, anchor: subscription, usage: 13": "cannot write a history",
	} {
		if !strings.Contains(words, "unit") {
			words += ", per: 1h"
		}
		c := settings.Default()
		c.Rules, c.Store = []string{filepath.Join(t.TempDir(), "plans.yaml")}, "memcached://127.0.0.1"
		write(t, c.Rules[0], `
domain: api
plans: {free: {calls: {requests: 5, per: 1h}}, pro: {calls: {requests: 50, `+words+`}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: calls}}]
`)
		if _, err := New(c); err == nil || strings.Count(err.Error(), why) != 1 {
			t.Errorf("a plan with %s: %v", words, err)
		}
	}
}
