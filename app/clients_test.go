package app

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/loadtest"
	"stint/records"
)

// startWithRecords starts a service with rules and a file of records of its own.
func startWithRecords(t *testing.T, rules, store string, change func(*settings.Config)) *service {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	write(t, file, rules)
	return start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout, c.Records = []string{file}, store, patient, filepath.Join(dir, "records.db")
		if change != nil {
			change(c)
		}
	})
}

// edit writes or deletes one record.
func (s *service) edit(e records.Edit) {
	s.t.Helper()
	_, err := s.records.Apply(s.t.Context(), records.Change{Edits: []records.Edit{e}, Force: true}, time.Now())
	testkit.Must(s.t, err)
}

// passed counts which of n requests of a user pass.
func (s *service) passed(user string, n int) (passed int) {
	s.t.Helper()
	for range n {
		if strings.HasPrefix(s.ask(s.t, "user="+user), `{"allowed":true`) {
			passed++
		}
	}
	return passed
}

// What a key has used stays used when an override begins, changes and ends: exactly so much passes in
// all, with every algorithm and store.
func TestOverrideKeepsUse(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory", "redis"} {
		url := store
		if store == "redis" {
			url = testkit.StartRedis(t).URL()
		}
		for _, algorithm := range []string{"fixed_window", "token_bucket", "sliding_log", "sliding_window", "fixed_window, coordination: eventual", "token_bucket, coordination: gossip"} {
			s := startWithRecords(t, "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 20, per: 300d, algorithm: "+algorithm+"}\n", url,
				func(c *settings.Config) {
					c.Namespace = strings.NewReplacer(",", "", " ", "", ":", "").Replace(algorithm)
				})
			all := 0
			for i, step := range []struct {
				requests uint32 // 0: no override
				until    int    // requests that passed in all after it
			}{{0, 20}, {30, 30}, {10, 30}, {0, 30}, {45, 45}, {0, 45}, {20, 45}, {46, 46}} {
				o := records.Override{Target: "user=x", Rule: "api/user", Requests: step.requests}
				switch {
				case step.requests > 0:
					s.edit(records.Edit{Put: o})
				case i > 0:
					s.edit(records.Edit{Delete: o.ID()})
				}
				if all += s.passed("x", 30); all != step.until {
					t.Errorf("%s, %s, step %d, %d requests: %d passed in all, want %d", store, algorithm, i, step.requests, all, step.until)
				}
			}
			s.edit(records.Edit{Put: records.Override{Target: "user=x", Rule: "api/user", Unlimited: true}})
			if n := s.passed("x", 30); n != 30 {
				t.Errorf("%s, %s: %d of 30 passed without a limit", store, algorithm, n)
			}
			s.edit(records.Edit{Delete: records.Override{Target: "user=x", Rule: "api/user"}.ID()})
			if n := s.passed("x", 5); n != 0 {
				t.Errorf("%s, %s: %d passed after it", store, algorithm, n)
			}
		}
	}
}

