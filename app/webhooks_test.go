package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/notify"
	"stint/rule"
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

// announcing are rules with thresholds: ten requests of a user in a window that ends in February of 2027.
const announcing = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 10, per: 366d, notify: [80%, 100%]}\n"

// takes makes n requests of a user.
func (s *service) takes(user string, n int) {
	s.t.Helper()
	for range n {
		status, _, body := s.do(http.MethodPost, "http", "/v1/check", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":%q}]}]}`, user))
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			s.t.Fatalf("%d, %s", status, body)
		}
	}
}

// Thresholds that users reach arrive at the receiver, each as one event, on one node and on several that share a
// Redis. A receiver of one threshold gets only that.
func TestThresholds(t *testing.T) {
	t.Parallel()
	const users, nodes = 5, 4
	server := testkit.StartRedis(t)
	for name, place := range map[string]func(*settings.Config){
		"state": func(c *settings.Config) { c.State = filepath.Join(t.TempDir(), "counts") },
		"redis": func(c *settings.Config) { c.Store, c.StoreTimeout = server.URL(), testTimeout },
	} {
		t.Run(name, func(t *testing.T) {
			rules := filepath.Join(t.TempDir(), "rules.yaml")
			testkit.Must(t, os.WriteFile(rules, []byte(announcing), 0o600))
			lines := filepath.Join(t.TempDir(), "events.jsonl")
			arrived := make(chan string, 1000)
			shop := shopReceiver(t, arrived)
			fleet := make([]*service, 1)
			if name == "redis" {
				fleet = make([]*service, nodes)
			}
			var all sync.WaitGroup
			for i := range fleet {
				fleet[i] = start(t, func(c *settings.Config) {
					place(c)
					c.Rules, c.Webhooks = []string{rules}, []notify.Receiver{shop, {Name: "full", File: lines, Thresholds: []int{100}}}
				})
			}
			for _, s := range fleet {
				all.Go(func() {
					for n := range users {
						s.takes(fmt.Sprint("u", n), 12)
					}
				})
			}
			all.Wait()
			ids := map[string]int{}
			for range 2 * users {
				select {
				case id := <-arrived:
					ids[id]++
				case <-time.After(testTimeout):
					t.Fatalf("%d events arrived: %v", len(ids), ids)
				}
			}
			testkit.Until(t, "the lines are written", func() bool {
				text, _ := os.ReadFile(lines)
				return strings.Count(string(text), "\n") == users
			})
			text, err := os.ReadFile(lines)
			testkit.Must(t, err)
			for n := range users {
				want := fmt.Sprintf(`"data":{"rule":"api/user","subject":"user=u%d","threshold":100,"used":10,"of":10,`, n)
				if strings.Count(string(text), want) != 1 {
					t.Errorf("the lines are\n%s", text)
				}
			}
			testkit.Until(t, "both receivers have all", func() bool {
				_, _, list := fleet[0].get("admin", "/v1/webhooks")
				return strings.Contains(list, `"waiting":0,"failed":0,"delivered":10,`) && strings.Contains(list, `"waiting":0,"failed":0,"delivered":5,`)
			})
			if len(ids) != 2*users || len(arrived) != 0 {
				t.Errorf("%d IDs, and %d more: %v", len(ids), len(arrived), ids)
			}
		})
	}
}

// A receiver that redirects and one that never answers get no event delivered, delay no other, and lose nothing:
// their deliveries wait. Nobody calls the target of the redirect.
func TestBadReceivers(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 1)
	good := shopReceiver(t, arrived)
	moved, silent := good, good
	called := make(chan string, 10)
	target := shopReceiver(t, called)
	redirects := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirects.Close)
	asked := make(chan struct{}, 10) // of each try
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server sees that the client has gone only after the body
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	moved.Name, moved.URL = "moved", redirects.URL
	silent.Name, silent.URL = "silent", hangs.URL
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	testkit.Must(t, os.WriteFile(rules, []byte(announcing), 0o600))
	s := start(t, func(c *settings.Config) {
		c.Rules = []string{rules}
		c.State = filepath.Join(t.TempDir(), "counts")
		c.Webhooks = []notify.Receiver{moved, silent, good}
	})
	s.takes("42", 8)
	<-arrived
	<-asked
	s.log.await(t, 0, "event not delivered: it is tried again", "receiver=moved", "status=307", "redirects are not followed")
	_, _, list := s.get("admin", "/v1/webhooks/deliveries?state=waiting")
	for _, name := range []string{"moved", "silent"} {
		if !strings.Contains(list, `"receiver":"`+name+`"`) {
			t.Errorf("the event for %s does not wait: %s", name, list)
		}
	}
	if len(called) > 0 {
		t.Error("the target of a redirect was called")
	}
}

// Without receivers the events are dropped, and the log says so. Those that came a moment ago stay for other nodes,
// which may have receivers, whatever the clock of the store says; but not so many that the outbox fills up.
func TestEventsDropped(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	testkit.Must(t, os.WriteFile(rules, []byte(announcing), 0o600))
	s := start(t, func(c *settings.Config) { c.Rules = []string{rules} })
	now := time.Now().Add(time.Hour) // of a node
	waiting := func() int {
		t.Helper()
		events, err := s.stores.Outbox().Pending(t.Context(), 2*dropMost)
		testkit.Must(t, err)
		return len(events)
	}
	reach := func(user string) { // two events
		t.Helper()
		var v limiter.Verdict
		testkit.Must(t, s.limiter.Decide(t.Context(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: user}}, Cost: 10}}}, &v))
	}
	reach("u")
	seen := s.dropEvents(t.Context(), now, nil)
	for i := range dropMost/4 - 1 {
		reach(fmt.Sprint("u", i))
	}
	if n := waiting(); n != dropMost/2 {
		t.Fatalf("%d events wait", n)
	}
	seen = s.dropEvents(t.Context(), now.Add(time.Second), seen)
	if n := waiting(); n != dropMost/2 {
		t.Errorf("%d events wait, %d are new", n, dropMost/2)
	}
	seen = s.dropEvents(t.Context(), now.Add(time.Minute), seen)
	s.log.await(t, 0, "events dropped", "events=2")
	if n := waiting(); n != dropMost/2-2 {
		t.Errorf("%d events wait, %d are new", n, dropMost/2-2)
	}
	for i := range dropMost/4 + 1 {
		reach(fmt.Sprint("v", i))
	}
	s.dropEvents(t.Context(), now.Add(time.Minute), seen)
	if n := waiting(); n != dropMost/2 {
		t.Errorf("%d events wait of %d, want half of them", n, dropMost)
	}
}
