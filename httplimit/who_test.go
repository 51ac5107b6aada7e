package httplimit_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"stint/httplimit"
)

// passing sends n requests and returns how many passed.
func passing(n int, h http.Handler, from string, header ...string) (passed int) {
	for range n {
		if get(h, from, "/", header...).Code == http.StatusOK {
			passed++
		}
	}
	return passed
}

// Fifty users behind one address have a limit each, and clients of that address who are not signed
// in share one. No user uses the units of another.
func TestUsersBehindOneAddress(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 5, per: 1h}
  - key: remote_address
    rate_limit: {requests: 3, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [{cookie: {name: session, descriptor_key: user}}, {remote_address: {}}]}]
`
	const office, home = "192.0.2.1:1", "192.0.2.2:1"
	var time clock
	h := byRules(t, time.store(), file, httplimit.Options{})
	for user := range 50 {
		if got := passing(7, h, office, "Cookie", fmt.Sprintf("a=b; session=s%d", user)); got != 5 {
			t.Errorf("user %d: %d passed, want 5", user, got)
		}
		if got := passing(1, h, home, "Cookie", fmt.Sprintf("session=s%d", user)); got != 0 {
			t.Errorf("user %d has a second budget at home", user)
		}
	}
	for _, anonymous := range []struct {
		from   string
		header []string
		want   int
	}{
		{office, nil, 3},
		{office, []string{"Cookie", "session="}, 0},
		{office, []string{"Cookie", "a=b"}, 0},
		{office, []string{"Cookie", ";;=;" + strings.Repeat("x", 8<<10)}, 0},
		{home, nil, 3},
	} {
		if got := passing(5, h, anonymous.from, anonymous.header...); got != anonymous.want {
			t.Errorf("anonymous at %s with %.40q: %d passed, want %d", anonymous.from, anonymous.header, got, anonymous.want)
		}
	}
}

// A user and an address are limited together: if either denies, neither is charged.
func TestUserAndAddress(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 3, per: 1h}
  - key: remote_address
    rate_limit: {requests: 5, per: 1h}
http:
  rate_limits:
    - actions: [{api_key: {header_name: x-api-key, descriptor_key: user}}]
    - actions: [{remote_address: {}}]
`
	const one, two = "192.0.2.1:1", "192.0.2.2:1"
	var time clock
	h := byRules(t, time.store(), file, httplimit.Options{})
	for i, step := range []struct {
		from, user string
		want       int // how many of ten pass
	}{
		{one, "ann", 3}, // ann's limit; the address has 2 left
		{one, "bob", 2}, // the limit of the address; bob has 1 left
		{one, "cid", 0}, // cid has 3 left
		{two, "bob", 1}, // the address has 4 left
		{two, "cid", 3}, // cid has 1 left
		{two, "ann", 0},
		{two, "dan", 1},
	} {
		if got := passing(10, h, step.from, "X-Api-Key", step.user); got != step.want {
			t.Errorf("step %d, %s at %s: %d passed, want %d", i, step.user, step.from, got, step.want)
		}
	}
}

// Long, missing, repeated or malformed values neither share a bucket nor escape the limit.
func TestOddIdentities(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: who
    rate_limit: {requests: 2, per: 1h}
  - key: remote_address
    rate_limit: {requests: 1, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [ACTION, {remote_address: {}}]}]
`
	const cookie, header = `{cookie: {name: s, descriptor_key: who}}`, `{api_key: {header_name: x-key, descriptor_key: who}}`
	const user, host = `{basic_auth_user: {descriptor_key: who}}`, `{host: {descriptor_key: who}}`
	long := strings.Repeat("x", 8<<10)
	for _, tt := range []struct {
		action string
		header []string
		want   []int // how many of three pass, for this value and for another of the same kind
	}{
		{cookie, []string{"Cookie", "s=" + long + "*"}, []int{2, 2}},
		{cookie, []string{"Cookie", "t=1", "Cookie", "s=*"}, []int{2, 2}},
		{cookie, []string{"Cookie", "s=; s=*"}, []int{2, 2}},
		{cookie, []string{"Cookie", "*"}, []int{1, 0}},
		{header, []string{"X-Key", "", "X-Key", "*"}, []int{2, 2}},
		{header, []string{"X-Key", long + "*", "X-Key", "same"}, []int{2, 2}},
		{header, []string{"X-Key", "same", "X-Key", "*"}, []int{2, 0}},
		{header, []string{"X-Key", "", "X-Other", "*"}, []int{1, 0}},
		{user, []string{"Authorization", "Basic *"}, []int{1, 0}},
		{user, []string{"Authorization", "Bearer *"}, []int{1, 0}},
		{host, []string{"X", "*"}, []int{2, 0}},
	} {
		var time clock
		h := byRules(t, time.store(), strings.Replace(file, "ACTION", tt.action, 1), httplimit.Options{})
		var got []int
		for _, mark := range []string{"1", "2"} {
			sent := slices.Clone(tt.header)
			for i := range sent {
				sent[i] = strings.ReplaceAll(sent[i], "*", mark)
			}
			got = append(got, passing(3, h, "192.0.2.1:1", sent...))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s with %.60q: %v passed, want %v", tt.action, tt.header, got, tt.want)
		}
	}
}

// A certificate identifies a client only if the server verified it.
func TestCertificates(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: peer
    rate_limit: {requests: 2, per: 1h}
  - key: remote_address
    rate_limit: {requests: 1, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [{tls_client_certificate: {part: common_name, descriptor_key: peer}}, {remote_address: {}}]}]
`
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "cart"}}
	for name, tt := range map[string]struct {
		state *tls.ConnectionState
		want  int
	}{
		"no TLS":         {nil, 1},
		"no certificate": {&tls.ConnectionState{}, 1},
		"not verified":   {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}, 1},
		"verified":       {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}, 2},
	} {
		var time clock
		h := byRules(t, time.store(), file, httplimit.Options{})
		passed := 0
		for range 3 {
			r := request("192.0.2.1:1", "/")
			if r.TLS = tt.state; send(h, r).Code == http.StatusOK {
				passed++
			}
		}
		if passed != tt.want {
			t.Errorf("%s: %d passed, want %d", name, passed, tt.want)
		}
	}
}