// Whatever the coordination of a rule, nobody gets a second burst when an override begins and ends
// under load, by the clients' own record: in no window pass more than the larger of the numbers allow.
func TestOverrideUnderLoad(t *testing.T) {
	t.Parallel()
	own, told := busyBucket(", coordination: eventual"), busyBucket(", coordination: gossip")
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			for _, rules := range []string{busyBucket(""), busyBucket(leasedWords), dividedBucket("20%"), own, told} {
				url := store
				if store == "redis" {
					url = testkit.StartRedis(t).URL()
				}
				s := startWithRecords(t, rules, url, nil)
				for i, requests := range []uint32{1500, 300, 40} {
					may := float64(max(1000, requests))
					most := may
					if rules == own || rules == told {
						may += 300 // as in TestReloadModes
					}
					pass(400 * time.Millisecond) // local shares fill up
					user := fmt.Sprint("user", i)
					plan := loadtest.Fleet{
						Nodes: []string{"http://" + s.Addr("http")}, Callers: 4, Pause: 500 * time.Microsecond, Each: 1 << 20,
						Questions: []string{loadtest.Question("api", "user", user, 1), loadtest.Question("api", "user", user, 5)},
					}
					ctx, stop := context.WithCancel(t.Context())
					var record loadtest.FleetRecord
					var failed error
					done := make(chan struct{})
					go func() { record, failed = plan.Run(ctx); close(done) }()
					o := records.Override{Target: "user=" + user, Rule: "api/user", Requests: requests, Burst: requests}
					pass(200 * time.Millisecond)
					s.edit(records.Edit{Put: o})
					pass(100 * time.Millisecond)
					if answer := s.ask(t, "user="+user); !strings.Contains(answer, fmt.Sprintf(`"limit":%d,`, requests)) {
						t.Errorf("the override is not in force: %s", answer)
					}
					s.edit(records.Edit{Delete: o.ID()})
					pass(100 * time.Millisecond)
					stop()
					<-done
					testkit.Must(t, failed)
					passed := weighed(record.Answers)
					worst := loadtest.WorstOf(passed, may, most)
					t.Logf("%d requests: %d of %d passed; in the worst window, of %v, %d where %.0f may", requests, len(passed), len(record.Answers), worst.Length, worst.Passed, worst.May)
					if worst.Over() > 0 || len(passed) == 0 {
						t.Errorf("%s\noverride to %d: %.0f too many passed in %v, %d in all", rules, requests, worst.Over(), worst.Length, len(passed))
					}
				}
			}
		})
	}
}

// An override of a rule whose limit is divided changes what the store has, and not the share of the
// process, which is used up when the process starts.
func TestOverrideOfDivided(t *testing.T) {
	t.Parallel()
	rules := strings.ReplaceAll(dividedBucket("10%"), "per: 1s", "per: 1h")
	s := startWithRecords(t, rules, testkit.StartRedis(t).URL(), nil)
	s.edit(records.Edit{Put: records.Override{Target: "user=more", Rule: "api/user", Requests: 1500}})
	s.edit(records.Edit{Put: records.Override{Target: "user=less", Rule: "api/user", Requests: 300}})
	s.edit(records.Edit{Put: records.Override{Target: "user=little", Rule: "api/user", Requests: 50}}) // less than the share: the store decides alone
	for user, want := range map[string][2]int{"more": {1400, 1420}, "less": {200, 220}, "little": {50, 51}, "other": {900, 920}} {
		if n := s.passed(user, 1600); n < want[0] || n > want[1] {
			t.Errorf("user %s: %d passed, want %d to %d", user, n, want[0], want[1])
		}
	}
}

