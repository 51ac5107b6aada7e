package httplimit_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
)

// Routes and users have separate buckets, and a rule does not apply to a request that lacks one of
// its attributes.
func TestRoutes(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: user
    descriptors:
      - key: route
        value: GET /users/{id}
        rate_limit: {requests: 4, per: 1m}
      - key: route
        value: POST /users
        rate_limit: {requests: 2, per: 1m}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: X-User, descriptor_key: user}}, {route: {patterns: ["GET /users/{id}", "POST /users"]}}]
`
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), file, httplimit.Options{})
	statuses := func(n int, method, target, user string) (list []int) {
		for i := range n {
			r := request("192.0.2.1:1", strings.ReplaceAll(target, "*", fmt.Sprint(i)))
			r.Method = method
			if user != "" {
				r.Header.Set("X-User", user)
			}
			list = append(list, send(h, r).Code)
		}
		return list
	}
	for _, test := range []struct {
		got, want []int
	}{
		{statuses(5, "GET", "/users/*", "ann"), []int{200, 200, 200, 200, 429}},
		{statuses(3, "POST", "/users", "ann"), []int{200, 200, 429}},
		{statuses(5, "GET", "/users/*?x=*", "bob"), []int{200, 200, 200, 200, 429}},
		{statuses(6, "GET", "/users/1", ""), []int{200, 200, 200, 200, 200, 200}},
		{statuses(6, "GET", "/other", "ann"), []int{200, 200, 200, 200, 200, 200}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("statuses %v, want %v", test.got, test.want)
		}
	}
}

// The actions read these attributes of a request.
func TestAttributes(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: host
    value: example.com
    rate_limit: {name: host, requests: 9, per: 1m}
  - key: q
    value: "a b"
    rate_limit: {name: query, requests: 9, per: 1m}
  - key: m
    value: PUT
    rate_limit: {name: method, requests: 9, per: 1m}
  - key: key
    value: first
    rate_limit: {name: header, requests: 9, per: 1m}
  - key: header_match
    value: search
    rate_limit: {name: search, requests: 9, per: 1m}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: ":authority", descriptor_key: host}}]
    - actions: [{query_parameters: {query_parameter_name: "q s", descriptor_key: q}}]
    - actions: [{method: {descriptor_key: m}}]
    - actions: [{request_headers: {header_name: x-key, descriptor_key: key}}]
    - actions: [{header_value_match: {descriptor_value: search, headers: [{name: ":path", prefix: "/find?"}, {name: ":method", exact: GET}]}}]
`
	var time clock
	h := byRules(t, time.store(), file, httplimit.Options{})
	for _, test := range []struct {
		method, target, header, want string
	}{
		{"GET", "http://other/", "", ""},
		{"GET", "http://example.com/", "", `"host"`},
		{"GET", "http://other/?q+s=a%20b", "", `"query"`},
		{"GET", "http://other/?x=1&&q%20s=a+b&q+s=2", "", `"query"`},
		{"GET", "http://other/?q+s=2&q+s=a+b", "", ""},
		{"GET", "http://other/?q+s=%zz&q+s=a+b", "", `"query"`},
		{"GET", "http://other/?q+s=a+b;c", "", `"query"`},
		{"GET", "http://other/?q+s", "", ""},
		{"PUT", "http://other/", "", `"method"`},
		{"GET", "http://other/", "X-Key", `"header"`},
		{"GET", "http://other/find?", "", `"search"`},
		{"GET", "http://other/find", "", ""},
	} {
		r := httptest.NewRequest(test.method, test.target, nil)
		if test.header != "" {
			r.Header[test.header] = []string{"first", "second"}
		}
		name, _, _ := strings.Cut(field(send(h, r), "RateLimit"), ";")
		if name != test.want {
			t.Errorf("%s %s is limited by %s, want %s", test.method, test.target, name, test.want)
		}
	}
}

// Requests to which no rule can apply pass unchanged.
func TestNothingToAsk(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(
		"domain: api\ndescriptors:\n  - key: remote_address\n    rate_limit: {requests: 0, per: 1m}\n")})
	if err != nil {
		t.Fatal(err)
	}
	var time clock
	for name, l := range map[string]*limiter.Limiter{
		"no table":   limiter.New(time.store(), nil, limiter.Options{}),
		"no actions": limiter.New(time.store(), table, limiter.Options{}),
		"no domain":  limiter.New(time.store(), new(rule.Table), limiter.Options{}),
	} {
		expect(t, name, dump(get(httplimit.New(l, "api", httplimit.Options{})(ok), "192.0.2.1:1", "/")), "200\n\n\n")
	}
}
