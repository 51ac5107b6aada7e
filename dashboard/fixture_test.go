package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint/facts"
	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/server/access"
)

// evil is a text that would run a script if a page took it for HTML.
const evil = `<img src=x onerror="document.title='evil'">`

// fixture is an admin listener with made facts.
type fixture struct {
	*httptest.Server
	viewers atomic.Int64 // open streams
	rules   string       // path of the rule file
	began   time.Time
	asked   chan string // changes: method, path and body
	calm    atomic.Bool // nothing is wrong, for a picture
	joined  atomic.Bool // a third node brings all that it counted before
	frozen  atomic.Bool // streams send nothing more, and stay open
}

// ruleText is a rule file with a likely mistake: the second rule can never deny.
const ruleText = `domain: shop
descriptors:
  - key: user
    rate_limit: {requests: 100, per: 1m, algorithm: token_bucket}
  - key: cart
    rate_limit: {requests: 5, per: 1m}
    shadow_mode: true
`

// startFixture serves the page over the facts of this file.
func startFixture(t *testing.T, guard *access.Guard) *fixture {
	t.Helper()
	f := &fixture{rules: filepath.Join(t.TempDir(), "shop.yaml"), began: time.Now().Add(-time.Hour), asked: make(chan string, 100)}
	testkit.Must(t, os.WriteFile(f.rules, []byte(ruleText), 0o600))
	present, err := rulefile.Load(f.rules)
	testkit.Must(t, err)
	page := New(guard, Options{
		Table: func() *rule.Table { return present }, Load: func() (*rule.Table, error) { return rulefile.Load(f.rules) },
	})
	mux := http.NewServeMux()
	mux.Handle("/{$}", page)
	for _, path := range Paths {
		mux.Handle(path, page)
	}
	for path, value := range f.answers() {
		mux.HandleFunc(path, guard.Guarded(access.Read, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value(r))
		}))
	}
	mux.HandleFunc("GET /v1/live", guard.Guarded(access.Read, f.live))
	mux.HandleFunc("/v1/", guard.Guarded(access.Support, f.change))
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	t.Cleanup(f.CloseClientConnections) // first: it ends the streams
	return f
}

