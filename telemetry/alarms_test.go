package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stint/facts"
	"stint/rule"
	"stint/rule/rulefile"
)

const alarmRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 10, per: 1m}
  - key: all
    value: requests
    rate_limit: {requests: 10, per: 1m, name: total}
  - key: tenant
    rate_limit: {requests: 10, per: 1m, elastic: {from: pool, upto: 200%}}
  - {key: pool, value: all, rate_limit: {requests: 10, per: 1m, name: pool}}
`

// watched is what alarms watch in a test.
type watched struct {
	*Alarms
	t       *testing.T
	now     time.Time
	rules   map[string]*facts.Rule
	evicted uint64
	nodes   []facts.Node
	log     bytes.Buffer
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), rules: map[string]*facts.Rule{}}
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(alarmRules)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Rules() {
		w.rules[r.Name] = &facts.Rule{Domain: r.Domain, Name: r.Name}
	}
	w.Alarms = NewAlarms(AlarmOptions{
		Facts: func(context.Context) (s facts.Summary) {
			s.Nodes = w.nodes
			for _, r := range w.rules {
				s.Rules = append(s.Rules, *r)
			}
			return s
		},
		Table: func() *rule.Table { return table }, Evicted: func() uint64 { return w.evicted },
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Now: func() time.Time { return w.now },
	})
	w.Check(t.Context())
	return w
}

// after lets time pass, in which each rule gets requests of some keys, and checks each minute.
func (w *watched) after(d time.Duration, requests, keys uint64, rules ...string) {
	for end := w.now.Add(d); w.now.Before(end); {
		step := min(time.Minute, end.Sub(w.now))
		w.now = w.now.Add(step)
		for _, name := range rules {
			r := w.rules[name]
			r.Allowed, r.Keys, r.Last = r.Allowed+requests, keys, w.now
		}
		w.Check(w.t.Context())
	}
}

// active checks the active alarms: each as kind, count and a part of its text.
func (w *watched) active(want ...string) {
	w.t.Helper()
	list := w.List()
	var got []string
	for _, a := range list {
		got = append(got, fmt.Sprintf("%s %d %s; %s", a.Kind, a.Count, a.Text, a.Hint))
	}
	for i := range want {
		kind, part, _ := strings.Cut(want[i], "|")
		if len(got) != len(want) || !strings.HasPrefix(got[i], kind+" ") || !strings.Contains(got[i], part) {
			w.t.Fatalf("active are %q, want %q", got, want)
		}
	}
	if len(got) > len(want) {
		w.t.Fatalf("active are %q, want %q", got, want)
	}
}

var allRules = []string{"api/remote_address", "total", "api/tenant"}

// TestAlarmOneKey fires where many requests of a rule have one key, and not for few requests, many keys, or
// a rule that has one key for all.
func TestAlarmOneKey(t *testing.T) {
	w := watch(t)
	w.after(9*time.Minute, 100, 1, allRules...)
	w.active()
	w.after(2*time.Minute, 100, 1, "api/remote_address")
	w.active("one_key|all 1000 requests of the rule api/remote_address in the last 10m0s had the same key; the address is probably that of a proxy")
	w.after(time.Minute, 100, 2, "api/remote_address")
	w.active()
	w.after(30*time.Minute, 100, 1, "total")
	w.active()
	for _, want := range []string{`level=WARN msg="alarm: all 1000 requests`, "alarm=one_key", `level=INFO msg="alarm ended: all 1000 requests`} {
		if strings.Count(w.log.String(), want) != max(1, strings.Count(want, "alarm=")*2) {
			t.Errorf("not once: %s\n%s", want, w.log.String())
		}
	}
}

// TestAlarmUnmatchedRule fires for a rule that no request matches for a day, and not for one that is matched,
// or for a pool, which others borrow from.
func TestAlarmUnmatchedRule(t *testing.T) {
	w := watch(t)
	w.after(unmatchedFor-time.Minute, 1, 3, "total", "api/tenant")
	w.active()
	w.after(time.Minute, 1, 3, "total", "api/tenant")
	w.active("unmatched_rule|no request matched the rule api/remote_address for 24 hours; compare its keys (rules.yaml:5)")
	w.after(time.Minute, 1, 3, allRules...)
	w.active()
	w.after(unmatchedFor, 1, 3, "total", "api/tenant")
	w.active("unmatched_rule|api/remote_address")
}

// What a rule counted before a node joined, and the time before a rule was added, are no alarm.
func TestAlarmsOfNow(t *testing.T) {
	w := watch(t)
	w.after(time.Minute, 1, 1, allRules...)
	w.nodes = []facts.Node{{Name: "a"}, {Name: "b"}}
	w.after(2*time.Minute, 5000, 1, "api/remote_address") // the first 5000 are those of b before
	w.active("one_key|all 5001 requests")
	w.nodes = w.nodes[:1]
	w.after(15*time.Minute, 1, 3, allRules...)
	w.active()
	for name, since := range map[string]time.Duration{"api/remote_address": unmatchedFor - time.Minute, "total": unmatchedFor} {
		w.rules[name].Last, w.rules[name].Since = w.now.Add(-100*time.Hour), w.now.Add(-since)
	}
	w.Check(t.Context())
	w.active("unmatched_rule|total for 24 hours")
}

// A clock that was an hour ahead for a while does not keep alarms alive for an hour.
func TestAlarmsClockBack(t *testing.T) {
	w := watch(t)
	w.now = w.now.Add(time.Hour)
	w.Unknown("nowhere", "")
	w.after(time.Minute, 1, 3, allRules...)
	w.active("unknown_domain|nowhere")
	w.now = w.now.Add(-time.Hour)
	w.Unknown("nowhere", "")
	w.after(time.Minute, 1, 3, allRules...)
	w.active("unknown_domain 1|nowhere")
	w.after(alarmWindow+time.Minute, 1, 3, allRules...)
	w.active()
}

// TestAlarmEvicted fires when keys over their limit were evicted, and names the rule with most keys.
func TestAlarmEvicted(t *testing.T) {
	w := watch(t)
	w.after(5*time.Minute, 1, 2, allRules...)
	w.active()
	w.evicted = 7
	w.rules["api/tenant"].Keys = 5000
	w.Check(t.Context())
	w.active("evicted_over_limit|7 keys over their limit were dropped and have their full limit again; most keys are of the rule api/tenant, 5000 of about 5004")
	w.after(9*time.Minute, 1, 2, allRules...)
	w.active("evicted_over_limit|7 keys")
	w.after(time.Minute, 1, 2, allRules...)
	w.active()
}

// TestAlarmUnknownDomain fires for calls with an unknown domain, counts names without end as one, and does not
// fire for unknown keys.
func TestAlarmUnknownDomain(t *testing.T) {
	w := watch(t)
	w.Unknown("api", "usr")
	w.Check(t.Context())
	w.active()
	for range 3 {
		w.Unknown("apl\n", "")
	}
	w.Check(t.Context())
	w.active(`unknown_domain|3 calls had the domain "apl\n"`)
	for i := range 1000 {
		w.Unknown(fmt.Sprint("made up ", i), "")
	}
	w.Check(t.Context())
	if list := w.List(); len(list) != mostNames+1 || list[0].Count+list[1].Count < 985 {
		t.Errorf("%d alarms: %+v", len(list), list)
	}
	w.after(11*time.Minute, 1, 2, allRules...)
	w.active()
	if n := strings.Count(w.log.String(), "\n"); n > 2*(mostNames+1) {
		t.Errorf("%d lines were logged", n)
	}
}

// TestAlarmForwarded fires for forwarded headers and wrong calls from peers that are not trusted, and not for
// those of trusted ones.
func TestAlarmForwarded(t *testing.T) {
	w := watch(t)
	passed := 0
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}
	handler := w.Forwarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }),
		proxies)
	send := func(peer, path, header string) {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = peer
		if header != "" {
			r.Header.Set(header, "192.0.2.7")
		}
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	send("10.0.0.1:1", "/v1/auth", "X-Forwarded-For")
	send("10.0.0.2:1", "/v1/auth", "")
	w.Check(t.Context())
	w.active()
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP"} {
		send("10.0.0.2:1", "/v1/auth", header)
	}
	w.Check(t.Context())
	w.active("untrusted_forwarded|3 requests from 10.0.0.2 came with what a proxy says of its client")
	if passed != 5 {
		t.Errorf("%d of 5 requests were passed on", passed)
	}
}

func TestAlarmMisuse(t *testing.T) {
	w := watch(t)
	logged := 0
	report := w.Misuse(func(netip.Addr, string, string) { logged++ }, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")})
	report(netip.MustParseAddr("10.0.0.7"), "a wrong path", "")
	w.Check(t.Context())
	w.active()
	report(netip.MustParseAddr("10.0.1.7"), "not a trusted proxy", "")
	w.Check(t.Context())
	w.active("untrusted_forwarded|1 request from 10.0.1.7")
	if logged != 2 {
		t.Errorf("%d of 2 were passed on", logged)
	}
}

// TestAlarmMetric has each kind, also those without an alarm.
func TestAlarmMetric(t *testing.T) {
	w := watch(t)
	w.Unknown("apl", "")
	w.Check(t.Context())
	m := New(NewRegistry())
	m.Alarms(w.List)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	for _, want := range []string{`stint_alarms{kind="unknown_domain"} 1`, `stint_alarms{kind="one_key"} 0`, `stint_alarms{kind="unmatched_rule"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
