package monitoring

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"stint/app"
	"stint/app/settings"
	_ "stint/gateway"
	"stint/gateway/gatewaytest"
	"stint/internal/testkit"
	"stint/internal/text"
	"stint/notify"
)

// series are metrics: the values of each label, by the name of the metric.
type series map[string]map[string][]string

// nameLabel is the label in which the parser puts the name of a metric.
const nameLabel = "__name__"

// scraped are the labels that Prometheus adds to all series of a process.
var scraped = []string{"instance", "job"}

var emptyLabel = regexp.MustCompile(`(\w+)=""`)

// add adds the metrics in a text of Prometheus.
func (s series) add(t *testing.T, metrics string) {
	t.Helper()
	read := parser.NewParser(parser.Options{})
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		one, err := read.ParseMetric(line[:strings.LastIndexByte(line, ' ')])
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		name := one.Get(nameLabel)
		if s[name] == nil {
			s[name] = map[string][]string{}
		}
		has := func(label, value string) {
			if label != nameLabel && !slices.Contains(s[name][label], value) {
				s[name][label] = append(s[name][label], value)
			}
		}
		one.Range(func(l labels.Label) { has(l.Name, l.Value) })
		for _, empty := range emptyLabel.FindAllStringSubmatch(line, -1) { // ParseMetric leaves them out
			has(empty[1], "")
		}
	}
}

// client ignores certificates: all servers are on this machine, with authorities of the test.
var client = &http.Client{
	Timeout:   time.Minute,
	Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// get returns the answer to a GET.
func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := client.Get(url)
	testkit.Must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	testkit.Must(t, err)
	return string(body)
}

// serve starts a service until the test ends, and returns its metrics after ask.
func serve(t *testing.T, rules string, change func(*settings.Config), ask func(s *app.App)) string {
	t.Helper()
	config := settings.Default()
	config.HTTP, config.Admin, config.GRPC, config.Output = "127.0.0.1:0", "127.0.0.1:0", "", new(text.OutputBuffer)
	config.StoreTimeout = time.Minute
	config.Rules = []string{write(t, "rules.yaml", rules)}
	change(&config)
	s, err := app.New(config)
	testkit.Must(t, err)
	testkit.Must(t, s.Start(t.Context()))
	t.Cleanup(func() { s.Stop(context.Background()) })
	ask(s)
	return get(t, "http://"+s.Addr("admin")+"/metrics")
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const aloneRules = `domain: api
exempt: [{key: user, values: [office], name: offices}]
descriptors:
  - key: user
    rate_limit: {requests: 10, per: 1h}
  - key: guest
    rate_limit: {requests: 10, per: 1h, elastic: {from: load, below: 70%, upto: 200%, gauge: cpu}}
  - key: account
    rate_limit: {requests: 10, per: 1d, durable: true}
`

const lineRules = `domain: demo
descriptors:
  - key: remote_address
    rate_limit: {requests: 1, per: 200ms, algorithm: token_bucket, burst: 1, excess: {mode: wait, max_wait: 1m, places: 10}}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

// alone returns the metrics of a service with all that needs no other process.
func alone(t *testing.T) string {
	cert, key := testkit.NewAuthority(t).Sign(t, time.Hour, "127.0.0.1")
	return serve(t, lineRules, func(c *settings.Config) {
		dir := t.TempDir()
		c.Rules = append(c.Rules, write(t, "api.yaml", aloneRules))
		c.Demo, c.State, c.Records = "demo", write(t, "state", "no counts"), filepath.Join(dir, "records") // so counts of a durable rule were lost
		c.StateInterval = 10 * time.Millisecond
		c.Webhooks = []notify.Receiver{{Name: "queue", File: filepath.Join(dir, "events")}}
		c.HTTPTLS.Cert, c.HTTPTLS.Key = write(t, "cert.pem", string(cert)), write(t, "key.pem", string(key))
	}, func(s *app.App) {
		load, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+s.Addr("admin")+"/v1/load/cpu", strings.NewReader(`{"load": 0.5, "ttl": "1m"}`))
		testkit.Must(t, err)
		answer, err := client.Do(load)
		testkit.Must(t, err)
		testkit.Must(t, answer.Body.Close())
		get(t, "https://"+s.Addr("http")+"/demo")
		get(t, "https://"+s.Addr("http")+"/demo") // waits
		testkit.Until(t, "the state is saved", func() bool {
			return strings.Contains(get(t, "http://"+s.Addr("admin")+"/metrics"), "stint_state_last_success_timestamp_seconds ")
		})
	})
}

const sharedRules = `domain: shared
descriptors:
  - key: leased
    rate_limit: {requests: 1000, per: 1s, algorithm: token_bucket, coordination: leased}
  - key: eventual
    rate_limit: {requests: 1000, per: 1s, algorithm: token_bucket, coordination: eventual}
`

// shared returns the metrics of a service whose counts and records are in Redis.
func shared(t *testing.T) string {
	redis := testkit.StartRedis(t)
	return serve(t, sharedRules, func(c *settings.Config) {
		c.Store, c.Records, c.RecordsCopy = redis.URL(), redis.URL(), filepath.Join(t.TempDir(), "copy")
	}, func(*app.App) {})
}

const gossipRules = `domain: gossip
descriptors:
  - key: user
    rate_limit: {requests: 1000, per: 1s, algorithm: token_bucket, coordination: gossip}
`

// gossiping returns the metrics of a node of gossip.
func gossiping(t *testing.T) string {
	return serve(t, gossipRules, func(c *settings.Config) { c.Gossip.Addr = testkit.Address(t) }, func(*app.App) {})
}

const queueRules = `domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: orders, requests: 1, per: 1h, excess: {mode: queue, methods: [GET], places: 20}}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

