package httpapi

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/limiter"
	"stint/load"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const elasticRules = `
domain: a/b
descriptors:
  - key: user
    rate_limit: {requests: 2, per: 1h, elastic: {from: load, below: 70%, upto: 200%}}
  - key: job
    rate_limit: {requests: 2, per: 1h, elastic: {from: load, gauge: db, below: 70%, upto: 200%}}
  - key: run
    rate_limit: {requests: 2, per: 1h, elastic: {from: load, gauge: process, below: 70%, upto: 200%}}
`

// newElastic returns functions that call the traffic listener and the admin listener of a service
// with gauges.
func newElastic(t *testing.T, rules string, gauges *load.Gauges) (traffic, admin func(method, path, body string) (int, string)) {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{Load: gauges.Load})
	handler, served := NewAdmin(l, AdminOptions{Gauges: gauges}), NewTraffic(l, TrafficOptions{}).Handler()
	traffic = func(method, path, body string) (int, string) {
		status, answer, _ := call(t, served, method, path, body)
		return status, answer
	}
	admin = func(method, path, body string) (int, string) {
		status, answer, _ := call(t, handler, method, path, body)
		return status, answer
	}
	return traffic, admin
}

// Limits use a load that was set until its time to live ends.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gauges load.Gauges
		traffic, admin := newElastic(t, elasticRules, &gauges)
		passed := func() (n int) {
			for {
				_, answer := traffic("POST", "/v1/check", `{"domain":"a/b","descriptors":[{"entries":[{"key":"job","value":"x"}]}]}`)
				if !strings.Contains(answer, `"allowed":true`) {
					return n
				}
				n++
			}
		}
		for _, step := range []struct {
			name, body, want string
			passes           int
		}{
			{"before anything is said", "", `{"gauge":"db","load":null}`, 2},
			{"idle", `{"load": 0.2, "ttl": "5s"}`, `{"gauge":"db","load":0.2}`, 2},
			{"later", "", `{"gauge":"db","load":null}`, 0},
			{"busy", `{"load": 9e-1, "ttl": "1m"}`, `{"gauge":"db","load":0.9}`, 0},
		} {
			method := "GET"
			if step.body != "" {
				method = "PUT"
			}
			if status, answer := admin(method, "/v1/load/db", step.body); status != 200 || answer != step.want+"\n" {
				t.Errorf("%s: status %d: %s", step.name, status, answer)
			}
			if n := passed(); n != step.passes {
				t.Errorf("%s: %d passed, want %d", step.name, n, step.passes)
			}
			time.Sleep(5 * time.Second) // fake time
		}
		admin("PUT", "/v1/load/a%2Fb", `{"ttl":"10m","load":1}`)
		status, answer := admin("GET", "/v1/load", "")
		want := `{"gauges":[{"gauge":"a/b","load":1},{"gauge":"db","load":0.9},{"gauge":"process","load":null}]}` + "\n"
		if status != 200 || answer != want {
			t.Errorf("status %d: %swant %s", status, answer, want)
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	var gauges load.Gauges
	_, admin := newElastic(t, elasticRules, &gauges)
	gauges.Func("a/b", func() (float64, bool) { return 0.5, true })
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/v1/load/bd", `{"load":0.2,"ttl":"5s"}`, 404, `no rule asks the gauge \"bd\"; those that rules ask are a/b, db, process`},
		{"GET", "/v1/load/", ``, 404, `no rule asks the gauge \"\"`},
		{"PUT", "/v1/load/db", ``, 400, `the body ends`},
		{"PUT", "/v1/load/db", `{}`, 400, `load: missing; send a number`},
		{"PUT", "/v1/load/db", `{"load":0.2}`, 400, `ttl: missing; send how long`},
		{"PUT", "/v1/load/db", `{"ttl":"5s"}`, 400, `load: missing`},
		{"PUT", "/v1/load/db", `{"load":20,"ttl":"5s"}`, 400, `load: 20 is above 10; 1 is full capacity: write 0.2 for 20 %`},
		{"PUT", "/v1/load/db", `{"load":-1,"ttl":"5s"}`, 400, `load: -1 is not a load`},
		{"PUT", "/v1/load/db", `{"load":1e999,"ttl":"5s"}`, 400, `load: +Inf is above 10`},
		{"PUT", "/v1/load/db", `{"load":0x1,"ttl":"5s"}`, 400, `a comma`},
		{"PUT", "/v1/load/db", `{"load":01,"ttl":"5s"}`, 400, `load: \"01\" is not a number`},
		{"PUT", "/v1/load/db", `{"load":1.,"ttl":"5s"}`, 400, `load: \"1.\" is not a number`},
		{"PUT", "/v1/load/db", `{"load":NaN,"ttl":"5s"}`, 400, `load: 'N' where a number belongs`},
		{"PUT", "/v1/load/db", `{"load":"20%","ttl":"5s"}`, 400, `load: a string where a number belongs`},
		{"PUT", "/v1/load/db", `{"load":0.2,"ttl":5}`, 400, `ttl: a number where a string belongs`},
		{"PUT", "/v1/load/db", `{"load":0.2,"ttl":"5"}`, 400, `ttl: \"5\"`},
		{"PUT", "/v1/load/db", `{"load":0.2,"ttl":"0s"}`, 400, `ttl: 0s is outside 10ms to 10m0s`},
		{"PUT", "/v1/load/db", `{"load":0.2,"ttl":"1d"}`, 400, `ttl: 24h0m0s is outside`},
		{"PUT", "/v1/load/db", `{"load":0.2,"ttl":"5s","for":1}`, 400, `unknown field \"for\"`},
		{"PUT", "/v1/load/db", `{"load":0.2,"ttl":"5s"}{}`, 400, `something follows`},
		{"PUT", "/v1/load/process", `{"load":0.2,"ttl":"5s"}`, 400, `name: the gauge \"process\" measures itself`},
		{"PUT", "/v1/load/a/b", `{"load":0.2,"ttl":"5s"}`, 400, `measures itself`},
		{"DELETE", "/v1/load/db", ``, 405, `GET, HEAD, PUT`},
		{"PUT", "/v1/load", `{"load":0.2,"ttl":"5s"}`, 405, `GET, HEAD`},
	} {
		status, answer := admin(test.method, test.path, test.body)
		if status != test.status || !strings.Contains(answer, test.want) {
			t.Errorf("%s %s %s: status %d: %s", test.method, test.path, test.body, status, answer)
		}
	}
	if value, fresh := gauges.Load("db"); fresh {
		t.Errorf("what was refused shows %v", value)
	}
	_, plain := newElastic(t, rules, &gauges)
	if status, answer := plain("PUT", "/v1/load/db", `{"load":0.2,"ttl":"5s"}`); status != 404 || !strings.Contains(answer, "no rule asks any; write elastic: {from: load} in one") {
		t.Errorf("status %d: %s", status, answer)
	}
}
