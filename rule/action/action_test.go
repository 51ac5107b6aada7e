package action_test

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"stint/internal/strictyaml/parser"
	"stint/internal/web"
	"stint/rule/action"
)

// plain is a request that implements only Attributes.
type plain struct {
	header http.Header
	query  string
}

func (p *plain) Method() string            { return "GET" }
func (p *plain) Path() string              { return "/" }
func (p *plain) RemoteAddress() netip.Addr { return netip.MustParseAddr("192.0.2.1") }

func (p *plain) Query(name string) (string, bool) { return web.QueryValue(p.query, name) }

func (p *plain) Header(name string) (string, bool) {
	values := p.header.Values(name)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// full is a request that implements Connection too.
type full struct {
	plain
	host    string
	cert    *x509.Certificate
	trusted bool
	set     []*http.Cookie
}

func (f *full) Host() string                       { return f.host }
func (f *full) Values(name string) []string        { return f.header.Values(name) }
func (f *full) PeerCertificate() *x509.Certificate { return f.cert }
func (f *full) TrustedPeer() bool                  { return f.trusted }
func (f *full) SetCookie(c *http.Cookie)           { f.set = append(f.set, c) }

var (
	_ action.Attributes = (*plain)(nil)
	_ action.Connection = (*full)(nil)
)

// read compiles a list of actions in YAML.
func read(t *testing.T, yaml string) *action.List {
	t.Helper()
	doc := parser.Parse([]byte("[" + yaml + "]"))
	list := action.Read(doc.Root(), action.Paths{}, outside{})
	for _, f := range doc.Faults() {
		t.Fatalf("%s: %+v", yaml, f)
	}
	return list
}

// describe returns the descriptor of a request as text.
func describe(t *testing.T, yaml string, a action.Attributes) string {
	t.Helper()
	entries, ok := read(t, yaml).Describe(nil, a, action.Paths{}.Read(a.Path()))
	if !ok {
		return ""
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Key+"="+e.Value)
	}
	return strings.Join(all, " ")
}

