package httplimit_test

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"stint/httplimit"
	"stint/internal/testkit"
	"stint/internal/urlpath"
)

// standard returns net/http's own router.
func standard(users http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/users/{id}", users)
	return mux
}

// decoding returns a router that matches the decoded path, as many do.
func decoding(users http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != "/users/42" {
			http.NotFound(w, r)
			return
		}
		users.ServeHTTP(w, r)
	})
}

// lenient returns a router that ignores case and a trailing slash.
func lenient(users http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(strings.TrimRight(path.Clean(r.URL.Path), "/"), "/users/42") {
			http.NotFound(w, r)
			return
		}
		users.ServeHTTP(w, r)
	})
}

// whatwg returns a router like those of Node: it resolves dot segments before empty segments, and
// treats a backslash as a slash.
func whatwg(users http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw := strings.ReplaceAll(r.URL.EscapedPath(), `\`, "/")
		resolved := (&url.URL{Path: "/"}).ResolveReference(&url.URL{Path: strings.TrimLeft(raw, "/")})
		if p, err := url.PathUnescape(strings.TrimRight(resolved.Path, "/")); err != nil || strings.ReplaceAll(p, "//", "/") != "/users/42" {
			http.NotFound(w, r)
			return
		}
		users.ServeHTTP(w, r)
	})
}

// readRequest parses a request as a server does; nil if a server refuses it.
func readRequest(method, target string) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")))
	if err != nil {
		return nil
	}
	r.RemoteAddr = "192.0.2.1:1"
	return r
}

// All spellings of a path that reach the handler are charged to the same bucket.
func TestRespelledPaths(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: path
    value: /users/42
    rate_limit: {name: by-path, requests: 100000, per: 1h, headers: legacy}
  - key: route
    value: /users/{id}
    rate_limit: {name: by-route, requests: 100000, per: 1h, headers: legacy}
  - key: header_match
    value: users
    rate_limit: {name: by-match, requests: 100000, per: 1h, headers: legacy}
http:
%s
  rate_limits:
    - actions: [{%s}]
`
	actions := []string{
		"path: {}", `route: ["/users/{id}"]`, `first_of: [{api_key: {header_name: none}}, {request_headers: {header_name: ":path", descriptor_key: path}}]`,
		`header_value_match: {descriptor_value: users, headers: [{name: ":path", prefix: /users/42}]}`,
	}
	dodges := []string{"/users/42//../", "/users//../42", "/x//../users/42", "//users/x//../../42"}
	for _, tt := range []struct {
		name   string
		router func(http.Handler) http.Handler
		paths  string
		sent   urlpath.Options
		also   []string
		least  int // how many requests the handler answered
	}{
		{name: "net/http", router: standard, least: 20},
		{name: "net/http and all spellings", router: standard, sent: urlpath.All},
		{name: "decoding", router: decoding, sent: urlpath.Options{EscapedSlash: true}, least: 500},
		{name: "decoding, told", router: decoding, paths: "  path: {fold: [escaped_slash], unclear: first}", sent: urlpath.Options{EscapedSlash: true}, least: 500},
		{name: "lenient", router: lenient, paths: "  path: {fold: [case, trailing_slash]}", sent: urlpath.Options{Case: true, TrailingSlash: true, EscapedSlash: true}, least: 500},
		{name: "whatwg", router: whatwg, paths: "  path: {fold: [trailing_slash]}", sent: urlpath.Options{Backslash: true}, also: dodges, least: 100},
		{
			name: "whatwg, told", router: whatwg, paths: "  path: {fold: [trailing_slash, backslash, dots_first], unclear: first}",
			sent: urlpath.Options{Backslash: true}, also: dodges, least: 100,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, action := range actions {
				reached := 0
				users := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
				var time clock
				l := newLimiter(t, time.store(), fmt.Sprintf(file, tt.paths, action))
				h := httplimit.New(l, "api", httplimit.Options{})(tt.router(users))
				for i, target := range append(testkit.RespellPath("/users/42", 500, tt.sent), tt.also...) {
					if r := readRequest("GET", target); r != nil {
						before := reached
						counted := send(h, r)
						if left := remaining(counted); reached > before && left != fmt.Sprint(100000-reached) {
							t.Fatalf("%s: %d: %q was answered by the handler, as number %d, and %q are left", action, i, target, reached, left)
						} else if reached == before && left == fmt.Sprint(100000-reached-1) {
							reached++ // counted although the handler was not called
						}
					}
				}
				if reached < tt.least {
					t.Errorf("%s: only %d came to the handler", action, reached)
				}
			}
		})
	}
}

