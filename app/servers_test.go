package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint"
	"stint/app/settings"
	"stint/internal/testkit"
	"stint/store/storetest"
)

// threeServers starts three Redis servers and returns them, and the URL of all.
func threeServers(t *testing.T) (servers [3]*testkit.RedisServer, url string) {
	t.Helper()
	var hosts []string
	for i := range servers {
		servers[i] = testkit.StartRedis(t)
		hosts = append(hosts, servers[i].Addr)
	}
	return servers, "redis://" + strings.Join(hosts, ",")
}

// TestServersSuite: three servers work as one store.
func TestServersSuite(t *testing.T) {
	testkit.Long(t)
	_, url := threeServers(t)
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			c := settings.Default()
			c.Store, c.Namespace, c.StoreTimeout = url, fmt.Sprint("suite", spaces.Add(1)), patient
			a, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(a.stores.Close)
			return a.stores.Chain()
		},
		Scattered: true, Slow: true,
	})
}

// ask makes one request for users and apps.
func (s *service) ask(t *testing.T, descriptors ...string) string {
	t.Helper()
	var texts []string
	for _, d := range descriptors {
		key, value, _ := strings.Cut(d, "=")
		texts = append(texts, fmt.Sprintf(`{"entries": [{"key": %q, "value": %q}]}`, key, value))
	}
	status, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain": "api", "descriptors": [`+strings.Join(texts, ", ")+`]}`)
	if status != http.StatusOK {
		t.Fatalf("%v: status %d: %s", descriptors, status, body)
	}
	return body
}

// TestServers: services with the same servers, in whatever order, share counts, and the death of a
// server affects only its own keys, which follow their rules' policies.
func TestServers(t *testing.T) {
	t.Parallel()
	servers, url := threeServers(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `domain: api
descriptors:
  - key: user
    rate_limit: {per: 366d, requests: 5, on_store_failure: deny}
  - key: app
    rate_limit: {per: 366d, requests: 5, on_store_failure: allow}
`)
	on := func(url string) *service {
		return start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, url, patient })
	}
	hosts := strings.Split(strings.TrimPrefix(url, "redis://"), ",")
	slices.Reverse(hosts)
	a, b := on(url), on("redis://"+strings.Join(hosts, ","))
	const most = 30
	for i := range most {
		for _, kind := range []string{"user", "app"} {
			who := fmt.Sprintf("%s=%d", kind, i)
			if first, second := a.ask(t, who), b.ask(t, who); !strings.Contains(first, `"remaining":4`) || !strings.Contains(second, `"remaining":3`) {
				t.Fatalf("%s: %s, then %s", who, first, second)
			}
		}
	}
	away, here := map[string][]string{}, map[string][]string{}
	for i := range most {
		for _, kind := range []string{"user", "app"} {
			if who := fmt.Sprintf("%s=%d", kind, i); servers[0].Do("KEYS", fmt.Sprintf("*%s*:%d", kind, i)) != "" {
				away[kind] = append(away[kind], who)
			} else {
				here[kind] = append(here[kind], who)
			}
		}
	}
	if len(away["user"]) == 0 || len(away["app"]) == 0 || len(here["user"]) < 2 || len(here["app"]) < 2 {
		t.Fatalf("keys are not shared out: %v", away)
	}
	servers[0].Stop()
	contains := func(body string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s: no %s", body, part)
			}
		}
	}
	for _, who := range away["user"] {
		contains(a.ask(t, who), `"allowed":false`, `"degraded":true`)
	}
	for _, who := range away["app"] {
		contains(a.ask(t, who), `"allowed":true`, `"degraded":true`)
	}
	user, other := here["user"][0], here["app"][0]
	contains(a.ask(t, user, away["user"][0]), `"allowed":false`)
	contains(a.ask(t, user), `"allowed":true`, `"degraded":false`, `"remaining":2`)
	contains(a.ask(t, other, away["app"][0]), `"allowed":true`, `"degraded":true`)
	contains(a.ask(t, other), `"allowed":true`, `"degraded":false`, `"remaining":1`)
	for _, who := range here["user"][1:] {
		contains(a.ask(t, who), `"allowed":true`, `"degraded":false`, `"remaining":2`)
	}
	at := a.log.await(t, 0, "the store cannot be used", servers[0].Addr)
	_, _, ready := a.get("admin", "/readyz")
	contains(ready, `"kind":"`+url+`"`, `"error":"`+servers[0].Addr+`: `)
	if n := a.metric(`stint_store_failures_total{reason="error"}`); n == 0 {
		t.Error("failures of one server are not counted")
	}
	servers[0].Restart()
	a.log.await(t, at, "the store is back", servers[0].Addr)
	testkit.Until(t, "the server decides", func() bool {
		return strings.Contains(a.ask(t, away["user"][0]), `"degraded":false`)
	})
}

// An invalid list of servers is refused.
func TestServersRefused(t *testing.T) {
	for url, want := range map[string]string{
		"redis://:hunter2@a:1,b:1,a:1": "named twice",
		"redis://:hunter2@a:1,,b:1":    "without a host",
	} {
		c := settings.Default()
		c.Store = url
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
