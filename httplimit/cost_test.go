package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stint/httplimit"
)

// costly returns a limit of 1000 units an hour for each address.
func costly(cost string) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 1000, per: 1h}
  - key: path
    rate_limit: {requests: 1000, per: 1h}
http:
  rate_limits:
    - actions: [{path: {}}]
    - actions: [{remote_address: {}}]
      cost: %s
`, cost)
}

// A request is charged the cost that it names. A request with an invalid cost is refused and
// charged nothing.
func TestCost(t *testing.T) {
	const byHeader, byQuery = "{header: X-Cost, max: 100}", "{query: n, max: 100, default: 7}"
	const no = ` is not a whole number from 1 to 100`
	for name, test := range map[string]struct {
		cost, target string
		header       []string
		body         string
		left         int64
		refused      string // the message
	}{
		"fixed":                {"5", "/", nil, "", 995, ""},
		"header":               {byHeader, "/", []string{"X-Cost", "30"}, "", 970, ""},
		"header in lower case": {byHeader, "/", []string{"x-cost", "100"}, "", 900, ""},
		"missing":              {byHeader, "/", nil, "", 999, ""},
		"negative":             {byHeader, "/", []string{"X-Cost", "-1"}, "", 1000, `header X-Cost: "-1"` + no},
		"huge":                 {byHeader, "/", []string{"X-Cost", "1e9"}, "", 1000, `header X-Cost: "1e9"` + no},
		"above the most":       {byHeader, "/", []string{"X-Cost", "101"}, "", 1000, `header X-Cost: "101"` + no},
		"beyond 32 bits":       {byHeader, "/", []string{"X-Cost", "4294967297"}, "", 1000, `header X-Cost: "4294967297"` + no},
		"no number":            {byHeader, "/", []string{"X-Cost", `a"<b>`}, "", 1000, `header X-Cost: "a\"<b>"` + no},
		"empty":                {byHeader, "/", []string{"X-Cost", ""}, "", 1000, `header X-Cost: ""` + no},
		"zero":                 {byHeader, "/", []string{"X-Cost", "0"}, "", 1000, `header X-Cost: "0"` + no},
		"repeated":             {byHeader, "/", []string{"X-Cost", "1", "X-Cost", "9"}, "", 1000, `header X-Cost: "9" is a second cost of one request`},
		"a list":               {byHeader, "/", []string{"X-Cost", "1, 9"}, "", 1000, `header X-Cost: "1, 9"` + no},
		"query":                {byQuery, "/?n=30", nil, "", 970, ""},
		"query missing":        {byQuery, "/?m=30", nil, "", 993, ""},
		"query repeated":       {byQuery, "/?n=1&n=30", nil, "", 1000, `query parameter n: "30" is a second cost of one request`},
		"query negative":       {byQuery, "/?n=-1", nil, "", 1000, `query parameter n: "-1"` + no},
		"zero where allowed":   {"{header: X-Cost, min: 0}", "/", []string{"X-Cost", "0"}, "", 1000, ""},
		"body":                 {"{body: 10}", "/", nil, "12345678901", 998, ""},
		"no body":              {"{body: 10}", "/", nil, "", 999, ""},
		"body above the most":  {"{body: 10, max: 2}", "/", nil, strings.Repeat("a", 21), 1000, `body: "21" bytes cost more than 2`},
		"route":                {`{routes: {"GET /a": 50}}`, "/a", nil, "", 950, ""},
		"another route":        {`{routes: {"GET /a": 50}, default: 3}`, "/b", nil, "", 997, ""},
	} {
		t.Run(name, func(t *testing.T) {
			time := clock{1767225600_000_000}
			told := 0
			l := newLimiter(t, time.store(), costly(test.cost))
			h := httplimit.New(l, "api", httplimit.Options{OnError: func(*http.Request, error) { told++ }})(ok)
			r := httptest.NewRequest(http.MethodGet, test.target, strings.NewReader(test.body))
			for i := 0; i < len(test.header); i += 2 {
				r.Header.Add(test.header[i], test.header[i+1])
			}
			w := send(h, r)
			if got := left(t, l, "192.0.2.1"); got != test.left {
				t.Errorf("%d are left, want %d", got, test.left)
			}
			if test.refused == "" {
				if w.Code != http.StatusOK {
					t.Errorf("answered with %s", dump(w))
				}
				return
			}
			expect(t, "answer", dump(w), fmt.Sprintf(`
400
Cache-Control: no-store
Content-Type: application/json

{"error":{"code":"bad_cost","message":%q,"context":{}}}`, test.refused))
			if told > 0 {
				t.Error("the program was told of an error that is the client's")
			}
		})
	}
}

// The size of a chunked body is unknown, so it has the default cost.
func TestCostOfChunkedBody(t *testing.T) {
	time := clock{1767225600_000_000}
	l := newLimiter(t, time.store(), costly("{body: 1KiB, default: 50}"))
	server := httptest.NewServer(httplimit.New(l, "api", httplimit.Options{})(ok))
	defer server.Close()
	for _, test := range []struct {
		body io.Reader
		left int64
	}{
		{strings.NewReader(strings.Repeat("a", 3000)), 997},
		{io.MultiReader(strings.NewReader(strings.Repeat("a", 3000))), 947},
	} {
		answer, err := server.Client().Post(server.URL, "text/plain", test.body)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := left(t, l, "127.0.0.1"); got != test.left {
			t.Errorf("%d are left, want %d", got, test.left)
		}
	}
}

// An invalid cost is answered with problem details if the client prefers them.
func TestBadCostAsProblem(t *testing.T) {
	var time clock
	h := byRules(t, time.store(), costly("{header: X-Cost}"), httplimit.Options{})
	expect(t, "problem", dump(get(h, "192.0.2.1:1", "/", "X-Cost", "no", "Accept", "application/problem+json")), `
400
Cache-Control: no-store
Content-Type: application/problem+json

{"type":"about:blank","title":"Bad Request","status":400,"detail":"header X-Cost: \"no\" is not a whole number from 1 to 10000","code":"bad_cost"}`)
}
