package app

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// patient is a timeout that even a busy machine keeps.
const patient = 5 * time.Second

// Services on one Redis share counts if they have the same namespace.
func TestServicesShareRedis(t *testing.T) {
	server := testkit.StartRedis(t, "--requirepass", "hunter2")
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(5))
	url := "redis://:hunter2@" + server.Addr + "/1"
	on := func(namespace string) *service {
		return start(t, func(c *settings.Config) {
			c.Rules, c.Store, c.Namespace, c.StoreTimeout = []string{file}, url, namespace, patient
		})
	}
	a, b, other := on("shop"), on("shop"), on("blog")
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}`
	passed := func(services ...*service) (n int) {
		for i := range 10 {
			status, _, body := services[i%len(services)].do(http.MethodPost, "http", "/v1/check", question)
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, body)
			}
			if strings.Contains(body, `"allowed":true`) {
				n++
			}
		}
		return n
	}
	if n := passed(a, b); n != 5 {
		t.Errorf("%d of two services with one namespace passed, want 5", n)
	}
	if n := passed(other); n != 5 {
		t.Errorf("%d of a service of its own passed, want 5", n)
	}
	_, _, ready := a.get("admin", "/readyz")
	if !strings.Contains(ready, fmt.Sprintf(`"store":{"kind":"redis://:xxxxx@%s/1","error":""}`, server.Addr)) {
		t.Errorf("/readyz: %s", ready)
	}
	if status, _, body := a.do(http.MethodPost, "admin", "/v1/reset", question); status != http.StatusOK {
		t.Errorf("reset: %d %s", status, body)
	}
	if n := passed(b); n != 5 {
		t.Errorf("%d passed after a reset by the other service, want 5", n)
	}
}

// A service starts without its Redis, reports that in the log and in /readyz, and uses it once it
// is there; the same when it goes away and comes back.
func TestRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	server.Stop()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(5))
	s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), patient })
	at := 0
	for range 2 {
		// The next call notices a connection that was lost in between, so both lines may appear
		// once more while Redis is there.
		at = s.log.await(t, at, "the store cannot be used", server.Addr, "check that the server runs")
		testkit.Until(t, "/readyz says why", func() bool {
			_, _, ready := s.get("admin", "/readyz")
			return strings.Contains(ready, "refused") || strings.Contains(ready, "connection lost")
		})
		server.Restart()
		at = s.log.await(t, at, "the store is back")
		testkit.Until(t, "Redis decides, and /readyz says so", func() bool {
			_, _, ready := s.get("admin", "/readyz")
			return s.limit("x") == 5 && strings.Contains(ready, `"error":""`)
		})
		server.Stop()
	}
}

// onPolicies starts a service of the rules of policies, with a store.
func onPolicies(t *testing.T, server *testkit.RedisServer) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, policies)
	return start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), patient })
}

// A Redis that answers but cannot count is logged at the start, even without requests: a replica.
func TestRedisThatCannotWrite(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	server.Do("REPLICAOF", "127.0.0.1", "1")
	s := onPolicies(t, server)
	at := s.log.await(t, 0, "the store cannot be used", "READONLY", "hint=\"")
	if s.metric("stint_store_available") != 0 {
		t.Error("a replica is available")
	}
	server.Do("REPLICAOF", "NO", "ONE")
	s.log.await(t, at, "the store is back")
}

// A Redis that ceases to count is logged after one failed call, and one that fails only some calls
// is logged as such.
func TestRedisThatCannotWriteNow(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		problem, told   string
		prepare, repair []string
	}{
		{"OOM", "the store cannot be used", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		{"NOPERM", "the store fails some calls", []string{"ACL", "SETUSER", "default", "resetkeys", "~*probe"}, []string{"ACL", "SETUSER", "default", "~*"}},
	} {
		t.Run(fault.problem, func(t *testing.T) {
			t.Parallel()
			server := testkit.StartRedis(t)
			s := onPolicies(t, server)
			server.Do(fault.prepare...)
			if body := s.check("login"); !strings.Contains(body, `"degraded":true`) {
				t.Errorf("%s: %s", fault.problem, body)
			}
			s.log.await(t, 0, fault.told, fault.problem, "hint=\"")
			testkit.Until(t, "/readyz says so", func() bool {
				s.check("login")
				_, _, ready := s.get("admin", "/readyz")
				return strings.Contains(ready, fault.problem)
			})
			server.Do(fault.repair...)
			testkit.Until(t, "it is not said any more", func() bool {
				_, _, ready := s.get("admin", "/readyz")
				return strings.Contains(ready, `"error":""`) && strings.Contains(s.check("free"), `"degraded":false`)
			})
		})
	}
}

// interrupted is a log that runs a function once, after a line with some words.
type interrupted struct {
	io.Writer
	words string
	run   func()
	once  sync.Once
}

func (i *interrupted) Write(line []byte) (int, error) {
	n, err := i.Writer.Write(line)
	if strings.Contains(string(line), i.words) {
		i.once.Do(i.run)
	}
	return n, err
}

// A call that fails just when the log says that Redis is back is logged too, even if no later call
// fails.
func TestRedisFailsWhenItIsBack(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	server.Do("REPLICAOF", "127.0.0.1", "1")
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, policies)
	var s *service
	s = start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), patient
		c.Output = &interrupted{Writer: c.Output, words: "the store is back", run: func() {
			server.Do("CONFIG", "SET", "maxmemory", "1")
			if body := s.check("login"); !strings.Contains(body, `"degraded":true`) {
				t.Errorf("a full store: %s", body)
			}
		}}
	})
	at := s.log.await(t, 0, "the store cannot be used", "READONLY")
	server.Do("REPLICAOF", "NO", "ONE")
	at = s.log.await(t, at, "the store is back")
	s.log.await(t, at, "the store cannot be used", "OOM")
}

// The log warns of a Redis that evicts keys when it is full.
func TestRedisThatForgets(t *testing.T) {
	server := testkit.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	s := start(t, func(c *settings.Config) { c.Store = server.URL() })
	s.log.await(t, 0, "level=WARN", "the store may forget limits", "allkeys-lru", "noeviction")
}
