package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"stint"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const policies = `
domain: api
descriptors:
  - key: user
    rate_limit: {per: 1h, requests: 2, elastic: {from: everyone, upto: 200%}}
  - key: all
    value: x
    rate_limit: {per: 1h, requests: 10, name: everyone}
  - key: batch
    rate_limit: {per: 1h, requests: 2, elastic: {from: load, gauge: db, below: 70%, upto: 300%}}
  - key: login
    rate_limit: {algorithm: token_bucket, per: 1h, requests: 5, count: responses, statuses: [401, 5xx]}
  - key: gentle
    rate_limit: {per: 1h, requests: 10, soft: 20%}
`

const (
	window2  = `{"algorithm":"fixed_window","requests":2,"per":"1h","align":"epoch"}`
	window10 = `{"algorithm":"fixed_window","requests":10,"per":"1h","align":"epoch"}`
	fromPool = `"elastic":{"from":"everyone","cap":{"algorithm":"fixed_window","requests":4,"per":"1h","align":"epoch"}}`
	fromLoad = `"elastic":{"from":"load","gauge":"db","below":"70%","cap":{"algorithm":"fixed_window","requests":6,"per":"1h","align":"epoch"}}`
	guesses  = `"count":"responses","statuses":["401","500-599"]`
	idle     = `"degraded":false}`
)

// entry returns the body of a check with one entry.
func entry(key, value string) string {
	return `{"domain":"api","descriptors":[{"entries":[{"key":"` + key + `","value":"` + value + `"}]}]}`
}

// single returns the answer to an inspection with one limit.
func single(text string) string { return `{"limits":[` + text + idle + `],"unmatched":[]}` }

// Inspecting a key takes, debits and reserves nothing, also for limits that borrow, count responses
// or are soft, and shows the sources of borrowing. Resetting it clears what it borrowed, but not
// the pool.
func TestInspectPolicies(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(policies)})
	if err != nil {
		t.Fatal(err)
	}
	load := 0.2
	store := memory.New(memory.Options{Clock: func() stint.Instant { return zero }})
	l := limiter.New(store, table, limiter.Options{Load: func(string) (float64, bool) { return load, true }})
	admin, traffic := NewAdmin(l, AdminOptions{}), NewTraffic(l, TrafficOptions{}).Handler()
	const user, reset = `"descriptor":0,"rule":"api/user","shadow":false,"config":` + window2 + `,` + fromPool + `,`, `"reset_after_ms":3600000,`
	both := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]},{"entries":[{"key":"all","value":"x"}]}]}`
	for i, step := range []struct{ path, body, want string }{
		{"/v1/inspect", entry("user", "a"), single(`{` + user + `"lent":{"room":4,"cap":{"limit":4,"used":0,"remaining":4},"pool":{"limit":10,"used":0,"remaining":10}},"limit":2,"used":0,"remaining":2,` + reset)},
		{CheckPath, entry("user", "a"), `"remaining":1`},
		{CheckPath, entry("user", "a"), `"remaining":0`},
		{CheckPath, entry("user", "a"), `"over":true`},
		{"/v1/inspect", entry("user", "a"), single(`{` + user + `"lent":{"room":1,"cap":{"limit":4,"used":3,"remaining":1},"pool":{"limit":10,"used":3,"remaining":7}},"limit":2,"used":2,"remaining":0,` + reset)},
		{"/v1/inspect", both, `{"limits":[{` + user + `"lent":{"room":1,"cap":{"limit":4,"used":3,"remaining":1},"pool":{"limit":10,"used":3,"remaining":7}},"limit":2,"used":2,"remaining":0,` + reset + idle +
			`,{"descriptor":1,"rule":"everyone","shadow":false,"config":` + window10 + `,"limit":10,"used":3,"remaining":7,` + reset + idle + `],"unmatched":[]}`},
		{"/v1/reset", entry("user", "a"), `{"limits":[{"descriptor":0,"rule":"api/user"}],"unmatched":[]}`},
		{"/v1/inspect", entry("user", "a"), single(`{` + user + `"lent":{"room":4,"cap":{"limit":4,"used":0,"remaining":4},"pool":{"limit":10,"used":3,"remaining":7}},"limit":2,"used":0,"remaining":2,` + reset)},
		{"/v1/inspect", entry("batch", "b"), single(`{"descriptor":0,"rule":"api/batch","shadow":false,"config":` + window2 + `,` + fromLoad + `,"lent":{"room":6,"cap":{"limit":6,"used":0,"remaining":6}},"limit":2,"used":0,"remaining":2,` + reset)},
		{"load", "", ""},
		{"/v1/inspect", entry("batch", "b"), single(`{"descriptor":0,"rule":"api/batch","shadow":false,"config":` + window2 + `,` + fromLoad + `,"lent":{"room":0,"cap":{"limit":6,"used":0,"remaining":6}},"limit":2,"used":0,"remaining":2,` + reset)},
		{CheckPath, entry("login", "c"), `"remaining":4`},
		{"/v1/inspect", entry("login", "c"), single(`{"descriptor":0,"rule":"api/login","shadow":false,"config":{"algorithm":"token_bucket","requests":5,"per":"1h","burst":5,"refill":"steady"},` + guesses + `,"limit":5,"used":1,"remaining":4,"reset_after_ms":720000,`)},
		{"/v1/reset", entry("login", "c"), `{"limits":[{"descriptor":0,"rule":"api/login"}],"unmatched":[]}`},
		{"/v1/inspect", entry("login", "c"), single(`{"descriptor":0,"rule":"api/login","shadow":false,"config":{"algorithm":"token_bucket","requests":5,"per":"1h","burst":5,"refill":"steady"},` + guesses + `,"limit":5,"used":0,"remaining":5,"reset_after_ms":0,`)},
		{"/v1/inspect", entry("gentle", "d"), single(`{"descriptor":0,"rule":"api/gentle","shadow":false,"config":` + window10 + `,"soft":"20%","limit":10,"used":0,"remaining":10,` + reset)},
	} {
		var handler http.Handler
		switch step.path {
		case "load":
			load = 0.9
			continue
		case CheckPath:
			handler = traffic
		default:
			handler = admin
		}
		for range 2 { // the first time must not change anything
			status, answer, _ := call(t, handler, "POST", step.path, step.body)
			if status != 200 || step.path == CheckPath && !strings.Contains(answer, step.want) || step.path != CheckPath && answer != step.want+"\n" {
				t.Errorf("step %d, %s %s: status %d\n%swant\n%s", i, step.path, step.body, status, answer, step.want)
			}
			if step.path == CheckPath {
				break
			}
		}
	}
	for name, words := range map[string]string{
		"api/user":   window2[1:len(window2)-1] + `,` + fromPool,
		"api/batch":  window2[1:len(window2)-1] + `,` + fromLoad,
		"api/login":  guesses,
		"api/gentle": window10[1:len(window10)-1] + `,"soft":"20%"`,
	} {
		if _, answer, _ := call(t, admin, "GET", "/v1/limits", ""); !strings.Contains(answer, words+`,"shadow":false`) {
			t.Errorf("%s is not shown as %s in\n%s", name, words, answer)
		}
	}
}
