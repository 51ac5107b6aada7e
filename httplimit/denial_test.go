package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"stint/httplimit"
	"stint/limiter"
)

// refusing returns a limit that denies everything with a denial of its own.
func refusing(denial, more string) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: '"a" <b>', requests: 1, per: 1h, headers: legacy, denial: %s%s}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`, denial, more)
}

// A rule may have its own denial. The headers with numbers stay the same.
func TestDenial(t *testing.T) {
	const numbers = `
Retry-After: 3600
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1767229200
X-RateLimit-Retry-After: 3600
`
	for name, test := range map[string]struct{ denial, more, accept, want string }{
		"JSON": {
			`{json: '{"rule":"{{.Rule}}","limit":{{.Limit}},"left":{{.Remaining}},"wait":{{.RetryAfter}},"at":"{{.Renewal}}"}'}`, "", "application/problem+json", `
429
Cache-Control: no-store
Content-Type: application/json` + numbers + `
{"rule":"\"a\" \u003cb\u003e","limit":1,"left":0,"wait":3600,"at":"2026-01-01T01:00:00Z"}`,
		},
		"HTML": {
			`{status: 503, headers: {cache-control: max-age=5, link: </status>}, html: '<p>{{.Rule}}</p>'}`, "", "", `
503
Cache-Control: max-age=5
Content-Type: text/html; charset=utf-8
Link: </status>` + numbers + `
<p>&#34;a&#34; &lt;b&gt;</p>`,
		},
		"a status alone": {`{status: 420}`, "", "", `
420
Cache-Control: no-store
Content-Type: application/json` + numbers + `
{"error":{"code":"slow","message":"Request quota exceeded. Wait 1 hour and try again.","context":{"renewal":1767229200}}}`},
		"a status alone, as problem": {`{status: 420}`, "", "application/problem+json", `
420
Cache-Control: no-store
Content-Type: application/problem+json` + numbers + `
{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":420,"detail":"Request quota exceeded. Wait 1 hour and try again.","violated-policies":["\"a\" <b>"]}`},
		"a body that breaks on these numbers": {`{json: '[{{if eq .RetryAfter 3600}}x{{end}}]'}`, "", "", `
429
Cache-Control: no-store
Content-Type: application/json` + numbers + `
{"error":{"code":"slow","message":"Request quota exceeded. Wait 1 hour and try again.","context":{"renewal":1767229200}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			time := clock{1767225600_000_000}
			told := 0
			h := byRules(t, time.store(), refusing(test.denial, test.more), httplimit.Options{
				Code: "slow", OnError: func(*http.Request, error) { told++ },
			})
			get(h, "192.0.2.1:1", "/")
			w := get(h, "192.0.2.1:1", "/", "Accept", test.accept)
			expect(t, "answer", dump(w), test.want)
			if want := name == "a body that breaks on these numbers"; told > 0 != want {
				t.Errorf("told of %d errors", told)
			}

			r := request("192.0.2.1:1", "/", "Accept", test.accept)
			r.Method = http.MethodHead
			head := send(h, r)
			if head.Body.Len() > 0 || head.Code != w.Code || head.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
				t.Errorf("HEAD is answered with %s", dump(head))
			}
		})
	}
}

// A rule's denial is not used if the program writes the answer, or if the answer is not the
// limit's.
func TestDenialIsTheLimits(t *testing.T) {
	const denial, deny = `{status: 420, json: '{}'}`, ", on_store_failure: deny"
	own := func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
		w.WriteHeader(v.Rule.Denial.Status - 2)
	}
	var time clock
	for name, test := range map[string]struct {
		handler http.Handler
		want    int
	}{
		"the program's":    {byRules(t, time.store(), refusing(denial, ""), httplimit.Options{Denied: own}), 418},
		"the rule's":       {byRules(t, time.store(), refusing(denial, ""), httplimit.Options{Status: 400}), 420},
		"the store's":      {byRules(t, broken{}, refusing(denial, deny), httplimit.Options{}), 503},
		"nobody's, if not": {byRules(t, broken{}, refusing(denial, ""), httplimit.Options{}), 200},
	} {
		var w *httptest.ResponseRecorder
		for range 2 {
			w = get(test.handler, "192.0.2.1:1", "/")
		}
		if w.Code != test.want {
			t.Errorf("%s: status %d, want %d", name, w.Code, test.want)
		}
	}
}
