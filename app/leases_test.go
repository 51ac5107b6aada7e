package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/internal/testkit"
	"stint/loadtest"
	"stint/server/httpapi/limitjson"
)

// busyBucket returns a rule of 1,000 at once and as many a second, with more lines.
func busyBucket(more string) string {
	return "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 1000, per: 1s, burst: 1000, algorithm: token_bucket, on_store_failure: deny" + more + "}\n"
}

// Lines that make a rule leased, and divide it.
const (
	leasedWords  = ", coordination: leased"
	dividedWords = leasedWords + ", on_store_failure: local, nodes: 1, local_share: "
)

func dividedBucket(share string) string {
	return strings.Replace(busyBucket(dividedWords+share), ", on_store_failure: deny", "", 1)
}

// held are the holders of units in /v1/inspect.
type held struct {
	Epoch int64 `json:"epoch_ms"`
	Lent  int64
	Nodes []struct {
		Node  string
		Units int64
		Age   int64 `json:"age_ms"`
		Here  bool
	}
	Here struct {
		Node  string
		Units int64
	}
	Own        *struct{ Limit, Remaining int64 }
	Losses     []limitjson.LeaseLoss
	StoreError string `json:"store_error"`
}

// holders returns the holders of a user's key.
func (s *service) holders(user string) held {
	s.t.Helper()
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": %q}]}]}`
	status, _, body := s.do(http.MethodPost, "admin", "/v1/inspect", fmt.Sprintf(question, user))
	var answer struct{ Limits []struct{ Leases *held } }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.Limits) != 1 || answer.Limits[0].Leases == nil {
		s.t.Fatalf("status %d, error %v: %s", status, err, body)
	}
	return *answer.Limits[0].Leases
}

// /v1/inspect shows who has how many units of a leased key: on one server, on several and on a
// Cluster.
func TestInspectLeases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		url  func(*testing.T) string
	}{
		{"one server", func(t *testing.T) string { return testkit.StartRedis(t).URL() }},
		{"three servers", func(t *testing.T) string { _, url := threeServers(t); return url }},
		{"a Cluster", func(t *testing.T) string { return steadyCluster(t).URL() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, url := filepath.Join(t.TempDir(), "rules.yaml"), test.url(t)
			write(t, file, dividedBucket("10%"))
			nodes := [2]*service{}
			for i := range nodes {
				nodes[i] = start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, url, patient })
			}
			if h := nodes[0].holders("x"); h.Lent != 0 || len(h.Nodes) != 0 || h.Here.Node == "" || h.Own == nil || h.Own.Limit != 100 {
				t.Errorf("nothing is lent: %+v", h)
			}
			testkit.Until(t, "both hold some", func() bool {
				for range 20 {
					for _, s := range nodes {
						s.ask(t, "user=x")
					}
				}
				h := nodes[0].holders("x")
				sum, here := int64(0), 0
				for _, n := range h.Nodes {
					sum += n.Units
					if n.Here {
						here++
					}
					if n.Here != (n.Node == h.Here.Node) || n.Age < 0 || n.Age > 30_000 {
						t.Fatalf("%+v", h)
					}
				}
				if sum != h.Lent || sum > 250 {
					t.Fatalf("%+v", h)
				}
				return len(h.Nodes) == 2 && here == 1 && h.Epoch > 0 && h.Here.Units > 0
			})
			testkit.Until(t, "all leases are returned", func() bool {
				h := nodes[0].holders("x")
				return h.Lent == 0 && h.Here.Units == 0 && h.StoreError == ""
			})
			of := func(name string) float64 {
				return nodes[0].metric("stint_lease_rule_" + name + `{domain="api",rule="api/user"}`)
			}
			calls, stranded := of("store_calls_ratio"), of("stranded_ratio")
			if of("lent_units_total") == 0 || of("own_total") == 0 || calls <= 0 || calls > 1 || stranded <= 0 || stranded > 1 {
				t.Errorf("lent %v, from its own part %v, store calls per decision %v, stranded %v",
					of("lent_units_total"), of("own_total"), calls, stranded)
			}
		})
	}
}