const queueSite = `
{
	GLOBAL
	metrics
	stint {
		rules DIR/rules.yaml
		queue DIR/queue.db
		queue_key_file DIR/keys
	}
}
http://ADDRESS {
	handle /metrics {
		metrics
	}
	handle {
		stint_deny DIR/deny.txt
		stint api
		respond ok
	}
}
`

// queueing returns the metrics of a gateway with a queue and a list.
func queueing(t *testing.T) string {
	g := gatewaytest.New(t)
	g.Write("rules.yaml", queueRules)
	g.Write("keys", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
	g.Write("deny.txt", "192.0.2.66\n")
	testkit.Must(t, g.Load(queueSite))
	first, second := g.Get("/orders"), g.Get("/orders")
	if first.Status != http.StatusOK || second.Status != http.StatusAccepted {
		t.Fatalf("%d %s, then %d %s", first.Status, first.Body, second.Status, second.Body)
	}
	return g.Get("/metrics").Body
}

// Each metric, label and value in a query of the dashboard or of an alert exists in a process that
// runs.
func TestQueries(t *testing.T) {
	known := series{"up": {}} // Prometheus makes it for each process
	for _, run := range []func(*testing.T) string{alone, shared, gossiping, queueing} {
		known.add(t, run(t))
	}
	d := readDashboard(t)
	all := d.queries(t)
	for _, a := range readAlerts(t) {
		all = append(all, query{"alert " + a.Alert, a.Expr, a.Annotations["summary"] + a.Annotations["description"]})
	}
	for _, q := range all {
		for _, fault := range q.check(known) {
			t.Error(fault)
		}
	}
	if len(all) < 100 {
		t.Errorf("only %d queries were found", len(all))
	}
}

// The check of queries finds what is wrong.
func TestQueriesNotice(t *testing.T) {
	known := series{}
	known.add(t, "stint_denied_total{domain=\"api\",rule=\"user\"} 1\n")
	for _, q := range []struct{ text, legend, want string }{
		{"rate(stint_denied_total[5m])", "{{rule}} {{job}}", ""},
		{"sum by (rule) (rate(stint_denied_total[5m]))", "{{ $labels.rule }}", ""},
		{"sum(rate(stint_denied_total[5m])", "", "unclosed"},
		{"sum(rate(stint_refused_total[5m]))", "", "no process has"},
		{`stint_denied_total{route="x"}`, "", "has no label"},
		{`stint_denied_total{rule="other"}`, "", "no series of"},
		{"sum by (route) (stint_denied_total)", "", "no series below"},
		{"sum by (rule) (stint_denied_total)", "{{domain}}", "its result has no label"},
	} {
		faults := query{"here", q.text, q.legend}.check(known)
		if got := strings.Join(faults, "\n"); (got == "") != (q.want == "") || !strings.Contains(got, q.want) {
			t.Errorf("%s: %q, want %q", q.text, got, q.want)
		}
	}
}