// A service denies the banned, in the protocols that it serves, until the ban is deleted.
func TestServiceBans(t *testing.T) {
	t.Parallel()
	s := startWithRecords(t, demoRules, "memory", func(c *settings.Config) {
		c.TrustedProxies, c.AuthDomain, c.Demo = []string{"127.0.0.0/8"}, "demo", "demo"
	})
	ban := records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24"), Until: time.Now().Add(time.Hour)}
	question := http.Header{"X-Original-Uri": {"/"}, "X-Original-Method": {"GET"}, "X-Forwarded-For": {"192.0.2.7"}}
	for i, step := range []struct {
		edit records.Edit
		want int
	}{{records.Edit{Put: ban}, 403}, {records.Edit{Delete: ban.ID()}, 200}, {records.Edit{Put: ban}, 403}} {
		s.edit(step.edit)
		if got := s.askAuth("", question); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
	s.edit(records.Edit{Put: records.Ban{Network: netip.MustParsePrefix("127.0.0.0/8")}})
	if status, _, body := s.get("http", "/demo"); status != 403 || !strings.Contains(body, `"code":"banned"`) {
		t.Errorf("/demo: %d %s", status, body)
	}
	s.edit(records.Edit{Put: records.Ban{Subject: "user=x"}})
	if answer := s.ask(t, "user=x"); !strings.Contains(answer, `"reason":"banned"`) {
		t.Error(answer)
	}
	if a, b := s.metric(`stint_banned_total{by="address"}`), s.metric(`stint_banned_total{by="subject"}`); a != 3 || b != 1 {
		t.Errorf("%v addresses and %v subjects are counted", a, b)
	}
}

// An override that does not fit is logged and counted, and harms nobody.
func TestServiceMisfit(t *testing.T) {
	t.Parallel()
	s := startWithRecords(t, rulesOf(2), "memory", nil)
	s.edit(records.Edit{Put: records.Override{Target: "user=x", Rule: "api/user", Burst: 7}})
	if n := s.passed("x", 5); n != 2 {
		t.Errorf("%d passed, want 2", n)
	}
	s.log.await(t, 0, "an override does not fit its rule", "rule=api/user", "burst", "hint=")
	if n := s.metric("stint_override_misfits_total"); n != 1 {
		t.Errorf("%v misfits", n)
	}
	if strings.Contains(s.log.String(), "user=x") {
		t.Error("the log names the client")
	}
}

// Rules that need records are refused where there are none, at the start and at a reload.
func TestRulesNeedRecords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	needs := "domain: api\nhttp:\n  rate_limits:\n    - actions: [{api_key: {header_name: x-api-key, from: records}}]\n"
	write(t, file, needs)
	config := settings.Default()
	config.Rules = []string{file}
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "rules.yaml:4: api_key: from: records") || !strings.Contains(err.Error(), "--records") {
		t.Errorf("New: %v", err)
	}
	write(t, file, rulesOf(1))
	s := start(t, func(c *settings.Config) { c.Rules = []string{file} })
	write(t, file, needs)
	if err := s.Reload("test"); err == nil || !strings.Contains(err.Error(), "--records") {
		t.Errorf("Reload: %v", err)
	}
	if s.limit("x") != 1 {
		t.Error("the old rules are not in force")
	}
}

// An API key of the records identifies its client for proxies, and neither log nor metrics show it.
func TestServiceAPIKeys(t *testing.T) {
	t.Parallel()
	s := startWithRecords(t, `domain: api
descriptors: [{key: user, rate_limit: {requests: 2, per: 1h}}]
http: {rate_limits: [{actions: [{api_key: {header_name: x-api-key, from: records, invalid: deny}}]}]}
`, "memory", func(c *settings.Config) { c.TrustedProxies, c.AuthDomain = []string{"127.0.0.0/8"}, "api" })
	text, key := samples.Key(t, "user=42")
	s.edit(records.Edit{Put: key})
	ask := func(key string) int {
		return s.askAuth("", http.Header{"X-Original-Uri": {"/"}, "X-Original-Method": {"GET"}, "X-Forwarded-For": {"192.0.2.7"}, "X-Api-Key": {key}})
	}
	for i, want := range []int{200, 200, 429} {
		if got := ask(text); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	if got := ask(text + "x"); got != 401 {
		t.Errorf("a bad key: %d", got)
	}
	s.edit(records.Edit{Delete: key.ID()})
	if got := ask(text); got != 401 {
		t.Errorf("a revoked key: %d", got)
	}
	_, _, metrics := s.get("admin", "/metrics")
	if secret := text[len(text)-20:]; strings.Contains(metrics, secret) || strings.Contains(s.log.String(), secret) {
		t.Error("metrics or log show the key")
	}
}

// A file that cannot be read denies nobody: the rule's numbers apply, and the failure is logged and
// counted. Banned networks are in memory.
func TestRecordsUnreadable(t *testing.T) {
	t.Parallel()
	s := startWithRecords(t, rulesOf(2), "memory", nil)
	s.edit(records.Edit{Put: records.Override{Target: "user=x", Rule: "api/user", Requests: 9}})
	s.edit(records.Edit{Put: records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24")}})
	testkit.Must(t, s.records.Close())
	if n := s.passed("x", 5); n != 2 {
		t.Errorf("%d passed, want 2", n)
	}
	if answer := s.ask(t, "remote_address=192.0.2.7"); !strings.Contains(answer, `"reason":"banned"`) {
		t.Error(answer)
	}
	s.log.await(t, 0, "level=ERROR", "cannot read the records", "before=0")
	if n := s.metric("stint_record_lookup_failures_total"); n != 5 {
		t.Errorf("%v failures, want 5", n)
	}
}