// Whatever the coordination of a rule, and whenever it changes, nobody gets a second burst, by the
// clients' own record: for each change an unused key is used up while it happens.
func TestReloadModes(t *testing.T) {
	strict, leased := busyBucket(""), busyBucket(leasedWords)
	little, some, much := dividedBucket("5%"), dividedBucket("20%"), dividedBucket("40%")
	own, told := busyBucket(", coordination: eventual"), busyBucket(", coordination: gossip")
	steps := []string{leased, some, strict, some, much, little, much, leased, much, strict, leased, strict, own, strict, own, leased, told, own, told, some, told, strict, told, leased}
	if testing.Short() {
		steps = []string{some, leased, little, own, told, strict}
	}
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			url := store
			if store == "redis" {
				url = testkit.StartRedis(t).URL()
			}
			file := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, file, strict)
			s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, url, patient })
			at, before := 0, strict
			for i, rules := range steps {
				may := 1000.0
				if own == rules || own == before || told == rules || told == before {
					may += 300 // the node computes the refill by its own clock, to within an exchange; a burst is far more
				}
				before = rules
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
				pass(200 * time.Millisecond)
				write(t, file, rules)
				testkit.Must(t, s.Reload("test"))
				at = s.log.await(t, at, "rules loaded", "reason=test")
				pass(100 * time.Millisecond)
				stop()
				<-done
				testkit.Must(t, failed)
				passed := weighed(record.Answers)
				worst := loadtest.WorstOf(passed, may, 1000)
				t.Logf("change %2d: %d of %d passed; in the worst window, of %v, %d where %.0f may", i, len(passed), len(record.Answers), worst.Length, worst.Passed, worst.May)
				if worst.Over() > 0 || len(passed) == 0 {
					t.Errorf("change %d: %.0f too many passed in %v, %d in all", i, worst.Over(), worst.Length, len(passed))
				}
			}
		})
	}
}

// While Redis is frozen a node passes its local share, as ordinary answers, and denies the rest as
// degraded; in no window do two nodes pass more than the limit.
func TestDividedThroughOutage(t *testing.T) {
	t.Parallel()
	server, file := testkit.StartRedis(t), filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, strings.Replace(dividedBucket("4%"), "nodes: 1", "nodes: 2", 1)) // small enough to be used up, however slow the requests are
	plan := loadtest.Fleet{
		Callers: 2, Pause: 2 * time.Millisecond, Each: 1 << 20,
		Questions: []string{loadtest.Question("api", "user", "x", 1), loadtest.Question("api", "user", "x", 5)},
	}
	for range 2 {
		s := start(t, func(c *settings.Config) { c.Rules, c.Store = []string{file}, server.URL() })
		plan.Nodes = append(plan.Nodes, "http://"+s.Addr("http"))
	}
	ctx, stop := context.WithCancel(t.Context())
	var record loadtest.FleetRecord
	var failed error
	done := make(chan struct{})
	began := time.Now()
	go func() { record, failed = plan.Run(ctx); close(done) }()
	pass(300 * time.Millisecond)
	server.Freeze()
	pass(stint.LeaseTime) // leases of nodes are over by then
	from := time.Since(began)
	pass(700 * time.Millisecond)
	until := time.Since(began)
	server.Thaw()
	pass(300 * time.Millisecond)
	stop()
	<-done
	testkit.Must(t, failed)
	frozen := record.Of(func(a *loadtest.FleetAnswer) bool { return a.Sent > from && a.Answered < until })
	passed, denied := 0, 0
	for _, a := range frozen {
		switch {
		case a.Allowed && a.Degraded:
			t.Fatal("something passed that nobody counted")
		case a.Allowed:
			passed += 1 + 4*a.Question
		case a.Degraded:
			denied++
		}
	}
	worst := loadtest.WorstOf(weighed(record.Answers), 1000, 1000)
	t.Logf("%d passed and %d were denied as degraded in %v without a store; in the worst window, of %v, %d where %.0f may",
		passed, denied, until-from, worst.Length, worst.Passed, worst.May)
	if most := 40 + int(40*(until-from).Seconds()); passed == 0 || passed > most || denied == 0 {
		t.Errorf("want 1 to %d, and some that are denied", most)
	}
	if worst.Over() > 0 {
		t.Errorf("%.0f too many in %v", worst.Over(), worst.Length)
	}
}

// weighed returns the answers that passed, each as often as its cost.
func weighed(answers []loadtest.FleetAnswer) (all []loadtest.FleetAnswer) {
	for _, a := range answers {
		for range 1 + 4*a.Question {
			if a.Allowed {
				all = append(all, a)
			}
		}
	}
	return all
}

