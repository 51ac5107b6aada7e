package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/facts"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// factsRules have a limit for an API key, and one for a user that is shown.
const factsRules = `
domain: api
descriptors:
  - key: client
    rate_limit: {per: 366d, requests: 3}
  - key: user
    show: true
    rate_limit: {per: 366d, requests: 3}
http:
  rate_limits:
    - actions: [{api_key: {header_name: X-API-Key, descriptor_key: client}}]
`

// read decodes an answer of admin.
func read[T any](s *service, path string) (answer T) {
	s.t.Helper()
	status, _, body := s.get("admin", path)
	if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil {
		s.t.Fatalf("%s: %d %s", path, status, body)
	}
	return answer
}

// take asks for a unit of a user.
func (s *service) take(user, id string) {
	s.t.Helper()
	s.do(http.MethodPost, "http", "/v1/check", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"`+user+`"}]}]}`, "X-Request-Id", id)
}

func knowing(t *testing.T) (dir string, change func(*settings.Config)) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), factsRules)
	return dir, func(c *settings.Config) {
		c.Rules, c.State, c.AuthDomain = []string{filepath.Join(dir, "rules.yaml")}, filepath.Join(dir, "state"), "api"
		c.Facts.Denials, c.TrustedProxies = filepath.Join(dir, "denials"), []string{"127.0.0.1"}
	}
}

// The facts of a service agree with its metrics, show keys as hashes, find a request by its ID, and are there
// again after a restart.
func TestFacts(t *testing.T) {
	dir, change := knowing(t)
	s := start(t, change)
	for i := range 5 {
		s.take("ann", fmt.Sprintf("request-%d", i))
		s.get("admin", "/v1/facts") // takes over the note of the request, so that the next one cannot come before it
	}
	of := func(s *service) facts.Rule {
		rules := read[facts.Summary](s, "/v1/facts").Rules
		i := slices.IndexFunc(rules, func(r facts.Rule) bool { return r.Name == "api/user" })
		return rules[i]
	}
	if r := of(s); r.Allowed != 3 || r.Denied != 2 || r.Keys != 1 {
		t.Errorf("%+v", r)
	}
	if n := s.metric(`stint_rule_denied_total{domain="api",rule="api/user"}`); n != 2 {
		t.Errorf("the metrics have %v denials", n)
	}
	keys := read[struct{ Keys []facts.Key }](s, "/v1/facts/keys?rule=api/user").Keys
	if len(keys) != 1 || keys[0].Denied != 2 || keys[0].Allowed != 3 || keys[0].Entries[0] != (facts.Entry{Key: "user", Value: "ann"}) {
		t.Errorf("%+v", keys)
	}
	_, _, body := s.do(http.MethodPost, "admin", "/v1/why", fmt.Sprintf(whyQuestion, "ann", 1))
	if !strings.Contains(body, `"key":"`+keys[0].ID+`"`) {
		t.Errorf("what is typed has another hash than %s: %s", keys[0].ID, body)
	}
	denials := read[struct{ Denials []facts.Denial }](s, "/v1/facts/denials?request=request-3").Denials
	if len(denials) != 1 || denials[0].Key != keys[0].ID {
		t.Errorf("%+v", denials)
	}
	if h := read[facts.History](s, "/v1/facts/history"); len(h.Points) == 0 || h.Points[0].Denied != 2 || h.Marks[0].What != "start" {
		t.Errorf("%+v", h)
	}
	write(t, filepath.Join(dir, "rules.yaml"), "domain: [")
	if s.Reload("test") == nil {
		t.Fatal("accepted")
	}
	write(t, filepath.Join(dir, "rules.yaml"), factsRules+"# another\n")
	testkit.Must(t, s.Reload("test"))
	var marks []string
	for _, m := range read[facts.History](s, "/v1/facts/history").Marks {
		marks = append(marks, m.What)
	}
	if !slices.Contains(marks, "failed reload") || !slices.Contains(marks, "reload") {
		t.Errorf("marks %q", marks)
	}
	s.Stop(context.Background())
	again := start(t, change)
	again.take("ann", "later")
	if r := of(again); r.Allowed != 3 || r.Denied != 3 {
		t.Errorf("after a restart %+v", r)
	}
	if keys := read[struct{ Keys []facts.Key }](again, "/v1/facts/keys?rule=api/user").Keys; len(keys) != 1 || keys[0].ID != denials[0].Key {
		t.Errorf("after a restart the key is %+v, before %s", keys, denials[0].Key)
	}
	if found := read[struct{ Denials []facts.Denial }](again, "/v1/facts/denials?request=request-3").Denials; len(found) != 1 {
		t.Errorf("after a restart the log has %+v", found)
	}
}

// The log of denials has the IDs of requests that came by Envoy's protocol, over gRPC and as JSON.
func TestRequestIDsOfEnvoy(t *testing.T) {
	_, change := knowing(t)
	s := start(t, func(c *settings.Config) {
		change(c)
		c.GRPC = "127.0.0.1:0"
	})
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	for i := range 5 {
		_, err := c.Ask(programs.WithHeader(t.Context(), "x-request-id", fmt.Sprintf("grpc-%d", i)), "api", "user=ann")
		testkit.Must(t, err)
		s.get("admin", "/v1/facts") // takes over the note of the request, so that the next one cannot come before it
	}
	_, err := c.Ask(t.Context(), "api", "user=without")
	testkit.Must(t, err)
	s.do(http.MethodPost, "http", "/json", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"bob"}],"hitsAddend":"4"}]}`, "X-Request-Id", "json-1")
	for id, reason := range map[string]string{"grpc-3": "rate_limited", "json-1": "rate_limited"} {
		found := read[struct{ Denials []facts.Denial }](s, "/v1/facts/denials?request="+id).Denials
		if len(found) != 1 || found[0].Rule != "api/user" || found[0].Reason != reason {
			t.Errorf("%s: %+v", id, found)
		}
	}
}

