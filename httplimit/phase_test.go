package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

const phasedRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: address, requests: 5, per: 1h}
  - key: login
    descriptors:
      - key: remote_address
        rate_limit: {name: logins, requests: 3, per: 1h, count: responses, statuses: [401]}
  - key: user
    rate_limit: {name: mine, requests: 2, per: 1h}
  - key: user
    value: eve
    rate_limit: {name: eve, requests: 0, per: 1h, denial: {status: 503}}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{generic_key: {descriptor_key: login, descriptor_value: x}}, {remote_address: {}}]
    - actions: [{identity: {}}]
`

// calls counts the calls of a store.
type calls struct {
	stint.Store
	n int
}

func (c *calls) Decide(ctx context.Context, call *stint.Call) error {
	c.n++
	return c.Store.Decide(ctx, call)
}

// site is a handler behind the phase Early, authentication by the header X-User, and the other phase.
type site struct {
	http.Handler
	limiter *limiter.Limiter
	store   *calls
	passed  int
}

func newSite(t *testing.T, file string, o limiter.Options) *site {
	t.Helper()
	s := &site{store: &calls{Store: memory.New(memory.Options{})}}
	s.limiter = limiter.New(s.store, newLimiter(t, nil, file).Table(), o)
	users := httplimit.Options{Identity: func(r *http.Request) string { return r.Header.Get("X-User") }, PolicyHeader: "X-Policy"}
	behind := httplimit.New(s.limiter, "api", users)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.passed++ }))
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/private") && r.Header.Get("X-User") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	})
	users.Phase = httplimit.Early
	s.Handler = httplimit.New(s.limiter, "api", users)(login)
	return s
}

// used returns how many units of a limit's key are used.
func (s *site) used(t *testing.T, entries ...rule.Entry) int64 {
	t.Helper()
	var v limiter.Verdict
	if err := s.limiter.Decide(t.Context(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: entries}}}, &v); err != nil {
		t.Fatal(err)
	}
	return v.Limit - v.Remaining
}

// TestPhases checks what each phase takes, and what stays taken: all of a request that passes, what
// the first phase took of a login that failed, and nothing of a request that the second denies.
func TestPhases(t *testing.T) {
	address := rule.Entry{Key: "remote_address", Value: "192.0.2.1"}
	login := []rule.Entry{{Key: "login", Value: "x"}, address}
	for _, tt := range []struct {
		name, path, user string
		times            int
		status           int // of the last request
		calls            int // of the store for the last request
		address, logins  int64
	}{
		{"passes", "/", "ann", 1, 200, 3, 1, 0},                     // two decisions, and logins are given back
		{"without a user", "/", "", 1, 200, 2, 1, 0},                // the second phase has nothing to decide
		{"a login fails", "/private", "", 1, 401, 1, 1, 1},          // charged for good
		{"logins fail", "/private", "", 4, 429, 1, 3, 3},            // the first phase denies
		{"the second denies", "/", "ann", 3, 429, 3, 2, 0},          // the first is undone
		{"a denial of its own", "/", "eve", 1, 503, 3, 0, 0},        // also with another status
		{"the first denies", "/", "", 6, 429, 1, 5, 0},              // before authentication
		{"a user with a login", "/private", "ann", 1, 200, 3, 1, 0}, // a success does not count
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, phasedRules, limiter.Options{})
			var w *httptest.ResponseRecorder
			for range tt.times {
				s.store.n = 0
				w = get(s, "192.0.2.1:1", tt.path, "X-User", tt.user)
			}
			if w.Code != tt.status || s.store.n != tt.calls {
				t.Errorf("%d calls of the store, want %d: %s", s.store.n, tt.calls, dump(w))
			}
			if a, l := s.used(t, address), s.used(t, login...); a != tt.address || l != tt.logins {
				t.Errorf("used: %d by the address, %d by logins, want %d, %d", a, l, tt.address, tt.logins)
			}
		})
	}
}

// TestPhasesHeaders checks that the headers of a request that passes show the limits of both phases, and
// those of a denial the one that denied.
func TestPhasesHeaders(t *testing.T) {
	s := newSite(t, phasedRules, limiter.Options{})
	w := get(s, "192.0.2.1:1", "/", "X-User", "ann")
	if got := field(w, "RateLimit-Policy"); got != `"mine";q=2;w=3600, "address";q=5;w=3600, "logins";q=3;w=3600` || field(w, "X-RateLimit-Limit") != "2" {
		t.Errorf("a user: %s", dump(w))
	}
	get(s, "192.0.2.1:1", "/", "X-User", "bob")
	get(s, "192.0.2.1:1", "/", "X-User", "bob")
	if w = get(s, "192.0.2.1:1", "/", "X-User", "cat"); field(w, "X-RateLimit-Remaining") != "1" || field(w, "X-RateLimit-Limit") != "2" && field(w, "X-RateLimit-Limit") != "5" {
		t.Errorf("the nearest: %s", dump(w))
	}
	if w = get(s, "192.0.2.1:1", "/", "X-User", "bob"); field(w, "RateLimit-Policy") != `"mine";q=2;w=3600` || w.Code != 429 {
		t.Errorf("a denial: %s", dump(w))
	}
}

// TestPhasesUnmatched checks that a request is denied for lack of a limit only if neither phase has one.
func TestPhasesUnmatched(t *testing.T) {
	const file = `
