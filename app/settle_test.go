package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// reserveAt takes units of a name and an address for an answer that is not known yet, and returns the
// reservation.
func (s *service) reserveAt(t *testing.T, name string) string {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"login","reserve":true,"descriptors":[{"entries":[{"key":"user","value":%q}]},
		{"entries":[{"key":"address","value":"192.0.2.7"}]}]}`, name)
	status, _, answer := s.do(http.MethodPost, "http", "/v1/check", body)
	var v struct{ Reservation string }
	if err := json.Unmarshal([]byte(answer), &v); err != nil || status != http.StatusOK || v.Reservation == "" {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	return v.Reservation
}

// leftOf returns what remains of the limit of a name and of that of the address.
func (s *service) leftOf(t *testing.T, name string) (left [2]int64) {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"login","cost":0,"descriptors":[{"entries":[{"key":"user","value":%q}]},
		{"entries":[{"key":"address","value":"192.0.2.7"}]}]}`, name)
	_, _, answer := s.do(http.MethodPost, "http", "/v1/check", body)
	var v struct{ Results []struct{ Remaining int64 } }
	if err := json.Unmarshal([]byte(answer), &v); err != nil || len(v.Results) != 2 {
		t.Fatalf("%s, %v", answer, err)
	}
	return [2]int64{v.Results[0].Remaining, v.Results[1].Remaining}
}

// A reservation of one node is settled once on another, whichever algorithm counts, and wherever the keys
// lie: in one Redis, in the partitions of a Cluster, and on two servers.
func TestSettleOnAnotherNode(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, strings.Repeat("s", 32))
	one, two := testkit.StartRedis(t), testkit.StartRedis(t)
	for where, url := range map[string]string{"one": one.URL(), "two": two.URL() + "," + testkit.StartRedis(t).Addr, "cluster": testkit.StartRedisCluster(t, 3).URL()} {
		for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_log", "sliding_window"} {
			t.Run(where+"/"+algorithm, func(t *testing.T) {
				rules := filepath.Join(t.TempDir(), "rules.yaml")
				write(t, rules, strings.ReplaceAll(`
domain: login
descriptors:
  - {key: user, rate_limit: {requests: 100, per: 1h, algorithm: ALGORITHM, count: responses, statuses: [401]}}
  - {key: address, rate_limit: {requests: 1000, per: 1h, algorithm: ALGORITHM, count: responses, statuses: [401, 5xx]}}
`, "ALGORITHM", algorithm))
				var nodes [2]*service
				for i := range nodes {
					nodes[i] = start(t, func(c *settings.Config) {
						c.Rules, c.Store, c.StoreTimeout, c.NamespaceSecretFile = []string{rules}, url, patient, secret
					})
				}
				name := where + algorithm
				address := nodes[0].leftOf(t, name)[1]
				settle := func(node int, text string, status int, want string) {
					t.Helper()
					got, _, answer := nodes[node].do(http.MethodPost, "http", "/v1/settle", fmt.Sprintf(`{"reservation":%q,"status":%d}`, text, status))
					if got != http.StatusOK || strings.TrimSpace(answer) != want {
						t.Fatalf("status %d: %d %s; want %s", status, got, answer, want)
					}
				}
				const none, both, half = `{"charged":[],"given_back":["login/user","login/address"]}`, `{"charged":["login/user","login/address"],"given_back":[]}`, `{"charged":["login/address"],"given_back":["login/user"]}`
				for i, step := range []struct {
					status int
					want   string
					left   [2]int64
				}{{200, none, [2]int64{100, 0}}, {401, both, [2]int64{99, -1}}, {503, half, [2]int64{99, -2}}} {
					text := nodes[0].reserveAt(t, name)
					settle(1, text, step.status, step.want)
					settle(0, text, 401, step.want)
					settle(1, text, 200, step.want)
					step.left[1] += address
					if left := nodes[1].leftOf(t, name); left != step.left {
						t.Errorf("step %d: %v remain, want %v", i, left, step.left)
					}
				}
			})
		}
	}
}

