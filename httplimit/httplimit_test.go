package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// ok is the handler behind the limits in these tests.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// clock is a fake clock.
type clock struct{ now stint.Instant }

func (c *clock) store() stint.Store {
	return memory.New(memory.Options{Clock: func() stint.Instant { return c.now }})
}

// byRules returns ok behind the rules of domain api in a file.
func byRules(t testing.TB, store stint.Store, file string, o httplimit.Options) http.Handler {
	t.Helper()
	return httplimit.New(newLimiter(t, store, file), "api", o)(ok)
}

func newLimiter(t testing.TB, store stint.Store, file string) *limiter.Limiter {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	return limiter.New(store, table, limiter.Options{})
}

// get sends a request from an address; header has pairs of name and value.
func get(h http.Handler, from, target string, header ...string) *httptest.ResponseRecorder {
	return send(h, request(from, target, header...))
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func request(from, target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = from
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// field returns a header by its spelling in the map: the RateLimit fields are not in canonical
// form, so Header.Get does not find them.
func field(w *httptest.ResponseRecorder, name string) string {
	return strings.Join(w.Header()[name], ", ")
}

// dump formats an answer as lines: status, headers in alphabetical order, body. It omits a correct
// Content-Length.
func dump(w *httptest.ResponseRecorder) string {
	var lines []string
	for name, values := range w.Header() {
		for _, value := range values {
			if name == "Content-Length" && value == strconv.Itoa(w.Body.Len()) {
				continue
			}
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d\n%s\n\n%s", w.Code, strings.Join(lines, "\n"), w.Body)
}

// expect compares two texts.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// The complete answer, byte for byte, of a single limit and of a rule.
func TestGolden(t *testing.T) {
	const opened, denied = 1404425613_925_000, 1404429033_925_000
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {algorithm: fixed_window, requests: 2000, per: 1h, align: first, headers: legacy}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 2000, Per: time.Hour, FromFirst: true})
	options := httplimit.Options{Headers: []rule.Preset{rule.Legacy}, Reset: httplimit.UnixMillis, Code: "bf-429"}
	var time clock
	for name, h := range map[string]http.Handler{
		"bare": httplimit.Limit(time.store(), limit, options)(ok),
		"rule": byRules(t, time.store(), file, httplimit.Options{Reset: httplimit.UnixMillis, Code: "bf-429"}),
	} {
		t.Run(name, func(t *testing.T) {
			time.now = opened
			for range 2000 {
				if w := get(h, "192.0.2.1:1", "/"); w.Code != 200 {
					t.Fatalf("status %d within the limit", w.Code)
				}
			}
			time.now = denied
			expect(t, "answer", dump(get(h, "192.0.2.1:1", "/")), `
429
Cache-Control: no-store
Content-Type: application/json
Retry-After: 180
X-RateLimit-Limit: 2000
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1404429213925
X-RateLimit-Retry-After: 180

{"error":{"code":"bf-429","message":"Request quota exceeded. Wait 3 minutes and try again.","context":{"renewal":1404429213925}}}`)
		})
	}
}

// The headers of each preset, for an allowed and a denied request.
func TestPresets(t *testing.T) {
	tests := []struct {
		presets         []rule.Preset
		allowed, denied string
	}{
		{nil, `
RateLimit-Policy: "login";q=1;w=60
RateLimit: "login";r=0;t=60
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1767225660`, `
Cache-Control: no-store
Content-Type: application/json
RateLimit-Policy: "login";q=1;w=60
RateLimit: "login";r=0;t=50
Retry-After: 50
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1767225660
X-RateLimit-Retry-After: 50`},
		{[]rule.Preset{rule.IETF}, `
RateLimit-Policy: "login";q=1;w=60
RateLimit: "login";r=0;t=60`, `
Cache-Control: no-store
Content-Type: application/json
RateLimit-Policy: "login";q=1;w=60
RateLimit: "login";r=0;t=50
Retry-After: 50`},
		{[]rule.Preset{rule.Draft03}, `
X-RateLimit-Limit: 1, 1;w=60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 60`, `
Cache-Control: no-store
Content-Type: application/json
Retry-After: 50
X-RateLimit-Limit: 1, 1;w=60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 50`},
		{[]rule.Preset{rule.None}, "", `
Cache-Control: no-store
Content-Type: application/json
Retry-After: 50`},
	}
	const zero = 1767225600_000_000
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Minute})
	for _, test := range tests {
		t.Run(fmt.Sprint(test.presets), func(t *testing.T) {
			time := clock{zero}
			h := httplimit.Limit(time.store(), limit, httplimit.Options{Name: "login", Headers: test.presets})(ok)
			w := get(h, "192.0.2.1:1", "/")
			expect(t, "allowed", dump(w), "200\n"+strings.TrimPrefix(test.allowed, "\n")+"\n\n")
			time.now += 10_000_000
			w = get(h, "192.0.2.1:1", "/")
			expect(t, "denied", dump(w), "429\n"+strings.TrimPrefix(test.denied, "\n")+"\n\n"+
				`{"error":{"code":"rate_limited","message":"Request quota exceeded. Wait 50 seconds and try again.","context":{"renewal":1767225660}}}`)
		})
	}
}

const threeRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: per-user, algorithm: token_bucket, requests: 3, per: 1m, burst: 3}
  - key: path
    rate_limit: {name: per-path, requests: 4, per: 1h}
  - key: remote_address
    rate_limit: {name: per-address, algorithm: sliding_log, requests: 5, per: 1d, headers: [draft03, ietf]}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
    - actions: [{path: {}}]