domain: api
exempt: [{header: x-in, values: ["1"]}]
descriptors:
  - {key: path, value: /open, rate_limit: {requests: 5, per: 1h}}
  - {key: user, rate_limit: {requests: 1, per: 1h}}
http: {rate_limits: [{actions: [{path: {}}]}, {actions: [{identity: {}}]}]}
`
	s := newSite(t, file, limiter.Options{DenyUnmatched: true})
	for _, tt := range []struct {
		path, user, in string
		want           int
	}{
		{"/open", "", "", 200},
		{"/open", "ann", "", 200},
		{"/other", "bob", "", 200},
		{"/other", "bob", "", 429},
		{"/other", "", "", 429},
		{"/other", "bob", "1", 200}, // exempt in both phases
	} {
		if w := get(s, "192.0.2.1:1", tt.path, "X-User", tt.user, "X-In", tt.in); w.Code != tt.want {
			t.Errorf("%+v: %s", tt, dump(w))
		}
	}
}

// TestSecondPhaseAlone checks that middleware without an early one decides by all elements.
func TestSecondPhaseAlone(t *testing.T) {
	h := byRules(t, memory.New(memory.Options{}), phasedRules, httplimit.Options{Identity: func(*http.Request) string { return "ann" }})
	if w := get(h, "192.0.2.1:1", "/"); field(w, "RateLimit-Policy") != `"mine";q=2;w=3600, "address";q=5;w=3600, "logins";q=3;w=3600` {
		t.Errorf("%s", dump(w))
	}
}

// failing is a handler that returns an error, or nothing at all.
type failing struct{ err error }

func (f failing) ServeHTTP(http.ResponseWriter, *http.Request) error { return f.err }

// TestGate checks that a gate returns the error of the next handler, and that limits that count
// responses wait for the status that somebody else sends then.
func TestGate(t *testing.T) {
	const file = `
domain: api
descriptors: [{key: path, rate_limit: {requests: 3, per: 1h, count: responses, statuses: [401, 500]}}]
http: {rate_limits: [{actions: [{path: {}}]}]}
`
	errLogin := errors.New("no login")
	for _, tt := range []struct {
		name   string
		err    error
		waits  bool
		status int // sent later
		used   int64
	}{
		{"no error", nil, true, 0, 0},
		{"counts", errLogin, true, 401, 1},
		{"does not count", errLogin, true, 404, 0},
		{"nobody asks", errLogin, false, 0, 1}, // 500
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{limiter: newLimiter(t, memory.New(memory.Options{}), file)}
			var o httplimit.Options
			var settle func(int)
			if tt.waits {
				o.Failed = func(_ *http.Request, err error, later func(int)) {
					if !errors.Is(err, errLogin) {
						t.Errorf("failed with %v", err)
					}
					settle = later
				}
			}
			w := httptest.NewRecorder()
			err := httplimit.NewGate(s.limiter, "api", o).Serve(w, request("192.0.2.1:1", "/"), failing{tt.err})
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v", err)
			}
			if settle != nil {
				if n := s.used(t, rule.Entry{Key: "path", Value: "/"}); n != 1 {
					t.Errorf("%d units are reserved", n)
				}
				settle(tt.status)
			}
			if n := s.used(t, rule.Entry{Key: "path", Value: "/"}); n != tt.used {
				t.Errorf("%d units used, want %d", n, tt.used)
			}
		})
	}
}

// With a place for its decisions the phase Early works as with the context, and leaves the place as it
// was, even after a panic.
func TestEarlierPlace(t *testing.T) {
	s := newSite(t, phasedRules, limiter.Options{})
	var place httplimit.Earlier
	o := httplimit.Options{
		Identity: func(r *http.Request) string { return r.Header.Get("X-User") },
		Earlier:  func(*http.Request) *httplimit.Earlier { return &place },
	}
	behind := httplimit.New(s.limiter, "api", o)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if place == (httplimit.Earlier{}) {
			t.Error("the place is empty behind the phase Early")
		}
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}))
	o.Phase = httplimit.Early
	early := httplimit.New(s.limiter, "api", o)(behind)
	for i, want := range []int{200, 200, 429, 429} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-User", "ann")
		early.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("request %d gets %d, want %d", i, w.Code, want)
		}
		if place != (httplimit.Earlier{}) {
			t.Errorf("request %d leaves its decision in the place", i)
		}
	}
	if used := s.used(t, rule.Entry{Key: "remote_address", Value: "192.0.2.1"}); used != 2 {
		t.Errorf("%d units of the address are used, want 2 as denied requests are given back", used)
	}
	func() {
		defer func() { _ = recover() }()
		early.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/panic", http.NoBody))
	}()
	if place != (httplimit.Earlier{}) {
		t.Error("a panic leaves its decision in the place")
	}
}
