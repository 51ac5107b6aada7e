package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/records"
)

const planRules = `
domain: api
plans:
  free: {api: {requests: 5, per: 300d}}
  pro:
    api:
      - {requests: 20, unit: year, time_zone: Europe/Berlin}
      - {requests: 12, per: 300d, algorithm: token_bucket, name: rush}
default_plan: free
descriptors:
  - {key: user, rate_limit: {plan: api}}
`

// give gives a user a plan.
func (s *service) give(user, plan string) {
	s.t.Helper()
	s.edit(records.Edit{Put: records.Subject{Name: "user=" + user, Kind: records.User, Plan: plan}})
}

// adminDo sends a request to the admin API.
func adminDo(t *testing.T, s *service, method, path, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr("admin")+path, bytes.NewReader([]byte(body)))
	testkit.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, answer.Body.Close()) }()
	read, err := io.ReadAll(answer.Body)
	testkit.Must(t, err)
	return answer.StatusCode, string(read)
}

// A change of plan is in force at once, and a client keeps what it used, up, down and back again: in
// memory and in Redis, and over a change of a plan among the records.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory", "redis"} {
		url := store
		if store == "redis" {
			url = testkit.StartRedis(t).URL()
		}
		s := startWithRecords(t, planRules, url, nil)
		all := 0
		expect := func(step string, until int) {
			t.Helper()
			if all += s.passed("x", 30); all != until {
				t.Errorf("%s, %s: %d passed in all, want %d", store, step, all, until)
			}
		}
		put := func(limits string, status int, want string) {
			t.Helper()
			if got, text := adminDo(t, s, "PUT", "/v1/plans/gold", limits); got != status || !strings.Contains(text, want) {
				t.Errorf("%s: PUT %s: %d %s, want %d %s", store, limits, got, text, status, want)
			}
		}
		expect("free", 5)
		s.give("x", "pro")
		expect("pro", 17) // the burst has 12 of its own
		s.give("x", "")
		expect("free again", 17)
		s.give("x", "pro")
		expect("pro again", 17)
		s.give("x", "gold")
		expect("an unknown plan", 17)
		put(`{"limits": {"api": {"requests": 25, "per": "300d"}}}`, 201, `"plan":"gold","limits":{"api":{"requests":25,"per":"300d"}}`)
		expect("gold", 25)
		put(`{"limits": {"api": {"requests": 30, "per": "300d"}}}`, 200, `"requests":30`)
		expect("more gold", 30)
		put(`{"limits": {"api": {"requests": 99, "per": "300d", "algorithm": "sliding_log"}}}`, 400, "is a sliding_log, and in plan free it is a fixed_window")
		put(`{"limits": {"api": {"requests": 99}}}`, 400, "without a period")
		put(`{"limits": [1]}`, 400, "limits")
		expect("refused gold", 30)
		if status, text := adminDo(t, s, "PUT", "/v1/plans/pro", `{"limits": {"api": {"requests": 99, "per": "300d"}}}`); status != 400 || !strings.Contains(text, "plan pro stands twice") {
			t.Errorf("a plan of a rule file: %d %s", status, text)
		}
		key := `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "x"}]}]}`
		for _, path := range []string{"/v1/inspect", "/v1/why"} {
			status, text := adminDo(t, s, "POST", path, key)
			if status != 200 || !strings.Contains(text, `"plan":"gold","plans":["free","gold","pro"]`) || !strings.Contains(text, `"requests":30`) || strings.Contains(text, "rush") {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		if status, text := adminDo(t, s, "GET", "/v1/limits", ""); status != 200 || !strings.Contains(text, `"plan":"free","plans":["free","gold","pro"]`) || !strings.Contains(text, `"plan":"pro","plans":["pro"]`) {
			t.Errorf("%d %s", status, text)
		}
		testkit.Must(t, s.Reload("test"))
		put(`{"limits": {"api": {"unlimited": true}}}`, 200, "unlimited")
		expect("unlimited gold", 60)
		s.edit(records.Edit{Delete: records.ID{Kind: records.Plans, Name: "gold"}})
		expect("deleted gold", 60)
		if answer := s.ask(t, "user=x"); !strings.Contains(answer, `"reason":"no_plan"`) {
			t.Error(answer)
		}
		if answer := s.ask(t, "user=y"); !strings.Contains(answer, `"allowed":true,"rule":"api/user#1"`) {
			t.Error(answer)
		}
	}
}