// Without the secret of the node that made it, a reservation is forged.
func TestSettleWithoutSecret(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "domain: login\ndescriptors: [{key: user, rate_limit: {requests: 9, per: 1h, count: responses, statuses: [401]}}, {key: address, rate_limit: {requests: 9, per: 1h}}]\n")
	var nodes [2]*service
	for i := range nodes {
		nodes[i] = start(t, func(c *settings.Config) { c.Rules = []string{rules} })
	}
	text := nodes[0].reserveAt(t, "ann")
	for i, want := range []int{http.StatusOK, http.StatusNotFound} {
		if status, _, answer := nodes[i].do(http.MethodPost, "http", "/v1/settle", fmt.Sprintf(`{"reservation":%q,"status":200}`, text)); status != want {
			t.Errorf("node %d: %d %s, want %d", i, status, answer, want)
		}
	}
}

// While Redis is frozen a settlement fails, and may be repeated: it is done once, whichever of the two calls
// reached the store.
func TestSettleWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, `
domain: login
on_store_failure: allow
descriptors:
  - {key: user, rate_limit: {requests: 100, per: 1h, algorithm: sliding_log, count: responses, statuses: [401]}}
  - {key: address, rate_limit: {requests: 100, per: 1h, algorithm: sliding_log, count: responses, statuses: [401]}}
`)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{rules}, server.URL(), 2*time.Second
	})
	settle := func(text string, status int) (int, string) {
		got, _, answer := s.do(http.MethodPost, "http", "/v1/settle", fmt.Sprintf(`{"reservation":%q,"status":%d}`, text, status))
		return got, answer
	}
	for i, status := range []int{200, 401} {
		text := s.reserveAt(t, "ann")
		server.Freeze()
		if got, answer := settle(text, status); got != http.StatusServiceUnavailable || !strings.Contains(answer, "send the same again") {
			t.Errorf("status %d, frozen: %d %s, want 503", status, got, answer)
		}
		server.Thaw()
		testkit.Until(t, "Redis answers again", func() bool { got, _ := settle(text, status); return got == http.StatusOK })
		if want := [2]int64{100 - int64(i), 100 - int64(i)}; s.leftOf(t, "ann") != want {
			t.Errorf("status %d: %v remain, want %v", status, s.leftOf(t, "ann"), want)
		}
	}
}

// Whatever the coordination, a settlement on the node that decided gives back what the request took, once.
func TestSettleByCoordination(t *testing.T) {
	server := testkit.StartRedis(t)
	for _, coordination := range []string{"strict", "leased", "eventual"} {
		t.Run(coordination, func(t *testing.T) {
			rules := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, rules, strings.ReplaceAll(`
domain: login
coordination: MODE
descriptors:
  - {key: user, rate_limit: {requests: 100, per: 1h, algorithm: token_bucket, count: responses, statuses: [401]}}
  - {key: address, rate_limit: {requests: 1000, per: 1h, coordination: strict, count: responses, statuses: [401]}}
`, "MODE", coordination))
			s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{rules}, server.URL(), patient })
			before := s.leftOf(t, coordination)
			for i, status := range []int{200, 401, 200} {
				text := s.reserveAt(t, coordination)
				for range 2 {
					if got, _, answer := s.do(http.MethodPost, "http", "/v1/settle", fmt.Sprintf(`{"reservation":%q,"status":%d}`, text, status)); got != http.StatusOK {
						t.Fatalf("status %d: %d %s", status, got, answer)
					}
				}
				want := before
				if i > 0 {
					want = [2]int64{before[0] - 1, before[1] - 1}
				}
				if left := s.leftOf(t, coordination); left != want {
					t.Errorf("status %d: %v remain, want %v", status, left, want)
				}
			}
		})
	}
}
