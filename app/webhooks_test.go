package app

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/notify"
)

// shopReceiver returns a receiver of a server that sends each webhook's ID to arrived.
func shopReceiver(t *testing.T, arrived chan<- string) notify.Receiver {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("webhook-id")
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("whsec_"+strings.Repeat("hunter2X", 4)), 0o600))
	return notify.Receiver{Name: "shop", URL: server.URL + "/hunter2", SecretFile: secret, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// A service tests its receivers and shows their numbers, with its deliveries in a file or in Redis. No secret is in
// its log or its answers.
func TestWebhooks(t *testing.T) {
	server := testkit.StartRedis(t)
	for name, place := range map[string]func(*settings.Config){
		"state":   func(c *settings.Config) { c.State = filepath.Join(t.TempDir(), "counts") },
		"records": func(c *settings.Config) { c.Records = filepath.Join(t.TempDir(), "records.db") },
		"redis":   func(c *settings.Config) { c.Store = server.URL() },
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan string, 1)
			s := start(t, func(c *settings.Config) {
				place(c)
				c.Webhooks = []notify.Receiver{shopReceiver(t, arrived)}
			})
			status, _, answer := s.do("POST", "admin", "/v1/webhooks/test", `{"receiver":"shop"}`, "Content-Type", "application/json")
			if id := <-arrived; status != http.StatusOK || !strings.Contains(answer, `"id":"`+id+`","delivered":true,"status":204`) {
				t.Errorf("a test: %d, %s", status, answer)
			}
			_, _, list := s.get("admin", "/v1/webhooks")
			_, _, metrics := s.get("admin", "/metrics")
			if !strings.Contains(list, `"name":"shop"`) || !strings.Contains(metrics, `stint_webhook_waiting{receiver="shop"} 0`) {
				t.Errorf("the receivers are %s", list)
			}
			s.log.await(t, 0, "signed but not encrypted", "receiver=shop")
			log, _ := s.log.Follow()
			if all := log + list + metrics + answer; strings.Contains(all, "hunter2") {
				t.Errorf("a secret is shown:\n%s", all)
			}
		})
	}
}

// A service without receivers says so; one whose secret is missing does not start.
func TestWithoutWebhooks(t *testing.T) {
	s := start(t, func(*settings.Config) {})
	if status, _, answer := s.get("admin", "/v1/webhooks"); status != http.StatusNotFound || !strings.Contains(answer, "no receivers of webhooks") {
		t.Errorf("%d, %s", status, answer)
	}
	c := settings.Default()
	c.State, c.Output = filepath.Join(t.TempDir(), "counts"), new(sink)
	c.Webhooks = []notify.Receiver{{Name: "shop", URL: "https://hooks.example.com/", SecretFile: filepath.Join(t.TempDir(), "none")}}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "webhooks: receiver shop: secret_file: cannot read") {
		t.Errorf("without its secret: %v", err)
	}
}