// Plans of records are in force again after a restart. If the rule files have a plan of that name
// meanwhile, the service starts, says so, and the plan of the files is in force.
func TestPlansAfterRestart(t *testing.T) {
	t.Parallel()
	var file, rules string
	s := startWithRecords(t, planRules, "memory", func(c *settings.Config) { file, rules = c.Records, c.Rules[0] })
	s.edit(records.Edit{Put: records.Plan{Name: "gold", Limits: []byte(`{"api": {"requests": 25, "per": "300d"}}`)}})
	s.give("x", "gold")
	again := func() *service {
		s.Stop(t.Context())
		return start(t, func(c *settings.Config) { c.Rules, c.Store, c.Records = []string{rules}, "memory", file })
	}
	s = again()
	if n := s.passed("x", 30); n != 25 {
		t.Errorf("%d passed", n)
	}
	write(t, rules, strings.Replace(planRules, "  pro:", "  gold: {api: {requests: 3, per: 300d}}\n  pro:", 1))
	s = again()
	s.log.await(t, 0, "level=ERROR", "plans of the records refused", "plan gold stands twice")
	if n := s.passed("x", 30); n != 3 {
		t.Errorf("%d passed", n)
	}
}

// Nodes that share their records have a plan, and a change of a client's plan, within a second.
func TestPlansOfNodes(t *testing.T) {
	t.Parallel()
	redis := testkit.StartRedis(t).URL()
	share := func(c *settings.Config) { c.Records, c.RecordsCopy = redis, filepath.Join(t.TempDir(), "copy.db") }
	one := startWithRecords(t, planRules, redis, share)
	other := startWithRecords(t, planRules, redis, share)
	waitFor := func(what string, done func() bool) {
		t.Helper()
		began := time.Now()
		for !done() {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%s: not in force on the other node", what)
			}
			time.Sleep(10 * time.Millisecond) // the other node is polled
		}
		t.Logf("%s: in force after %v", what, time.Since(began))
	}
	one.edit(records.Edit{Put: records.Plan{Name: "gold", Limits: []byte(`{"api": {"requests": 7, "per": "300d"}}`)}})
	one.give("x", "gold")
	waitFor("a plan", func() bool { return strings.Contains(other.ask(t, "user=x"), `"limit":7`) })
	one.give("x", "pro")
	waitFor("a change of plan", func() bool { return strings.Contains(other.ask(t, "user=x"), `"limit":12`) })
}

// A node whose rules do not fit the plans of another node keeps what it has, says so, and has these plans when
// its rules fit, without a restart. So it is if it starts with such rules.
func TestRefusedPlansAreTriedAgain(t *testing.T) {
	t.Parallel()
	redis := testkit.StartRedis(t).URL()
	one := startWithRecords(t, planRules, redis, func(c *settings.Config) { c.Records, c.RecordsCopy = redis, filepath.Join(t.TempDir(), "copy.db") })
	var rules string
	folder := t.TempDir()
	share := func(c *settings.Config) {
		c.Records, c.RecordsCopy, rules = redis, filepath.Join(folder, "copy.db"), c.Rules[0]
	}
	gold := func(requests int) string {
		return strings.Replace(planRules, "  pro:", fmt.Sprintf("  gold: {api: {requests: %d, per: 300d}}\n  pro:", requests), 1)
	}
	other := startWithRecords(t, gold(3), redis, share)
	one.give("x", "gold")
	limit := func(n *service, want int) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("a limit of %d is in force", want), func() bool { return strings.Contains(n.ask(t, "user=x"), fmt.Sprintf(`"limit":%d`, want)) })
	}
	limit(other, 3)
	put := func(requests int) {
		t.Helper()
		one.edit(records.Edit{Put: records.Plan{Name: "gold", Limits: fmt.Appendf(nil, `{"api": {"requests": %d, "per": "300d"}}`, requests)}})
	}
	const refused = "plans of the records refused: keeping the old ones, and trying again when rules or records change"
	put(7)
	at := other.log.await(t, 0, refused, "plan gold stands twice")
	limit(other, 3)
	write(t, rules, gold(4)) // they do not fit either, and are in force all the same
	at = other.log.await(t, at, refused, "plan gold stands twice")
	limit(other, 4)
	write(t, rules, planRules)
	at = other.log.await(t, at, "plans of the records fit the rules: using them")
	limit(other, 7)

	// Rules that do not fit plans in force are refused, as ever. Later plans may fit them.
	write(t, rules, gold(5))
	at = other.log.await(t, at, "rules refused: keeping the old ones", "plan gold stands twice")
	limit(other, 7)
	one.edit(records.Edit{Delete: records.ID{Kind: records.Plans, Name: "gold"}})
	limit(other, 5)

	put(8)
	other.log.await(t, at, refused)
	other.Stop(t.Context())
	other = start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout, c.Records, c.RecordsCopy = []string{rules}, redis, patient, redis, filepath.Join(folder, "copy.db")
	})
	limit(other, 5)
	write(t, rules, gold(6))
	limit(other, 6)
	put(9)
	write(t, rules, planRules)
	limit(other, 9)
}
