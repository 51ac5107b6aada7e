package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/records"
)

// durableRules are rules of which two are durable.
const durableRules = `
domain: api
descriptors:
  - {key: month, rate_limit: {requests: 100, unit: month, durable: true, on_store_failure: deny, usage: 3}}
  - {key: day, rate_limit: {requests: 100, per: 300d, durable: true, on_store_failure: allow}}
  - {key: other, rate_limit: {requests: 100, per: 300d, on_store_failure: deny}}
`

// answers checks what a key gets.
func (s *service) answers(key string, allowed, degraded bool) {
	s.t.Helper()
	body := s.check(key)
	if strings.Contains(body, `"allowed":true`) != allowed || strings.Contains(body, `"degraded":true`) != degraded {
		s.t.Errorf("%s: %s", key, body)
	}
}

// admin sends a request to the admin address, and returns the status and the body.
func (s *service) admin(method, path, body string) (int, string) {
	s.t.Helper()
	status, _, answer := s.do(method, "admin", path, body)
	return status, answer
}

// followsPolicies checks what everybody sees of a loss of both durable rules, accepts it for one rule, then for all,
// and checks that they count again.
func (s *service) followsPolicies() {
	s.t.Helper()
	s.answers("month", false, true)
	s.answers("day", true, true)
	s.answers("other", true, false)
	if _, body := s.admin(http.MethodGet, "/v1/accept-loss", ""); !strings.Contains(body, `"rule":"api/day"`) || !strings.Contains(body, `"rule":"api/month"`) {
		s.t.Errorf("losses: %s", body)
	}
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "month", "value": "x"}]}]}`
	if _, body := s.admin(http.MethodPost, "/v1/inspect", question); !strings.Contains(body, `"loss":{"place"`) {
		s.t.Errorf("inspect: %s", body)
	}
	if status, body := s.admin(http.MethodGet, "/readyz", ""); status != http.StatusOK || !strings.Contains(body, "counts of durable rules were lost") || !strings.Contains(body, "api/month until") {
		s.t.Errorf("readyz: %d %s", status, body)
	}
	if n := s.metric("stint_durable_losses_total"); n != 1 {
		s.t.Errorf("%v losses in metrics", n)
	}
	if n := s.metric(`stint_durable_lost{domain="api",rule="api/month"}`); n != 1 {
		s.t.Errorf("the metric of the rule is %v", n)
	}
	if status, body := s.admin(http.MethodPost, "/v1/accept-loss", `{"rule": "api/month"}`); status != http.StatusOK || !strings.Contains(body, `"accepted":[{"rule":"api/month"`) {
		s.t.Errorf("accept: %d %s", status, body)
	}
	s.answers("month", true, false)
	s.answers("day", true, true)
	if status, body := s.admin(http.MethodPost, "/v1/accept-loss", `{"all": true}`); status != http.StatusOK || !strings.Contains(body, `"accepted":[{"rule":"api/day"`) {
		s.t.Errorf("accept: %d %s", status, body)
	}
	s.answers("day", true, false)
	if _, body := s.admin(http.MethodGet, "/v1/accept-loss", ""); !strings.Contains(body, `"losses":[]`) {
		s.t.Errorf("losses after all: %s", body)
	}
	s.log.await(s.t, 0, "counts of durable rules were lost", "api/month", "until=")
	s.log.await(s.t, 0, "a loss was accepted", "api/month")
}

// A Redis that lost durable takes is noticed without a take, and by a node that knows nothing of it. A restart with
// all takes changes nothing.
func TestDurableLossOfRedis(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	write(t, rules, durableRules)
	redis := testkit.StartRedis(t, "--appendonly", "yes", "--dir", dir)
	node := func() *service {
		return start(t, func(c *settings.Config) {
			c.Rules, c.Store, c.StoreTimeout = []string{rules}, redis.URL(), 5*time.Second
		})
	}
	s := node()
	for _, key := range []string{"month", "day", "other"} {
		s.answers(key, true, false)
	}
	redis.Stop()
	redis.Restart()
	testkit.Until(t, "the store is back", func() bool { return strings.Contains(s.check("month"), `"allowed":true`) })
	if body := s.check("month"); !strings.Contains(body, `"remaining":`) || strings.Contains(body, `"degraded":true`) || s.metric("stint_durable_losses_total") != 0 {
		t.Fatalf("a restart without loss: %s", body)
	}
	redis.Do("FLUSHALL")
	testkit.Until(t, "the loss is noticed", func() bool { return s.metric("stint_durable_losses_total") == 1 })
	other := node()
	testkit.Until(t, "another node knows it", func() bool { return other.metric("stint_durable_losses_total") == 1 })
	other.answers("month", false, true)
	s.followsPolicies()
	other.answers("month", true, false)
	if n := s.metric(`stint_store_failures_total{reason="undecodable"}`); n != 0 {
		t.Errorf("%v takes count as undecodable", n)
	}
}

// What a state file and its journal lack is a loss, which a later start still knows; what is cut at the end is none.
func TestDurableLossOfJournal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		damage func(t *testing.T, state string, journal []string)
		lost   bool
	}{
		"nothing":              {func(*testing.T, string, []string) {}, false},
		"the journal":          {removeAll, true},
		"the state file":       {func(t *testing.T, state string, _ []string) { testkit.Must(t, os.Remove(state)) }, true},
		"what the journal has": {func(t *testing.T, _ string, j []string) { testkit.Must(t, os.Truncate(j[len(j)-1], 0)) }, true},
		"a useless state":      {func(t *testing.T, state string, _ []string) { write(t, state, "nothing") }, true},
		"both": {func(t *testing.T, state string, j []string) {
			testkit.Must(t, os.Remove(state))
			removeAll(t, state, j)
		}, false},
		"an unfinished take": {func(t *testing.T, _ string, j []string) { cutFile(t, j[len(j)-1], -3) }, false},
		"a first take":       {func(t *testing.T, _ string, j []string) { changeFile(t, j[len(j)-1]) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rules, state := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "counts")
			write(t, rules, durableRules)
			node := func() *service {
				return start(t, func(c *settings.Config) { c.Rules, c.State, c.StateInterval = []string{rules}, state, time.Hour })
			}
			s := node()
			s.answers("month", true, false)
			testkit.Until(t, "the state file says that there is a journal", func() bool {
				_, err := os.Stat(state)
				return err == nil
			})
			for range 4 {
				s.answers("day", true, false)
			}
			copied := t.TempDir() // what a crash leaves
			testkit.Must(t, os.CopyFS(copied, os.DirFS(dir)))
			s.Stop(context.Background())
			state = filepath.Join(copied, "counts")
			journal, err := filepath.Glob(state + ".journal-*")
			testkit.Must(t, err)
			tt.damage(t, state, journal)
			s = node()
			if !tt.lost {
				s.answers("month", true, false)
				s.answers("day", true, false)
				if n := s.metric("stint_durable_losses_total"); n != 0 {
					t.Errorf("%v losses", n)
				}
				return
			}
			s.answers("month", false, true)
			s.Stop(context.Background())
			s = node()
			s.followsPolicies()
			s.Stop(context.Background())
			s = node()
			s.answers("month", true, false)
			s.answers("day", true, false)
			if n := s.metric("stint_durable_losses_total"); n != 0 {
				t.Errorf("%v losses after a restart, and it was accepted", n)
			}
		})
	}
}

func removeAll(t *testing.T, _ string, files []string) {
	for _, file := range files {
		testkit.Must(t, os.Remove(file))
	}
}

// cutFile cuts the end of a file off.
func cutFile(t *testing.T, file string, by int64) {
	info, err := os.Stat(file)
	testkit.Must(t, err)
	testkit.Must(t, os.Truncate(file, info.Size()+by))
}

// changeFile changes a byte in the second half of a file, before its last record.
func changeFile(t *testing.T, file string) {
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	content[len(content)/2] ^= 1
	write(t, file, string(content))
}

// A loss lasts until the longest period that it concerns has ended, which may be that of an override.
func TestLossOfOverride(t *testing.T) {
	const per = 300 * 24 * time.Hour
	redis := testkit.StartRedis(t, "--appendonly", "yes", "--dir", t.TempDir())
	s := startWithRecords(t, "domain: api\ndescriptors:\n  - {key: user, rate_limit: {requests: 5, per: 10ms, durable: true, on_store_failure: deny}}\n", redis.URL(), nil)
	s.edit(records.Edit{Put: records.Override{Target: "user=x", Rule: "api/user", Per: per}})
	s.edit(records.Edit{Put: records.Override{Target: "user=y", Rule: "other", Per: per + time.Hour}})
	s.passed("x", 1)
	redis.Do("FLUSHALL")
	testkit.Until(t, "the loss is noticed", func() bool { return s.metric("stint_durable_losses_total") == 1 })
	testkit.Until(t, "the period of the rule's own limit ends", func() bool { return s.passed("y", 1) == 1 })
	if s.passed("x", 1) == 1 {
		t.Error("the period of the override has ended")
	}
	until := time.Unix(0, 0).UTC().Add((time.Since(time.Unix(0, 0))/per + 1) * per).Format(time.RFC3339)
	if _, body := s.admin(http.MethodGet, "/v1/accept-loss", ""); !strings.Contains(body, `"until":"`+until) {
		t.Errorf("losses: %s, want until %s", body, until)
	}
	s.log.await(t, 0, "counts of durable rules were lost", "until="+until)
	if n := s.metric(`stint_durable_lost{domain="api",rule="api/user"}`); n != 1 {
		t.Errorf("the metric of the rule is %v", n)
	}
}
