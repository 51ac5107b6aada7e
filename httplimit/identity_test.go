package httplimit_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/rule"
)

// perHour returns a limit whose period is longer than any test.
func perHour(requests uint32) *stint.Limit {
	return stint.MustLimit(stint.Spec{Requests: requests, Per: time.Hour})
}

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

// Whatever headers a client sends, it has one bucket and does not use the bucket of another client.
func TestSpoofedHeaders(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 5, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	var time clock
	for name, h := range map[string]http.Handler{
		"bare": httplimit.Limit(time.store(), perHour(5), httplimit.Options{Trusted: proxies})(ok),
		"rule": byRules(t, time.store(), file, httplimit.Options{Trusted: proxies}),
	} {
		t.Run(name, func(t *testing.T) {
			passed := 0
			for i := range 100 {
				fake := fmt.Sprintf("198.51.100.%d", i)
				// Directly, and through a proxy that appends the client's address.
				for _, w := range []int{
					get(h, "203.0.113.7:1", "/", "X-Forwarded-For", fake, "Forwarded", "for="+fake, "X-Real-IP", fake).Code,
					get(h, "10.0.0.1:1", "/", "X-Forwarded-For", fake, "X-Forwarded-For", fake+", 203.0.113.7", "Forwarded", "for="+fake).Code,
				} {
					if w == 200 {
						passed++
					}
				}
			}
			if passed != 5 {
				t.Errorf("%d passed, want 5", passed)
			}
			if w := get(h, "198.51.100.1:1", "/"); field(w, "X-RateLimit-Remaining") != "4" {
				t.Errorf("an address that was only claimed has %s left, want 4", field(w, "X-RateLimit-Remaining"))
			}
		})
	}
}

// All addresses of a /64 are one client, for a single limit and for a rule. The next /64 is another
// client.
func TestIPv6Rotation(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 5, per: 1h}
  - key: masked_remote_address
    rate_limit: {requests: 8, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{masked_remote_address: {v6_prefix_mask_len: 48}}]
`
	tries := 1_000_000
	if testing.Short() {
		tries = 20_000
	}
	var time clock
	for name, test := range map[string]struct {
		handler http.Handler
		next    int // how many requests of the next /64, in the same /48, pass
	}{
		"bare": {httplimit.Limit(time.store(), perHour(5), httplimit.Options{})(ok), 5},
		"wide": {httplimit.Limit(time.store(), perHour(5), httplimit.Options{IPv6Bits: 48})(ok), 0},
		"rule": {byRules(t, time.store(), file, httplimit.Options{}), 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rotate(test.handler, netip.MustParseAddr("2001:db8:1:2::"), tries); got != 5 {
				t.Errorf("%d addresses of one /64 passed, want 5", got)
			}
			if got := rotate(test.handler, netip.MustParseAddr("2001:db8:1:3::"), 1000); got != test.next {
				t.Errorf("%d addresses of the next /64 passed, want %d", got, test.next)
			}
		})
	}
}

// rotate sends requests from random addresses of a /64 and returns how many pass.
func rotate(h http.Handler, network netip.Addr, tries int) (passed int) {
	random := rand.New(rand.NewPCG(3, 4))
	r := request("", "/")
	w := &discard{http.Header{}, new(int)}
	for range tries {
		address := network.As16()
		binary.BigEndian.PutUint64(address[8:], random.Uint64())
		r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom16(address), 4711).String()
		*w.status = 0
		h.ServeHTTP(w, r)
		if *w.status == http.StatusOK {
			passed++
		}
	}
	return passed
}

// discard is a ResponseWriter that stores only the status.
type discard struct {
	header http.Header
	status *int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { *d.status = status }

// An IPv4 address in IPv6 notation is the same client, and so is an address with another port or
// zone.
func TestSameClient(t *testing.T) {
	var time clock
	h := httplimit.Limit(time.store(), perHour(100), httplimit.Options{})(ok)
	for _, same := range [][]string{
		{"192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3", "[::ffff:c000:201]:3"},
		{"[fe80::1]:1", "[fe80::2%eth0]:2", "[FE80::3%eth1]:2"},
	} {
		for i, from := range same {
			want := fmt.Sprint(99 - i)
			if got := field(get(h, from, "/"), "X-RateLimit-Remaining"); got != want {
				t.Errorf("%s has %s left, want %s", from, got, want)
			}
		}
	}
}

// OnMissing decides a request without a key; such requests never share a bucket.
func TestMissing(t *testing.T) {
	key := func(r *http.Request) (string, bool) {
		user := r.Header.Get("X-User")
		return user, user != ""
	}
	always := func(r *http.Request) (string, bool) { return r.Header.Get("X-User"), true }
	const a, b, socket = "192.0.2.1:1", "192.0.2.2:1", "@"
	for _, test := range []struct {
		name    string
		options httplimit.Options
		from    []string
		users   []string
		want    []int
	}{
		{"address", httplimit.Options{}, []string{a, a, b}, nil, []int{200, 429, 200}},
		{"no address", httplimit.Options{}, []string{socket, socket}, nil, []int{403, 403}},
		{"no address, pass", httplimit.Options{OnMissing: httplimit.Pass}, []string{socket, a, a, socket}, nil, []int{200, 200, 429, 200}},
		{"no address, refuse", httplimit.Options{OnMissing: httplimit.Refuse}, []string{socket, a}, nil, []int{403, 200}},
		{"key", httplimit.Options{Key: key}, []string{a, a, b}, []string{"ann", "bob", "ann"}, []int{200, 200, 429}},
		{"no key, by address", httplimit.Options{Key: key}, []string{a, a, b, socket}, []string{"", "", "", ""}, []int{200, 429, 200, 403}},
		{"an empty key is none", httplimit.Options{Key: always}, []string{a, a, b, a}, []string{"", "", "", "ann"}, []int{200, 429, 200, 200}},
		{"a key is no address", httplimit.Options{Key: key}, []string{a, b}, []string{"", "192.0.2.1"}, []int{200, 200}},
		{"no key, pass", httplimit.Options{Key: key, OnMissing: httplimit.Pass}, []string{a, a, a, a}, []string{"", "", "x", "x"}, []int{200, 200, 200, 429}},
		{"no key, refuse", httplimit.Options{Key: key, OnMissing: httplimit.Refuse}, []string{a, a}, []string{"", "x"}, []int{403, 200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var time clock
			h := httplimit.Limit(time.store(), perHour(1), test.options)(ok)
			for i, from := range test.from {
				r := request(from, "/")
				if test.users != nil {
					r.Header.Set("X-User", test.users[i])
				}
				if w := send(h, r); w.Code != test.want[i] {
					t.Errorf("request %d: status %d, want %d", i, w.Code, test.want[i])
				}
			}
		})
	}
}

func TestUnidentified(t *testing.T) {
	var time clock
	h := httplimit.Limit(time.store(), perHour(1), httplimit.Options{})(ok)
	expect(t, "envelope", dump(get(h, "@", "/")), `