// change notes a change and answers that it was made.
func (f *fixture) change(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	f.asked <- strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), body, r.Header.Get("X-Stint-Why")))
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"limits":[{"rule":"shop/user"}]}`)
}

// counts are those of the rules, by the second: user grows by 30 allowed and 10 denied each.
func (f *fixture) counts(n int) []facts.Rule {
	user := facts.Rule{Domain: "shop", Name: "shop/user", Counts: facts.Counts{
		Allowed: 120_000 + 30*uint64(n), Denied: 4_000 + 10*uint64(n), Over: 7, Degraded: 3, Looks: 11,
	}, Keys: 812, First: f.began, Last: f.began.Add(time.Hour)}
	user.Peaks = facts.Peaks{Sampled: 120, Periods: 900, P50: 0.12, P90: 0.5, P99: 1.3, P999: 2.5, DeniedKeys: 9, Excess: 1.42, Retries: 50, Passed: 20, Bursts: 4, Largest: 0.08}
	user.Peaks.Denials = [10]uint64{90, 20, 5, 1, 0, 0, 0, 2, 4, 60}
	user.Candidate = &facts.Candidate{
		Limit: "token_bucket, 200 per 1m", Now: facts.Counts{Allowed: 100, Denied: 40}, Then: facts.Counts{Allowed: 135, Denied: 5}, KeysDeniedNow: 9, KeysDeniedThen: 1,
	}
	cart := facts.Rule{Domain: "shop", Name: "shop/cart", Shadow: true, Counts: facts.Counts{Allowed: 50, Denied: 1}}
	if f.calm.Load() {
		x := float64(n)
		user.Allowed, user.Denied = uint64(5e6+2100*x+9000*math.Sin(x/20)), uint64(9e4+260*x+1500*math.Sin(x/9))
		cart.Allowed, cart.Denied, cart.Shadow = uint64(8e5+400*x), uint64(12*x), false
	}
	if f.joined.Load() {
		user.Allowed += 1e9
	}
	return []facts.Rule{user, cart}
}

func (f *fixture) nodes() (list []facts.Node) {
	if f.joined.Load() {
		return []facts.Node{{Name: "node-a", At: time.Now()}, {Name: "node-b", At: time.Now()}, {Name: "node-c", At: time.Now()}}
	}
	if f.calm.Load() {
		for _, name := range []string{"a", "b", "c"} {
			list = append(list, facts.Node{Name: "node-" + name, At: time.Now(), Decided: 9e6, Median: 4200 * time.Nanosecond, P99: 90 * time.Microsecond, Generation: 2, Hash: "0011aabbccdd"})
		}
		return list
	}
	return []facts.Node{
		{Name: "node-a", At: time.Now(), Decided: 124_000, Median: 4200 * time.Nanosecond, P99: 90 * time.Microsecond, Generation: 2, Hash: "0011aabbccdd"},
		{Name: evil, At: time.Now(), Decided: 900, Failed: 2, Degraded: 5, Median: 800 * time.Microsecond, P99: 3 * time.Millisecond, Generation: 1, Hash: "99887766aabb", StoreError: "connection refused"},
	}
}

// day is the history of a calm day.
func (f *fixture) day() facts.History {
	h := facts.History{Step: time.Minute, Marks: []facts.Mark{{At: f.began.Add(-7 * time.Hour), What: "reload", Note: "0011aabbccdd"}}}
	for i := range 1440 {
		wave := 1 - math.Cos(2*math.Pi*float64(i)/1440)
		h.Points = append(h.Points, facts.Point{At: f.began.Add(time.Duration(i-1440) * time.Minute).Truncate(time.Minute), Counts: facts.Counts{
			Allowed: uint64(60 * (700 + 900*wave + 60*math.Sin(float64(i)/7))), Denied: uint64(60 * 130 * wave * wave / 2),
		}})
	}
	return h
}

// live sends a frame at once, and then each 100 ms, each of which stands for a second.
func (f *fixture) live(w http.ResponseWriter, r *http.Request) {
	f.viewers.Add(1)
	defer f.viewers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	at := time.Now().Truncate(time.Second)
	for n := 0; ; n++ {
		if f.frozen.Load() {
			<-r.Context().Done()
			return
		}
		frame, _ := json.Marshal(map[string]any{"at": at.Add(time.Duration(n) * time.Second), "nodes": f.nodes(), "rules": f.counts(n)})
		fmt.Fprintf(w, "data: %s\n\n", frame)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answers are the answers to GET and to questions, by path.
func (f *fixture) answers() map[string]func(*http.Request) any {
	fixed := func(text string) func(*http.Request) any {
		return func(*http.Request) any { return json.RawMessage(text) }
	}
	return map[string]func(*http.Request) any{
		"GET /v1/limits": fixed(`{"hash":"0011aabbccdd","generation":2,"rules":2,"domains":[{"domain":"shop","atomic":true,"rules":[
			{"name":"shop/user","file":"` + f.rules + `","line":4,"algorithm":"token_bucket","requests":100,"per":"1m","burst":100,"shadow":false,"quota":false,"overrides":3,"on_store_failure":"allow","coordination":"leased"},
			{"name":"shop/cart","file":"` + f.rules + `","line":6,"algorithm":"fixed_window","requests":5,"per":"1m","shadow":true,"quota":false,"on_store_failure":"allow","coordination":"strict"}]}]}`),
		"GET /readyz": func(*http.Request) any {
			return json.RawMessage(`{"ready":true,"reason":"","rules":{"hash":"0011aabbccdd","generation":2,"count":2,"reload_error":"` + f.reloadError() + `"},"store":{"kind":"redis","error":""}}`)
		},
		"GET /v1/facts": func(*http.Request) any {
			return facts.Summary{At: time.Now(), Since: f.began, Nodes: f.nodes(), Rules: f.counts(0)}
		},
		"GET /v1/facts/keys": func(*http.Request) any {
			return map[string]any{"keys": []facts.Key{
				{Domain: "shop", Rule: "shop/user", ID: "00112233445566778899aabbccddeeff", Entries: []facts.Entry{{Key: "user", Value: evil}}, Allowed: 500, Denied: 321, Error: 4},
				{Domain: "shop", Rule: strings.Repeat("a-long-name-", 20), ID: "ffeeddccbbaa99887766554433221100", Entries: []facts.Entry{{Key: "user"}}, Allowed: 100, Denied: 45, Over: 2, Error: 4},
			}}
		},
		"GET /v1/facts/history": func(r *http.Request) any {
			if f.calm.Load() {
				return f.day()
			}
			h := facts.History{Rule: r.URL.Query().Get("rule"), Step: 10 * time.Minute, Marks: []facts.Mark{{At: f.began, What: "reload", Note: evil}, {At: f.began, What: "epoch", Note: "run 7"}}}
			for i := range 100 {
				h.Points = append(h.Points, facts.Point{At: f.began.Add(time.Duration(i-100) * 10 * time.Minute).Truncate(10 * time.Minute), Counts: facts.Counts{Allowed: uint64(6000 + 100*i), Denied: uint64(60 * i)}})
			}
			return h
		},
		"GET /v1/facts/denials": func(*http.Request) any {
			return map[string]any{"denials": []facts.Denial{{At: f.began, RequestID: "req-7", Domain: "shop", Rule: "shop/user", Key: "00112233445566778899aabbccddeeff", Reason: "rate_limited", Limit: 100, RetryAfter: 1500 * time.Millisecond, Sampled: 17}}}
		},
		"POST /v1/inspect": fixed(`{"limits":[{"descriptor":0,"rule":"shop/user","shadow":false,"config":{"algorithm":"token_bucket","requests":100,"per":"1m","burst":100},
			"limit":100,"used":88,"remaining":12,"reset_after_ms":52800,"degraded":false,
			"leases":{"epoch_ms":1767225600000,"lent":30,"nodes":[{"node":"7a","units":30,"age_ms":1200,"here":true}],"here":{"node":"7a","units":12}}}],"unmatched":[]}`),
		"POST /v1/why": fixed(`{"domain":"shop","allowed":false,"reason":"rate_limited","wait_ms":600,"unmatched":[],
			"limits":[{"descriptor":0,"rule":"shop/user","config":{"algorithm":"token_bucket","requests":100,"per":"1m","burst":100},"coordination":"leased","own":true,"degraded":false,
			"on_store_failure":"allow","shadow":false,"quota":false,"allowed":false,"denies":true,"over":false,"cost":1,"before":{"limit":100,"used":88,"remaining":12,"reset_after_ms":52800},
			"after":{"limit":100,"used":89,"remaining":11,"reset_after_ms":52800},"retry_after_ms":600,"delay_ms":0,"key":"00112233445566778899aabbccddeeff","candidate":{"config":{"algorithm":"token_bucket","requests":100,"per":"1m","burst":250},"allowed":true,"after":{"limit":250,"used":90,"remaining":160,"reset_after_ms":5000},"retry_after_ms":0},"changes":[{"kind":"burst","rule":"shop/user","text":"burst 100 -> 101"}]}],
			"smallest":[{"kind":"wait","text":"wait 600ms"}]}`),
		"GET /v1/why": fixed(`{"request_id":"req-7","denials":[{"at":"2026-01-02T03:04:05Z","domain":"shop","rule":"shop/user","key":"00112233445566778899aabbccddeeff","reason":"rate_limited","limit":100,
			"retry_after_ns":600000000,"degraded":false,"sampled":1,"config":{"algorithm":"token_bucket","requests":100,"per":"1m","burst":100}}]}`),
		"GET /v1/advice": fixed(`{"advice":[{"domain":"shop","rule":"shop/user","file":"","line":4,"cause":"burst_too_small","text":"shop/user denies short bursts of 31 % of its keys.","number":0.31,
			"at_least":true,"yaml":"rate_limit: {requests: 100, per: 1m, burst: 250}","candidate":"candidate: {burst: 250}","command":"stint replay --rules shop.yaml access.log"}]}`),
		"GET /v1/alarms": func(*http.Request) any {
			if f.calm.Load() {
				return json.RawMessage(`{"alarms":[]}`)
			}
			return json.RawMessage(`{"alarms":[{"kind":"one_key","domain":"shop","rule":"shop/cart","count":1200,"since":"2026-01-02T03:04:05Z","text":"all 1200 requests of shop/cart have one key","hint":"Set trusted-proxies."}]}`)
		},
		"GET /v1/records": fixed(`{"revision":9,"age_ms":1200,"writable":true,"error":"","kinds":{"ban":1,"override":1,"subject":0,"key":0},"head":{"number":12,"hash":"aa"},"nodes":[]}`),
		"GET /v1/bans": func(*http.Request) any {
			return json.RawMessage(`{"records":[{"subject":` + quote("user="+evil) + `,"why":"=1+1","revision":9,"changed":"2026-01-02T03:04:05Z"}],"next":null,"revision":9}`)
		},
		"GET /v1/overrides":    fixed(`{"records":[{"subject":"user=42","rule":"shop/user","requests":500,"until":"2026-02-01T00:00:00Z","why":"sale","revision":8,"changed":"2026-01-02T03:04:05Z"}],"next":null,"revision":9}`),
		"GET /v1/subjects":     fixed(`{"records":[],"next":null,"revision":9}`),
		"GET /v1/keys":         fixed(`{"records":[],"next":null,"revision":9}`),
		"GET /v1/audit":        fixed(`{"entries":[{"number":12,"revision":9,"time":"2026-01-02T03:04:05Z","action":"put","kind":"ban","actor":"oncall","object":"user=42","after":{"subject":"user=42"},"why":"too many","from":"127.0.0.1","erased":false}],"next":null,"head":{"number":12,"hash":"aa"}}`),
		"GET /v1/audit/verify": fixed(`{"whole":true,"first":1,"head":{"number":12,"hash":"aa"},"erased":0,"skipped":[]}`),
	}
}

func (f *fixture) reloadError() string {
	if f.calm.Load() {
		return ""
	}
	return "shop.yaml:4: no"
}

// quote writes a text as JSON.
func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
