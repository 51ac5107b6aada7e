package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/redistest"
)

// patient is a deadline that a busy machine keeps too.
const patient = 5 * time.Second

// Services on one Redis count as one where their namespace is the same.
func TestServicesShareRedis(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2")
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(5))
	url := "redis://:hunter2@" + server.Addr + "/1"
	on := func(namespace string) *service {
		return start(t, func(c *Config) {
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

// A service starts without its Redis, says so in the log and in /readyz, and uses it once
// it is there; so it does when that is gone and back.
func TestRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(5))
	s := start(t, func(c *Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), patient })
	at := 0
	for range 2 {
		at = s.log.await(t, at, "the store cannot be used", server.Addr, "check that the server runs")
		if _, _, ready := s.get("admin", "/readyz"); !strings.Contains(ready, "refused") && !strings.Contains(ready, "connection lost") {
			t.Errorf("/readyz without Redis: %s", ready)
		}
		server.Restart()
		at = s.log.await(t, at, "the store is back")
		// A connection that was lost in between is found out by who uses it first.
		for began := time.Now(); s.limit("x") != 5; {
			if time.Since(began) > patient {
				t.Fatal("not decided")
			}
		}
		if _, _, ready := s.get("admin", "/readyz"); !strings.Contains(ready, `"error":""`) {
			t.Errorf("/readyz with Redis: %s", ready)
		}
		server.Stop()
	}
}

// A Redis that answers but cannot count is told of though nobody asks for a limit: a replica,
// one whose memory is full.
func TestRedisThatCannotWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := start(t, func(c *Config) { c.Store, c.StoreTimeout = server.URL(), patient })
	at := 0
	for _, fault := range []struct {
		problem         string
		prepare, repair []string
	}{
		{"READONLY", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		{"OOM", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
	} {
		server.Do(fault.prepare...)
		at = s.log.await(t, at, "the store cannot be used", fault.problem, "hint=\"")
		if _, _, ready := s.get("admin", "/readyz"); !strings.Contains(ready, fault.problem) {
			t.Errorf("/readyz: %s, want %s", ready, fault.problem)
		}
		if s.metric("stint_store_available") != 0 {
			t.Errorf("%s: available", fault.problem)
		}
		server.Do(fault.repair...)
		at = s.log.await(t, at, "the store is back")
	}
}

// A Redis that forgets keys when it is full is warned of.
func TestRedisThatForgets(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	s := start(t, func(c *Config) { c.Store = server.URL() })
	s.log.await(t, 0, "level=WARN", "the store may forget limits", "allkeys-lru", "noeviction")
}