// An API key is in no output: no answer, no metric, no log, no file and not in Redis.
func TestFactsHideSecrets(t *testing.T) {
	t.Parallel()
	const secret = "sk-live-a-secret-of-a-client"
	server := testkit.StartRedis(t)
	for _, store := range []string{"memory", server.URL()} {
		dir, change := knowing(t)
		s := start(t, func(c *settings.Config) {
			change(c)
			c.Store, c.StoreTimeout, c.LogLevel = store, patient, "debug"
		})
		denied := 0
		for range 6 {
			status, _, _ := s.do(http.MethodGet, "http", "/v1/auth", "", "X-API-Key", secret, "X-Original-Method", "GET", "X-Original-Uri", "/", "X-Forwarded-For", "192.0.2.7", "X-Request-Id", "r")
			if status == http.StatusTooManyRequests {
				denied++
			}
		}
		if denied != 3 {
			t.Fatalf("%d of 6 denied", denied)
		}
		outputs := map[string]string{"log": s.log.String()}
		for _, path := range []string{"/v1/facts", "/v1/facts/keys", "/v1/facts/history", "/v1/facts/denials", "/metrics", "/v1/limits"} {
			_, _, outputs[path] = s.get("admin", path)
		}
		if !strings.Contains(outputs["/v1/facts/keys"], `"denied":3`) || !strings.Contains(outputs["/v1/facts/denials"], `"request_id":"r"`) {
			t.Errorf("the key is not known: %s %s", outputs["/v1/facts/keys"], outputs["/v1/facts/denials"])
		}
		if store != "memory" {
			testkit.Until(t, "a summary in Redis", func() bool { return server.Do("HLEN", "stint:{summaries}:nodes") == "1" })
			for key := range strings.SplitSeq(server.Do("KEYS", "*"), "\n") {
				outputs["redis key"] += key
				if strings.Contains(key, "{summaries}:of:") {
					outputs["redis"] = server.Do("GET", key)
				}
			}
		}
		s.Stop(context.Background())
		files, err := os.ReadDir(dir)
		testkit.Must(t, err)
		for _, file := range files {
			body, err := os.ReadFile(filepath.Join(dir, file.Name()))
			testkit.Must(t, err)
			outputs[file.Name()] = string(body)
		}
		for where, text := range outputs {
			if strings.Contains(text, secret) {
				t.Errorf("%s, store %s: the secret is in %s", where, store, text)
			}
		}
	}
}

// Each of three nodes with one Redis shows all three together.
func TestFactsOfNodes(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("a secret of the namespace"), 0o600))
	var nodes []*service
	for i := range 3 {
		_, change := knowing(t)
		nodes = append(nodes, start(t, func(c *settings.Config) {
			change(c)
			c.Store, c.StoreTimeout, c.NamespaceSecretFile, c.Facts.Node, c.RememberRefusals = server.URL(), patient, secret, fmt.Sprintf("node-%d", i), false
		}))
		for range 4 {
			nodes[i].take("ann", "")
		}
	}
	for i, node := range nodes {
		testkit.Until(t, "the facts of all nodes", func() bool {
			s := read[facts.Summary](node, "/v1/facts")
			n := slices.IndexFunc(s.Rules, func(r facts.Rule) bool { return r.Name == "api/user" })
			keys := read[struct{ Keys []facts.Key }](node, "/v1/facts/keys?rule=api/user").Keys
			return len(s.Nodes) == 3 && s.Nodes[0].Name == fmt.Sprintf("node-%d", i) && s.Rules[n].Allowed == 3 && s.Rules[n].Denied == 9 && s.Rules[n].Keys == 1 &&
				len(keys) == 1 && keys[0].Denied == 9 && len(keys[0].Nodes) == 3
		})
	}
}

// Without facts the paths say so.
func TestFactsOff(t *testing.T) {
	s := start(t, func(c *settings.Config) { c.Facts.Off = true })
	for _, path := range []string{"/v1/facts", "/v1/live"} {
		if status, _, body := s.get("admin", path); status != http.StatusNotFound || !strings.Contains(body, "--facts-off") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// A stream of facts does not hold up the end of a service.
func TestLiveEndsWithTheService(t *testing.T) {
	_, change := keeping(t)
	s := start(t, change)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr("admin")+"/v1/live", nil)
	testkit.Must(t, err)
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	first := make([]byte, 6)
	if _, err = resp.Body.Read(first); err != nil || string(first) != "data: " {
		t.Fatalf("%q, %v", first, err)
	}
	s.Stop(context.Background())
	if strings.Contains(s.log.String(), "cut") {
		t.Errorf("the stream was cut: %s", s.log.String())
	}
}