func remaining(w *httptest.ResponseRecorder) string { return field(w, "X-RateLimit-Remaining") }

// The method of the request line counts. GET of a route includes HEAD; a header that overrides the
// method needs an action of its own.
func TestMethods(t *testing.T) {
	const file = `
domain: api
descriptors:
  - {key: method, rate_limit: {requests: 100, per: 1h, headers: legacy}}
  - {key: route, rate_limit: {requests: 100, per: 1h, headers: legacy}}
  - {key: override, rate_limit: {requests: 100, per: 1h, headers: legacy}}
http:
  rate_limits:
    - actions: [{%s}]
`
	const overridden = `first_of: [{request_headers: {header_name: X-HTTP-Method-Override, descriptor_key: override}}, {method: {}}]`
	for _, tt := range []struct {
		action string
		sent   []string // method, and the value of the override header
		left   []string
	}{
		{`method: {}`, []string{"GET", "HEAD", "OPTIONS", "GET", "get"}, []string{"99", "99", "99", "98", "99"}},
		{`route: ["GET /users/{id}"]`, []string{"GET", "HEAD", "OPTIONS", "POST GET"}, []string{"99", "98", "", ""}},
		{`route: ["/users/{id}"]`, []string{"GET", "HEAD", "OPTIONS", "POST"}, []string{"99", "98", "97", "96"}},
		{`method: {}`, []string{"POST DELETE", "POST"}, []string{"99", "98"}},
		{overridden, []string{"DELETE", "POST DELETE", "POST", "GET DELETE"}, []string{"99", "99", "99", "98"}},
	} {
		var time clock
		h := byRules(t, time.store(), fmt.Sprintf(file, tt.action), httplimit.Options{})
		var left []string
		for _, sent := range tt.sent {
			method, header, _ := strings.Cut(sent, " ")
			r := readRequest(method, "/users/42")
			r.Header.Set("X-HTTP-Method-Override", header)
			left = append(left, remaining(send(h, r)))
		}
		if !slices.Equal(left, tt.left) {
			t.Errorf("%s: %v: left %v, want %v", tt.action, tt.sent, left, tt.left)
		}
	}
	// OPTIONS * refers to the whole server and has no path.
	var time clock
	h := byRules(t, time.store(), fmt.Sprintf(file, "method: {}"), httplimit.Options{})
	if got := cmp.Or(remaining(send(h, readRequest("OPTIONS", "*"))), "none"); got != "99" {
		t.Errorf("OPTIONS *: %s", got)
	}
}

// A path with too many readings is refused and charged nothing.
func TestUnreadablePath(t *testing.T) {
	const file = `
domain: api
descriptors: [{key: path, rate_limit: {requests: 100, per: 1h, headers: legacy}}]
http: {rate_limits: [{actions: [{path: {}}]}]}
`
	var time clock
	h := byRules(t, time.store(), file, httplimit.Options{})
	w := send(h, readRequest("GET", "/a;b%2F..//c%252F.%2e/d;e"))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":"bad_path"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w = send(h, readRequest("GET", "/a%252F..;x")); w.Code != http.StatusOK || remaining(w) != "99" {
		t.Errorf("%d, %s left", w.Code, remaining(w))
	}
}
