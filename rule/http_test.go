package rule_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"stint/rule"
)

// request is an HTTP request as actions see it. Header names are in lower case.
type request struct {
	method, path string
	query        map[string]string
	headers      map[string]string
	address      netip.Addr
}

func (r *request) Method() string { return r.method }
func (r *request) Path() string   { return r.path }

func (r *request) Query(name string) (string, bool) { v, ok := r.query[name]; return v, ok }

func (r *request) Header(name string) (string, bool) {
	v, ok := r.headers[strings.ToLower(name)]
	return v, ok
}

func (r *request) RemoteAddress() netip.Addr { return r.address }

func show(list []rule.Descriptor) string {
	var all []string
	for _, d := range list {
		var parts []string
		for _, e := range d.Entries {
			parts = append(parts, e.Key+"="+e.Value)
		}
		all = append(all, strings.Join(parts, " "))
	}
	return strings.Join(all, "; ")
}

// described returns the descriptors of a request.
func described(t testing.TB, d *rule.Domain, dst []rule.Descriptor, r *request) []rule.Descriptor {
	t.Helper()
	dst, err := d.Describe(dst, r, rule.AnyPhase)
	if err != nil {
		t.Fatal(err)
	}
	return dst
}

func shown(t testing.TB, d *rule.Domain, r *request) string {
	t.Helper()
	return show(described(t, d, nil, r))
}

// describe runs one list of actions, in YAML, on a request.
func describe(t *testing.T, actions string, r *request) string {
	t.Helper()
	d := parse(t, "domain: d\nhttp: {rate_limits: [{actions: ["+actions+"]}]}\n").Domain("d")
	if !d.HasHTTP() {
		t.Fatal("no actions")
	}
	return shown(t, d, r)
}