403
Cache-Control: no-store
Content-Type: application/json

{"error":{"code":"unidentified","message":"The sender of this request is unknown.","context":{}}}`)
	expect(t, "problem", dump(get(h, "@", "/", "Accept", "application/problem+json")), `
403
Cache-Control: no-store
Content-Type: application/problem+json

{"type":"about:blank","title":"Forbidden","status":403,"detail":"The sender of this request is unknown.","code":"unidentified"}`)
}

func TestUnixSocket(t *testing.T) {
	var time clock
	h := httplimit.Limit(time.store(), perHour(1), httplimit.Options{TrustUnixSocket: true, ForwardedHeader: "forwarded"})(ok)
	for i, want := range []int{200, 429} {
		if w := get(h, "@", "/", "Forwarded", fmt.Sprintf("for=192.0.2.%d, for=203.0.113.1", i)); w.Code != want {
			t.Errorf("request %d: status %d, want %d", i, w.Code, want)
		}
	}
}

// Limits of one store share buckets if they have the same name, or no name and the same numbers.
func TestNames(t *testing.T) {
	var clock clock
	store := clock.store()
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Hour})
	for i, test := range []struct {
		limit *stint.Limit
		name  string
		want  int
		shown string
	}{
		{perHour(1), "", 200, `"1/1h";r=0;t=3600`},
		{perHour(1), "", 429, `"1/1h";r=0;t=3600`},
		{bucket, "", 200, `"1/1h";r=0;t=3600`},
		{perHour(1), "login", 200, `"login";r=0;t=3600`},
		{perHour(2), "login", 200, `"login";r=0;t=3600`}, // one unit was used under the old numbers
		{perHour(2), "login", 429, `"login";r=0;t=3600`},
		{perHour(2), "", 200, `"2/1h";r=1;t=3600`},
		{stint.MustLimit(stint.Spec{Requests: 5, Per: 90 * time.Second}), "", 200, `"5/1m30s";r=4;t=90`},
		{stint.MustLimit(stint.Spec{Requests: 5, Per: 10 * time.Minute}), "", 200, `"5/10m";r=4;t=600`},
		{stint.MustLimit(stint.Spec{Requests: 5, Per: 50 * time.Millisecond}), "", 200, `"5/50ms";r=4;t=1`},
		{stint.MustLimit(stint.Spec{Requests: 5, Calendar: stint.Month}), "", 200, `"5/month";r=4;t=2678400`},
		{stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}), "", 200, ""},
	} {
		w := get(httplimit.Limit(store, test.limit, httplimit.Options{Name: test.name})(ok), "192.0.2.1:1", "/")
		if got := field(w, "RateLimit"); w.Code != test.want || got != test.shown {
			t.Errorf("limit %d: status %d, RateLimit: %s, want %d, %s", i, w.Code, got, test.want, test.shown)
		}
	}
}

// Presets of a rule take precedence over those of the options.
func TestOptionsOfRules(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 5, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), file, httplimit.Options{Headers: []rule.Preset{rule.Draft03, rule.IETF}})
	expect(t, "answer", dump(get(h, "192.0.2.1:1", "/")), `
200
RateLimit-Policy: "api/remote_address";q=5;w=3600
RateLimit: "api/remote_address";r=4;t=3600
X-RateLimit-Limit: 5, 5;w=3600
X-RateLimit-Remaining: 4
X-RateLimit-Reset: 3600

`)
}