// A Redis that starts again with all its data ends no day: a leased limit of 10,000 a day goes on
// where it was, and the log and a metric name the change.
func TestRestartWithDataEndsNoDay(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t, "--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always")
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 10000, coordination: leased, on_store_failure: deny}\n")
	s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), patient })
	passed := 0
	asks := func() {
		for range 200 {
			if strings.Contains(s.ask(t, "user=x"), `"allowed":true`) {
				passed++
			}
		}
	}
	testkit.Until(t, "the node holds some", func() bool { asks(); return s.holders("x").Here.Units > 0 })
	server.Restart()
	testkit.Until(t, "the restart is noticed", func() bool { return s.metric("stint_store_lost_total") == 1 })
	s.log.await(t, 0, "the store may have lost counts", "leased_keys=")
	before := passed
	testkit.Until(t, "requests pass", func() bool { asks(); return passed > before })
	testkit.Until(t, "all is at home", func() bool {
		h := s.holders("x")
		return h.Lent == 0 && h.Here.Units == 0 && h.StoreError == ""
	})
	var left struct {
		Limits []struct{ Remaining int }
	}
	_, _, body := s.do(http.MethodPost, "admin", "/v1/inspect", `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "x"}]}]}`)
	if err := json.Unmarshal([]byte(body), &left); err != nil || len(left.Limits) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	// What the node held when the server ended is not charged twice, nor forgotten: it may have
	// been written off, which is at most what can be lent.
	if n := left.Limits[0].Remaining; n > 10_000-passed || n < 10_000-passed-2500 {
		t.Errorf("%d passed and %d remain of 10000", passed, n)
	}
}

// The log, the metrics and /v1/inspect name each change of epoch, and the same numbers of keys that it touches: by
// what after_loss makes of them, on one server, and on the server of a Cluster that lost them.
func TestLossNamesKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		start func(*testing.T) (url string, servers []*testkit.RedisServer)
	}{
		{"one server", func(t *testing.T) (string, []*testkit.RedisServer) {
			one := testkit.StartRedis(t)
			return one.URL(), []*testkit.RedisServer{one}
		}},
		{"a Cluster", func(t *testing.T) (string, []*testkit.RedisServer) {
			c := steadyCluster(t)
			return c.URL(), c.Primaries()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, servers := test.start(t)
			file := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, file, busyBucket(leasedWords+"}\n  - key: kept\n    rate_limit: {requests: 100000, per: 1d, burst: 100000, algorithm: token_bucket, coordination: leased"))
			s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, url, patient })
			ask := func() {
				for range 5 {
					s.ask(t, "user=x")
					s.ask(t, "user=y")
					s.ask(t, "kept=x")
				}
			}
			testkit.Until(t, "the keys are busy", func() bool { ask(); return s.metric("stint_lease_keys") == 3 && s.holders("x").Here.Units > 0 })
			if h := s.holders("x"); len(h.Losses) != 0 {
				t.Errorf("before a loss: %+v", h.Losses)
			}
			for _, one := range servers {
				one.Do("FLUSHALL")
			}
			testkit.Until(t, "the losses are noticed", func() bool {
				ask()
				return strings.Count(s.log.String(), "the store may have lost counts") == len(servers)
			})
			usedUp, kept := s.metric(`stint_lease_lost_keys_total{after_loss="used_up"}`), s.metric(`stint_lease_lost_keys_total{after_loss="kept"}`)
			units := s.metric("stint_lease_lost_units_total")
			if usedUp != 2 || kept != 1 || s.metric("stint_store_lost_total") != float64(len(servers)) {
				t.Errorf("metrics: %v keys used up, %v kept, %v units", usedUp, kept, units)
			}
			var logged [3]float64
			for line := range strings.Lines(s.log.String()) {
				if strings.Contains(line, "the store may have lost counts") {
					for i, word := range []string{" used_up_keys=", " kept_keys=", " leased_units="} {
						_, rest, _ := strings.Cut(line, word)
						n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
						testkit.Must(t, err)
						logged[i] += n
					}
				}
			}
			if logged != [3]float64{usedUp, kept, units} {
				t.Errorf("the log has %v, the metrics %v", logged, [3]float64{usedUp, kept, units})
			}
			h := s.holders("x")
			if len(h.Losses) != 1 || h.Losses[0].AtMS == 0 {
				t.Fatalf("inspect has %+v", h.Losses)
			}
			if one := h.Losses[0]; len(servers) == 1 && (one.UsedUp != 2 || one.Kept != 1 || float64(one.Units) != units) || one.UsedUp < 1 {
				t.Errorf("inspect has %+v", one)
			}
		})
	}
}