func hash(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

// Each action that identifies a caller returns the identity or nothing, and never a secret.
func TestIdentity(t *testing.T) {
	long := strings.Repeat("x", 8<<10)
	for _, tt := range []struct {
		action string
		header http.Header
		want   string
	}{
		{`{cookie: {name: plan, descriptor_key: c, hashed: false}}`, http.Header{"Cookie": {"a=1; plan=free; b"}}, "c=free"},
		{`{cookie: {name: plan, descriptor_key: c, hashed: false}}`, http.Header{"Cookie": {"a=1;plan=\"free\""}}, "c=free"},
		{`{cookie: {name: plan, descriptor_key: c, hashed: false}}`, http.Header{"Cookie": {"Plan=free; xplan=1; planx=1; plan"}}, ""},
		{`{cookie: {name: plan, descriptor_key: c, hashed: false}}`, http.Header{"Cookie": {"plan=; plan=x"}}, "c=x"},
		{`{cookie: {name: plan, descriptor_key: c, hashed: false}}`, http.Header{"Cookie": {"a=1", "plan=x"}}, "c=x"},
		{`{cookie: {name: plan, descriptor_key: c, hashed: false}}`, http.Header{"Cookie": {"plan=x; plan=y"}}, "c=x"},
		{`{cookie: {name: sid, descriptor_key: s}}`, http.Header{"Cookie": {"sid=" + long}}, "s=" + hash(long)},
		{`{cookie: {name: sid, descriptor_key: s}}`, nil, ""},
		{`{cookie: {name: sid, descriptor_key: s, skip_if_absent: true}}, {method: {}}`, nil, "method=GET"},

		{`{basic_auth_user: {}}`, http.Header{"Authorization": {basic("ann:secret")}}, "basic_auth_user=ann"},
		{`{basic_auth_user: {descriptor_key: user}}`, http.Header{"Authorization": {"bASIC  " + base64.StdEncoding.EncodeToString([]byte("ann:a:b"))}}, "user=ann"},
		{`{basic_auth_user: {}}`, http.Header{"Authorization": {"Bearer x", basic("ann:")}}, "basic_auth_user=ann"},
		{`{basic_auth_user: {}}`, http.Header{"Authorization": {basic(":secret")}}, ""},
		{`{basic_auth_user: {}}`, http.Header{"Authorization": {basic("ann")}}, ""},
		{`{basic_auth_user: {}}`, http.Header{"Authorization": {"Basic %%%"}}, ""},
		{`{basic_auth_user: {}}`, http.Header{"Authorization": {"Basic"}}, ""},
		{`{basic_auth_user: {}}`, nil, ""},

		{`{api_key: {header_name: x-api-key}}`, http.Header{"X-Api-Key": {"k1"}}, "api_key=" + hash("k1")},
		{`{api_key: {header_name: x-api-key}}`, http.Header{"X-Api-Key": {"", "k1"}}, "api_key=" + hash("k1")},
		{`{api_key: {header_name: x-api-key}}`, http.Header{"X-Api-Key": {""}}, ""},
		{`{api_key: {query_parameter_name: key}}`, nil, "api_key=" + hash("k2")},
		{`{api_key: {header_name: x-api-key, query_parameter_name: key}}`, http.Header{"X-Api-Key": {"k1"}}, "api_key=" + hash("k1")},
		{`{api_key: {header_name: x-api-key, query_parameter_name: key}}`, nil, "api_key=" + hash("k2")},
		{`{api_key: {header_name: x-api-key, query_parameter_name: none}}`, nil, ""},
		{`{request_headers: {header_name: x-user, descriptor_key: user}}`, http.Header{"X-User": {"", "ann"}}, "user=ann"},

		{`{first_of: [{basic_auth_user: {descriptor_key: user}}, {remote_address: {}}]}`, http.Header{"Authorization": {basic("ann:x")}}, "user=ann"},
		{`{first_of: [{basic_auth_user: {descriptor_key: user}}, {remote_address: {}}]}`, nil, "remote_address=192.0.2.1"},
		{`{first_of: [{basic_auth_user: {}}, {api_key: {header_name: k}}]}`, nil, ""},
		{`{method: {}}, {first_of: [{basic_auth_user: {}}, {first_of: [{api_key: {header_name: k}}, {path: {}}]}]}`, nil, "method=GET path=/"},
	} {
		for _, a := range []action.Attributes{
			&plain{tt.header, "key=k2"},
			&full{plain: plain{tt.header, "key=k2"}},
		} {
			if _, repeated := a.(*plain); repeated && repeats(tt.header) {
				continue // a plain request has one value for each header
			}
			if got := describe(t, tt.action, a); got != tt.want {
				t.Errorf("%s with %v is %q, want %q", tt.action, tt.header, got, tt.want)
			}
		}
	}
}

// TestQueryIdentity checks that an empty value of a query hides no other value.
func TestQueryIdentity(t *testing.T) {
	for raw, want := range map[string]string{
		"key=a": "a", "key=&key=a": "a", "key&k%65y=a": "a", "key=a&key=b": "a", "x=1;key=a": "a", "key=": "", "": "",
	} {
		apiKey, parameter := "", ""
		if want != "" {
			apiKey, parameter = "api_key="+hash(want), "p="+want
		}
		if got := describe(t, `{api_key: {query_parameter_name: key}}`, &plain{query: raw}); got != apiKey {
			t.Errorf("api_key with %q is %q, want %q", raw, got, apiKey)
		}
		if got := describe(t, `{query_parameters: {query_parameter_name: key, descriptor_key: p}}`, &plain{query: raw}); got != parameter {
			t.Errorf("query_parameters with %q is %q, want %q", raw, got, parameter)
		}
	}
}

// TestBasicUser checks that all spellings of a header that common servers accept give the same user, and that the
// longest header takes little memory.
func TestBasicUser(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{"Basic YW5uOnNlY3JldA==", "ann"},
		{"Basic YW5uOnNlY3JldA", "ann"},
		{"Basic YW5uOnNlY3JldA=", "ann"},
		{"Basic YW5uOnNlY3JldA==== ", "ann"},
		{"basic YW5uOnNlY3JldA==", "ann"},
		{"BASIC\tYW5uOnNlY3JldA==\t", "ann"},
		{"  Basic \t  YW5uOnNlY3JldA==", "ann"},
		{"Basic\xa0YW5uOnNlY3JldA==", "ann"},
		{"Basic YW5uOg", "ann"},
		{"Basic YW5u Onc9", "ann"}, // Node, PHP, Python and Ruby skip what is no base64
		{"Basic Y=W!5.u~Onc9", "ann"},
		{"Basic YW5u-Onc9", "ann"}, // PHP, Python and Ruby skip the letters of the URL alphabet too
		{"Basic YW----5uOnc9", "ann"},
		{"Basic cm9vd--Dps-ZXRtZW--luM-Q==OjOO", "root"}, // text too if these letters count
		{"Basic dXNlc--jpxd2Vyd-Hkx-Mg==oOOj", "user"},
		{"Basic Pj4/Pz86eA==", ">>???"},
		{"Basic Pj4_Pz86eA", ">>???"},
		{"Basic 77+/Ong=", "\uffff"},
		{"Basic 77-_Ong", "\uffff"},
		{"Basic /zp4", "\xff"},
		{"Basic YW5u", ""},
		{"Basic OnNlY3JldA==", ""},
		{"Basic", ""},
		{"Basic ", ""},
		{"BasicYW5uOnNlY3JldA==", ""},
		{"Basics YW5uOnNlY3JldA==", ""},
		{"Basic-x YW5uOnNlY3JldA==", ""},
		{"Digest YW5uOnNlY3JldA==", ""},
		{"Basic " + strings.Repeat("!", 60<<10) + "YW5uOnNlY3JldA==", "ann"},
		{"Basic " + strings.Repeat("!", 1<<20) + "YW5uOnNlY3JldA==", ""},
		{"Basic " + strings.Repeat("YW5u", 1<<20), ""},
	} {
		want := ""
		if tt.want != "" {
			want = "basic_auth_user=" + tt.want
		}
		if got := describe(t, `{basic_auth_user: {}}`, &plain{header: http.Header{"Authorization": {tt.value}}}); got != want {
			t.Errorf("%.40q is %.40q, want %q", tt.value, got, want)
		}
	}
}