func TestActions(t *testing.T) {
	r := &request{
		method: "GET", path: "/users//./%34%32",
		query:   map[string]string{"q": "cats", "empty": ""},
		headers: map[string]string{"x-api-key": "k1", "x-plan": "Free", "x-empty": "", "host": "example.com", "user-agent": "Mozilla/5.0"},
		address: netip.MustParseAddr("2001:db8:1:2:3::9"),
	}
	for _, tt := range []struct{ actions, want string }{
		{`{remote_address: {}}`, "remote_address=2001:db8:1:2::/64"},
		{`{remote_address: {descriptor_key: ip}}`, "ip=2001:db8:1:2::/64"},
		{`{remote_address: }`, "remote_address=2001:db8:1:2::/64"},
		{`{masked_remote_address: {}}`, "masked_remote_address=2001:db8:1:2::/64"},
		{`{masked_remote_address: {v6_prefix_mask_len: 128}}`, "masked_remote_address=2001:db8:1:2:3::9/128"},
		{`{masked_remote_address: {v6_prefix_mask_len: 48}}`, "masked_remote_address=2001:db8:1::/48"},
		{`{masked_remote_address: {v6_prefix_mask_len: 0}}`, "masked_remote_address=::/0"},
		{`{request_headers: {header_name: X-API-Key, descriptor_key: user}}`, "user=k1"},
		{`{request_headers: {header_name: missing, descriptor_key: user}}`, ""},
		{`{request_headers: {header_name: x-empty, descriptor_key: user}}`, ""},
		{`{request_headers: {header_name: missing, descriptor_key: user, skip_if_absent: true}}`, ""},
		{`{request_headers: {header_name: missing, descriptor_key: user, skip_if_absent: true}}, {method: {}}`, "method=GET"},
		{`{request_headers: {header_name: ":path", descriptor_key: p}}`, "p=/users/42"},
		{`{request_headers: {header_name: ":method", descriptor_key: m}}`, "m=GET"},
		{`{request_headers: {header_name: ":authority", descriptor_key: h}}`, "h=example.com"},
		{`{query_parameters: {query_parameter_name: q, descriptor_key: q}}`, "q=cats"},
		{`{query_parameters: {query_parameter_name: empty, descriptor_key: q}}`, ""},
		{`{query_parameters: {query_parameter_name: none, descriptor_key: q}}`, ""},
		{`{query_parameters: {query_parameter_name: none, descriptor_key: q, skip_if_absent: true}}, {path: {}}`, "path=/users/42"},
		{`{generic_key: {descriptor_value: all}}`, "generic_key=all"},
		{`{generic_key: {descriptor_key: k, descriptor_value: all}}`, "k=all"},
		{`{path: {}}, {method: {descriptor_key: m}}`, "path=/users/42 m=GET"},
		{`{route: {patterns: ["GET /users/{id}"]}}`, "route=GET /users/{id}"},
		{`{route: ["/users/{id}"]}`, "route=/users/{id}"},
		{`{route: {patterns: ["POST /users/{id}"], descriptor_key: r}}`, ""},
		{`{header_value_match: {descriptor_value: free, headers: [{name: x-plan, exact: Free}]}}`, "header_match=free"},
		{`{header_value_match: {descriptor_key: p, descriptor_value: free, headers: [{name: x-plan, exact: free}]}}`, ""},
		{`{header_value_match: {descriptor_value: free, headers: [{name: x-plan, exact: fREE, ignore_case: true}]}}`, "header_match=free"},
		{`{header_value_match: {descriptor_value: free, headers: [{name: x-plan, exact: paid, invert: true}]}}`, "header_match=free"},
		{`{header_value_match: {descriptor_value: free, expect_match: false, headers: [{name: x-plan, exact: paid}]}}`, "header_match=free"},
		{`{header_value_match: {descriptor_value: free, expect_match: false, headers: [{name: x-plan, exact: Free}]}}`, ""},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, prefix: Fr}, {name: x-plan, suffix: ee}, {name: x-plan, contains: re}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, prefix: Fr}, {name: x-plan, suffix: x}]}}`, ""},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, regex: "F[a-z]+"}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, regex: "F|e"}]}}`, ""}, // the whole value
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, regex: "fREE", ignore_case: true}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, present: true}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, present: false}]}}`, ""},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, present: true, invert: true}]}}`, ""},
		{`{header_value_match: {descriptor_value: v, headers: [{name: none, present: true, invert: true}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: none, present: false}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: none, exact: x, invert: true}]}}`, ""}, // a missing header matches nothing
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, exact_match: Free, invert_match: false}, {name: user-agent, prefix_match: Moz}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, string_match: {exact: FREE, ignore_case: true}}, {name: x-plan, present_match: true}]}}`, "header_match=v"},
		{`{header_value_match: {descriptor_value: v, headers: [{name: x-plan, string_match: {ignore_case: true, safe_regex: {regex: "F.*"}}}, {name: x-plan, safe_regex_match: {google_re2: {}, regex: "F.*"}}]}}`, "header_match=v"},
	} {
		if got := describe(t, tt.actions, r); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.actions, got, tt.want)
		}
	}
}

// One client has one address, however it is written. No address gives no descriptor.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ address, remote, masked string }{
		{"192.0.2.1", "192.0.2.1", "192.0.2.0/24"},
		{"::ffff:192.0.2.1", "192.0.2.1", "192.0.2.0/24"},
		{"2001:db8::1", "2001:db8::/64", "2001:db8::/64"},
		{"2001:db8::ffff", "2001:db8::/64", "2001:db8::/64"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/64"},
		{"fe80::2%eth1", "fe80::/64", "fe80::/64"},
		{"", "", ""},
	} {
		r := &request{method: "GET", path: "/"}
		if tt.address != "" {
			r.address = netip.MustParseAddr(tt.address)
		}
		got := describe(t, `{remote_address: {descriptor_key: ip}}`, r)
		masked := describe(t, `{masked_remote_address: {descriptor_key: ip, v4_prefix_mask_len: 24}}`, r)
		if strings.TrimPrefix(got, "ip=") != tt.remote || strings.TrimPrefix(masked, "ip=") != tt.masked {
			t.Errorf("%s: %q and %q", tt.address, got, masked)
		}
	}
}

// One user may send 4 GETs and 2 POSTs a minute, over all routes of a pattern together. A second
// user has buckets of its own.
func TestRoutesAreBuckets(t *testing.T) {
	data, err := os.ReadFile("testdata/good/http.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := parse(t, string(data)).Domain("web")
	keys := map[string]string{}
	for _, r := range []struct{ user, method, path, bucket string }{
		{"ann", "GET", "/users/1", "ann GET"},
		{"ann", "GET", "/users/2", "ann GET"},
		{"ann", "HEAD", "/users/2", "ann GET"},
		{"ann", "GET", "/./users//%32", "ann GET"},
		{"ann", "POST", "/users/1", "ann POST"},
		{"bob", "GET", "/users/1", "bob GET"},
	} {
		list := described(t, d, nil, &request{method: r.method, path: r.path, headers: map[string]string{"x-api-key": r.user}})
		matched := 0
		for _, descriptor := range list {
			for _, limit := range d.Match(descriptor.Entries) {
				if descriptor.Entries[0].Key != "user" {
					continue
				}
				matched++
				key := string(limit.AppendKey(nil, descriptor.Entries))
				if bucket, seen := keys[key]; seen && bucket != r.bucket {
					t.Errorf("%v shares the bucket of %s", r, bucket)
				}
				keys[key] = r.bucket
				if want := map[string]uint32{"GET": 4, "HEAD": 4, "POST": 2}[r.method]; limit.Limit.Spec().Requests != want {
					t.Errorf("%v: limit %v", r, limit.Name)
				}
			}
		}
		if matched != 1 {
			t.Errorf("%v matched %d limits: %s", r, matched, show(list))
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d buckets: %v", len(keys), keys)
	}
	others := shown(t, d, &request{method: "GET", path: "/users/1"})
	if others != "where=here path=/users/1 method=GET; tool=robot" {
		t.Errorf("without key and address: %s", others)
	}
}

// Describe reuses its argument and leaves no entry of the previous request.
func TestDescribeReusesMemory(t *testing.T) {
	d := parse(t, `