`

// Each of three rules denies in turn, and headers and body name that rule.
func TestDenialNamesItsRule(t *testing.T) {
	tests := []struct {
		name         string
		n            int
		varies       func(i int) (from, path, user string)
		limit, retry string
		reset        string
	}{
		{"per-user", 3, func(i int) (string, string, string) { return fmt.Sprintf("192.0.2.%d:1", i), fmt.Sprint("/", i), "eve" }, "3", "20", "1767225660"},
		{"per-path", 4, func(i int) (string, string, string) { return fmt.Sprintf("192.0.2.%d:1", i), "/a", fmt.Sprint(i) }, "4", "3600", "1767229200"},
		{"per-address", 5, func(i int) (string, string, string) { return "192.0.2.1:1", fmt.Sprint("/", i), fmt.Sprint(i) }, "5, 5;w=86400", "86400", "86400"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			time := clock{1767225600_000_000}
			var seen *rule.Rule
			h := byRules(t, time.store(), threeRules, httplimit.Options{})
			spy := byRules(t, time.store(), threeRules, httplimit.Options{Denied: func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
				seen = v.Rule
				w.WriteHeader(402)
			}})
			for i := range test.n {
				from, path, user := test.varies(i)
				for _, h := range []http.Handler{h, spy} {
					if w := get(h, from, path, "X-User", user); w.Code != 200 {
						t.Fatalf("request %d is denied: %s", i, dump(w))
					}
				}
			}
			from, path, user := test.varies(test.n)
			w := get(h, from, path, "X-User", user, "Accept", "application/problem+json")
			quoted := fmt.Sprintf("%q", test.name)
			for header, want := range map[string]string{
				"Retry-After": test.retry, "X-RateLimit-Limit": test.limit, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": test.reset,
			} {
				if got := field(w, header); got != want {
					t.Errorf("%s: %s, want %s", header, got, want)
				}
			}
			if got := field(w, "RateLimit"); !strings.HasPrefix(got, quoted+";r=0;t="+test.retry) {
				t.Errorf("RateLimit: %s, want %s first, with r=0 and t=%s", got, quoted, test.retry)
			}
			if !strings.HasSuffix(w.Body.String(), `"violated-policies":[`+quoted+`]}`) {
				t.Errorf("body is %s, want %s violated alone", w.Body, quoted)
			}
			if w := get(spy, from, path, "X-User", user); w.Code != 402 || seen == nil || seen.Name != test.name {
				t.Errorf("own answer: status %d by %v, want 402 by %s", w.Code, seen, test.name)
			}
		})
	}
}

// The headers of an allowed request show the rule that is closest to denying.
func TestNearest(t *testing.T) {
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), threeRules, httplimit.Options{})
	for i := range 3 {
		get(h, fmt.Sprintf("192.0.2.%d:1", i), "/a", "X-User", fmt.Sprint(i))
	}
	w := get(h, "192.0.2.9:1", "/a", "X-User", "z")
	for header, want := range map[string]string{
		"RateLimit":        `"per-path";r=0;t=3600, "per-address";r=4;t=86400, "per-user";r=2;t=20`,
		"RateLimit-Policy": `"per-path";q=4;w=3600, "per-address";q=5;w=86400, "per-user";q=3;w=60`,
		// Only the rule per-address has the preset draft03, which takes precedence over legacy.
		"X-RateLimit-Limit": "5, 5;w=86400", "X-RateLimit-Remaining": "4", "Retry-After": "", "X-RateLimit-Retry-After": "",
	} {
		if got := field(w, header); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

// Two of three requests pass above a soft limit of 1 and have the configured header.
func TestOverHeader(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 1, soft: 200%}
http: {rate_limits: [{actions: [{remote_address: {}}]}]}
`
	time := clock{1767225600_000_000}
	for _, name := range []string{"X-RateLimit-Over", ""} {
		h := byRules(t, time.store(), file, httplimit.Options{OverHeader: name})
		for i, want := range []string{"", "true", "true", ""} {
			w := get(h, "192.0.2.1:1", "/")
			if name == "" {
				want = ""
			}
			if got := field(w, "X-RateLimit-Over"); got != want || (w.Code == 200) != (i < 3) {
				t.Errorf("request %d: status %d, over %q, want %q", i, w.Code, got, want)
			}
		}
	}
}

// A rule with headers: none is invisible to clients until it denies.
func TestHiddenRule(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: secret, requests: 3, per: 1m, headers: none}
  - key: remote_address
    rate_limit: {name: open, requests: 100, per: 1m}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
    - actions: [{remote_address: {}}]
`
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), file, httplimit.Options{})
	first := dump(get(h, "192.0.2.1:1", "/", "X-User", "eve"))
	for i := 2; i <= 3; i++ { // from a different address each time, so that the visible rule has the same numbers
		if got := dump(get(h, fmt.Sprintf("192.0.2.%d:1", i), "/", "X-User", "eve")); got != first {
			t.Errorf("request %d is answered\n%s\nthe first was\n%s", i, got, first)
		}
	}
	w := get(h, "192.0.2.4:1", "/", "X-User", "eve", "Accept", "application/problem+json")
	expect(t, "denied by the hidden rule", dump(w), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 60

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Request quota exceeded. Wait 1 minute and try again.","violated-policies":[]}`)
}

// Rules in shadow mode count, but they neither deny nor appear in headers.
func TestShadow(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    shadow_mode: true
    rate_limit: {requests: 1, per: 1m}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), file, httplimit.Options{})
	for range 3 {
		expect(t, "answer", dump(get(h, "192.0.2.1:1", "/")), "200\n\n\n")
	}
}
