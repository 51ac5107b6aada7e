package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// whyAnswer is what tests read of POST /v1/why.
type whyAnswer struct {
	Allowed  bool
	WaitMS   int64 `json:"wait_ms"`
	Smallest []struct{ Text string }
	Limits   []struct {
		Coordination string
		Degraded     bool
		Denies       bool
		Candidate    *struct{ Allowed bool }
		Before       struct{ Limit, Used, Remaining *int64 }
	}
}

const whyQuestion = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": %q}], "cost": %d}]}`

// why asks what a request of a user would get.
func (s *service) why(user string, cost int) (a whyAnswer) {
	s.t.Helper()
	status, _, body := s.do(http.MethodPost, "admin", "/v1/why", fmt.Sprintf(whyQuestion, user, cost))
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK || len(a.Limits) != 1 {
		s.t.Fatalf("status %d, error %v: %s", status, err, body)
	}
	return a
}

// explainAlways asks all the time what requests of a user would get, until stop is called.
func (s *service) explainAlways(limit int) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var group sync.WaitGroup
	for _, cost := range []int{1, 10, limit, limit + 1} {
		group.Go(func() {
			for ctx.Err() == nil {
				body := fmt.Sprintf(whyQuestion, "x", cost)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr("admin")+"/v1/why", strings.NewReader(body))
				if err != nil {
					s.t.Error(err)
					return
				}
				if resp, err := client.Do(req); err == nil {
					if resp.StatusCode != http.StatusOK {
						s.t.Errorf("cost %d: status %d", cost, resp.StatusCode)
					}
					_ = resp.Body.Close() // it is not read
				}
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// passes reports whether the answer to a check allows the request.
func passes(answer string) bool { return strings.HasPrefix(answer, `{"allowed":true`) }

// TestWhyTakesNothing takes all units of a key with many explanations between, in each store and
// coordination: exactly the limit passes.
func TestWhyTakesNothing(t *testing.T) {
	t.Parallel()
	const limit = 2000
	for _, test := range []struct {
		name, words, coordination string
		limit                     int
	}{
		{"memory", "", "strict", 2000},
		{"strict", "", "strict", 2000},
		{"leased", ", coordination: leased", "leased", 2000},
		{"divided", ", coordination: leased, on_store_failure: local, nodes: 1, local_share: 10%", "leased", 1800}, // the part of a process that starts counts as used
		{"eventual", ", coordination: eventual", "eventual", 2000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, file, fmt.Sprintf("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: %d, per: 366d%s}\n", limit, test.words))
			store := "memory"
			if test.name != "memory" {
				store = testkit.StartRedis(t).URL()
			}
			s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, store, patient })
			passed := 0
			stop := s.explainAlways(limit)
			for range limit / 2 {
				if passes(s.ask(t, "user=x")) {
					passed++
				}
			}
			stop()
			if a := s.why("x", limit); a.Allowed || a.Limits[0].Coordination != test.coordination || a.Limits[0].Degraded || !strings.HasPrefix(a.Smallest[0].Text, fmt.Sprintf("requests %d -> ", limit)) {
				t.Errorf("half is used: %+v", a)
			}
			if a := s.why("x", 1); !a.Allowed || len(a.Smallest) != 0 {
				t.Errorf("half is used: %+v", a)
			}
			testkit.Until(t, "all units are taken", func() bool { // a node may hold some for a moment
				for passes(s.ask(t, "user=x")) {
					passed++
					s.why("x", 1)
				}
				return passed >= test.limit
			})
			if a := s.why("x", 1); a.Allowed || a.WaitMS <= 0 || !a.Limits[0].Denies || test.limit == limit && a.Smallest[0].Text != fmt.Sprintf("requests %d -> %d", limit, limit+1) {
				t.Errorf("all is used: %+v", a)
			}
			if passes(s.ask(t, "user=x")) || passed != test.limit {
				t.Errorf("%d of %d passed", passed, limit)
			}
		})
	}
}

// TestWhyCandidates asks in Redis for a request of two limits that each try a candidate: what the candidates
// would decide does not depend on the explanation.
func TestWhyCandidates(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `domain: api
descriptors:
  - key: user
    rate_limit:
      - {requests: 1, per: 1d, name: less, candidate: {requests: 2}}
      - {requests: 2, per: 1d, name: more, candidate: {requests: 1}}
`)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{file}, testkit.StartRedis(t).URL(), patient
	})
	for i, want := range []string{"true true", "true false"} {
		_, _, body := s.do(http.MethodPost, "admin", "/v1/why", fmt.Sprintf(whyQuestion, "x", 1))
		var a whyAnswer
		testkit.Must(t, json.Unmarshal([]byte(body), &a))
		if len(a.Limits) != 2 || a.Limits[0].Candidate == nil || a.Limits[1].Candidate == nil {
			t.Fatalf("request %d: %s", i, body)
		}
		if got := fmt.Sprint(a.Limits[0].Candidate.Allowed, a.Limits[1].Candidate.Allowed); got != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
		s.ask(t, "user=x")
	}
}

// TestWhyChangesNoKey explains requests over a Redis whose keys are compared byte for byte.
func TestWhyChangesNoKey(t *testing.T) {
	t.Parallel()
	redis := testkit.StartRedis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `domain: api
descriptors:
  - key: user
    rate_limit:
      - {requests: 3, per: 1d, name: window}
      - {requests: 3, per: 1d, burst: 3, algorithm: token_bucket, overdraw: true, name: bucket}
      - {requests: 3, per: 1d, algorithm: sliding_log, count_denied: true, name: log}
      - {requests: 6, per: 1d, blocks: 4, algorithm: sliding_window, name: blocks}
      - {requests: 3, per: 1d, algorithm: leaky_bucket, burst: 3, name: queue}
`)
	s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, redis.URL(), patient })
	keys := func() string {
		var b strings.Builder
		for key := range strings.FieldsSeq(redis.Do("KEYS", "*x*")) {
			fmt.Fprintf(&b, "%s %q\n", key, redis.Do("DUMP", key))
		}
		return b.String()
	}
	explain := func() {
		t.Helper()
		for _, cost := range []int{0, 1, 2, 3, 4, 100} {
			if status, _, body := s.do(http.MethodPost, "admin", "/v1/why", fmt.Sprintf(whyQuestion, "x", cost)); status != http.StatusOK {
				t.Fatalf("status %d: %s", status, body)
			}
		}
	}
	explain()
	if found := keys(); found != "" {
		t.Errorf("an untouched key has a state:\n%s", found)
	}
	for range 4 { // the last one is denied
		s.ask(t, "user=x")
	}
	before := keys()
	if explain(); strings.Count(before, "\n") < 5 || keys() != before {
		t.Errorf("before\n%safter\n%s", before, keys())
	}
}