domain: d
http:
  rate_limits:
    - actions: [{request_headers: {header_name: a, descriptor_key: a}}, {request_headers: {header_name: b, descriptor_key: b}}]
    - actions: [{request_headers: {header_name: b, descriptor_key: b}}]
    - actions: [{path: {}}]
`).Domain("d")
	both := &request{path: "/both", headers: map[string]string{"a": "1", "b": "2"}}
	one := &request{path: "/one", headers: map[string]string{"b": "3"}}
	dst := described(t, d, nil, both)
	if got := show(dst); got != "a=1 b=2; b=2; path=/both" {
		t.Fatal(got)
	}
	dst = described(t, d, dst[:0], one)
	if got := show(dst); got != "b=3; path=/one" {
		t.Fatal(got)
	}
	if got := show(described(t, d, dst, one)); got != "b=3; path=/one; b=3; path=/one" {
		t.Fatal(got) // Describe appends
	}
	if n := testing.AllocsPerRun(100, func() { dst, _ = d.Describe(dst[:0], both, rule.AnyPhase) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Every descriptor has the cost of its element. A bad cost refuses the request and leaves dst as
// it was.
func TestDescribeCosts(t *testing.T) {
	d := parse(t, `
domain: d
http:
  rate_limits:
    - actions: [{path: {}}]
    - {actions: [{path: {}}], cost: {header: x-cost, default: 2}}
    - {actions: [{request_headers: {header_name: a, descriptor_key: a}}], cost: {header: x-a}}
    - {actions: [{path: {}}], hits_addend: {number: 7}}
`).Domain("d")
	for _, tt := range []struct {
		headers map[string]string
		want    string
	}{
		{nil, "1 2 7"},
		{map[string]string{"x-cost": "5"}, "1 5 7"},
		{map[string]string{"x-cost": "5", "x-a": "-1"}, "1 5 7"}, // no descriptor has that cost
		{map[string]string{"x-cost": "5", "a": "1"}, "1 5 1 7"},
		{map[string]string{"x-cost": "-1"}, `header x-cost: "-1" is not a whole number from 1 to 10000`},
		{map[string]string{"a": "1", "x-a": "1e9"}, `header x-a: "1e9" is not a whole number from 1 to 10000`},
	} {
		before := []rule.Descriptor{{Cost: 9}}
		dst, err := d.Describe(before, &request{path: "/", headers: tt.headers}, rule.AnyPhase)
		got := ""
		if err != nil {
			var bad *rule.CostError
			if got = err.Error(); !errors.As(err, &bad) || len(dst) != 1 || dst[0].Cost != 9 {
				t.Errorf("%v: %T, %v", tt.headers, err, dst)
			}
		} else {
			var costs []string
			for _, one := range dst[1:] {
				costs = append(costs, fmt.Sprint(one.Cost))
			}
			got = strings.Join(costs, " ")
		}
		if got != tt.want {
			t.Errorf("%v: %s, want %s", tt.headers, got, tt.want)
		}
	}
}

func BenchmarkDescribe(b *testing.B) {
	data, err := os.ReadFile("testdata/good/http.yaml")
	if err != nil {
		b.Fatal(err)
	}
	d := parse(b, string(data)).Domain("web")
	r := &request{method: "GET", path: "/users/42", headers: map[string]string{"x-api-key": "k"}, address: netip.MustParseAddr("192.0.2.1")}
	var dst []rule.Descriptor
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = d.Describe(dst[:0], r, rule.AnyPhase)
	}
	if len(dst) == 0 {
		b.Fatal(fmt.Sprint(dst))
	}
}