// repeats reports whether a header has several values.
func repeats(h http.Header) bool {
	for _, values := range h {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

// One host has one bucket, in every spelling.
func TestHost(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "host=example.com", "EXAMPLE.com:8080": "host=example.com", "example.com.": "host=example.com",
		"example.com.:80": "host=example.com", "[2001:DB8::1]:80": "host=[2001:db8::1]", "[2001:db8::1]": "host=[2001:db8::1]",
		"": "", ":80": "", ".": "",
	} {
		if got := describe(t, `{host: {}}`, &full{host: in}); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if got := describe(t, `{host: {}}`, &plain{header: http.Header{"Host": {in}}}); got != want {
			t.Errorf("header %q is %q, want %q", in, got, want)
		}
	}
}

func TestCertificate(t *testing.T) {
	uri, _ := url.Parse("spiffe://example.org/cart")
	cert := &x509.Certificate{Raw: []byte("certificate"), Subject: pkix.Name{CommonName: "cart"}, URIs: []*url.URL{uri}}
	for _, tt := range []struct {
		action string
		cert   *x509.Certificate
		want   string
	}{
		{`{tls_client_certificate: {part: common_name}}`, cert, "tls_client_certificate=cart"},
		{`{tls_client_certificate: {part: san_uri, descriptor_key: peer}}`, cert, "peer=spiffe://example.org/cart"},
		{`{tls_client_certificate: {part: fingerprint}}`, cert, "tls_client_certificate=" + hash("certificate")},
		{`{tls_client_certificate: {}}`, cert, "tls_client_certificate=" + hash("certificate")},
		{`{tls_client_certificate: {part: common_name}}`, new(x509.Certificate), ""},
		{`{tls_client_certificate: {part: san_uri}}`, new(x509.Certificate), ""},
		{`{tls_client_certificate: {}}`, nil, ""},
	} {
		if got := describe(t, tt.action, &full{cert: tt.cert}); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.action, got, tt.want)
		}
		if got := describe(t, tt.action, new(plain)); got != "" {
			t.Errorf("%s is %q without a connection", tt.action, got)
		}
	}
}

func TestKeysAndNames(t *testing.T) {
	list := read(t, `{path: {}}, {first_of: [{api_key: {header_name: k, descriptor_key: user}}, {remote_address: {}}]}, {host: {skip_if_absent: true}}, {method: {}}`)
	if got := fmt.Sprint(list.Keys()); got != "[[path] [user remote_address]]" {
		t.Error(got)
	}
	if got := list.String(); got != " path first of (api_key as user, remote_address) host if present method" {
		t.Error(got)
	}
	if !action.Known("cookie") || action.Known("jwt") {
		t.Error("the names of actions are not known")
	}
}

// A name that no request can have is a fault of the file.
func TestImpossibleNames(t *testing.T) {
	for yaml, want := range map[string]string{
		`{request_headers: {header_name: "x user", descriptor_key: u}}`:                         `header_name: "x user" is not a valid header name`,
		`{request_headers: {header_name: "x-user:", descriptor_key: u}}`:                        `header_name: "x-user:" is not a valid header name`,
		`{request_headers: {header_name: ":scheme", descriptor_key: u}}`:                        `header_name: ":scheme" is not a valid header name`,
		`{request_headers: {header_name: ":path", descriptor_key: u}}`:                          "",
		`{request_headers: {header_name: ":authority", descriptor_key: u}}`:                     "",
		`{api_key: {header_name: "x-api-kéy"}}`:                                                 `header_name: "x-api-kéy" is not a valid header name`,
		`{device: {header: "x device"}}`:                                                        `header: "x device" is not a valid header name`,
		`{header_value_match: {descriptor_value: v, headers: [{name: "x plan", exact: free}]}}`: `name: "x plan" is not a valid header name`,
		`{header_value_match: {descriptor_value: v, headers: [{name: ":method", exact: GET}]}}`: "",
		`{cookie: {name: "a b", descriptor_key: u}}`:                                            `name: "a b" is not a valid cookie name`,
		`{cookie: {name: "a=b", descriptor_key: u}}`:                                            `name: "a=b" is not a valid cookie name`,
		`{cookie: {name: "__Host-session.id", descriptor_key: u}}`:                              "",
	} {
		doc := parser.Parse([]byte("[" + yaml + "]"))
		action.Read(doc.Root(), action.Paths{}, outside{})
		got := ""
		for _, f := range doc.Faults() {
			if got += f.Problem; f.Hint == "" {
				t.Errorf("%s: no hint", yaml)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", yaml, got, want)
		}
	}
}
