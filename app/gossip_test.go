package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// A node that does not find the others of its fleet is not ready, and on_store_failure decides for
// its gossip rules, until it finds one. The others of its rules are not affected.
func TestGossipAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `domain: api
descriptors:
  - key: denied
    rate_limit: {requests: 10, per: 1h, algorithm: token_bucket, coordination: gossip, on_store_failure: deny}
  - key: allowed
    rate_limit: {requests: 10, per: 1h, algorithm: token_bucket, coordination: gossip, on_store_failure: allow}
  - key: strict
    rate_limit: {requests: 10, per: 1h}
`)
	at := []string{testkit.Address(t), testkit.Address(t)}
	node := func(i int, alone time.Duration) *service {
		return start(t, func(c *settings.Config) {
			c.Rules = []string{file}
			c.Gossip = settings.Gossip{Addr: at[i], Join: at, Alone: alone}
		})
	}
	remaining := func(s *service, key, want string) {
		t.Helper()
		if answer := s.ask(t, key+"=1"); !strings.Contains(answer, want) {
			t.Errorf("%s: %s, want %s", key, answer, want)
		}
	}
	lone := node(0, time.Millisecond)
	testkit.Until(t, "the node is not ready", func() bool {
		status, _, body := lone.get("admin", "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "found no other node")
	})
	if status, _, _ := lone.get("http", "/healthcheck"); status != http.StatusInternalServerError {
		t.Errorf("/healthcheck: %d", status)
	}
	remaining(lone, "denied", `"allowed":false`)
	remaining(lone, "denied", `"degraded":true`)
	remaining(lone, "allowed", `"allowed":true`)
	remaining(lone, "allowed", `"degraded":true`)
	remaining(lone, "strict", `"remaining":9`)
	if lone.metric("stint_gossip_alone") != 1 {
		t.Error("no metric says that the node is alone")
	}

	other := node(1, 0)
	testkit.Until(t, "the node is ready", func() bool {
		status, _, _ := lone.get("admin", "/readyz")
		return status == http.StatusOK && lone.metric("stint_gossip_alone") == 0
	})
	if status, _, _ := lone.get("http", "/healthcheck"); status != http.StatusOK {
		t.Errorf("/healthcheck: %d", status)
	}
	remaining(other, "allowed", `"remaining":9`)
	testkit.Until(t, "the node counts again", func() bool { return !strings.Contains(lone.ask(t, "allowed=1"), `"degraded":true`) })
}
