package ruletest

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule"
)

// Request is an HTTP request of a rule test, as rules read it.
type Request struct {
	method  string
	path    string
	query   url.Values
	headers map[string]string
	address netip.Addr
	trusted bool
	body    uint64
}

var (
	_ rule.Attributes = (*Request)(nil)
	_ rule.Connection = (*Request)(nil)
	_ rule.Parameters = (*Request)(nil)
	_ rule.Sizer      = (*Request)(nil)
)

// Method returns the method; GET if the test has none.
func (r *Request) Method() string { return r.method }

// Path returns the path without its query, as the test writes it.
func (r *Request) Path() string { return r.path }

// Query returns the first value of a query parameter that is not empty, if there is one.
func (r *Request) Query(name string) (string, bool) {
	values, ok := r.query[name]
	if i := slices.IndexFunc(values, func(v string) bool { return v != "" }); i >= 0 {
		return values[i], true
	}
	return "", ok
}

// QueryValues returns all values of a query parameter.
func (r *Request) QueryValues(name string) []string { return r.query[name] }

// Header returns the value of a header, whatever the case of its name.
func (r *Request) Header(name string) (string, bool) {
	value, ok := r.headers[textproto.CanonicalMIMEHeaderKey(name)]
	return value, ok
}

// RemoteAddress returns the client's address; it is invalid if the test has none.
func (r *Request) RemoteAddress() netip.Addr { return r.address }

// Host returns the header Host.
func (r *Request) Host() string { return r.headers["Host"] }

// Values returns the value of a header, if the test has one.
func (r *Request) Values(name string) []string {
	value, ok := r.Header(name)
	if !ok {
		return nil
	}
	return []string{value}
}

// PeerCertificate returns nil, because tests have no certificates.
func (r *Request) PeerCertificate() *x509.Certificate { return nil }

// TrustedPeer reports whether a trusted proxy forwarded the request, which the test defines.
func (r *Request) TrustedPeer() bool { return r.trusted }

// BodySize returns the length of the body; 0 if the test has none.
func (r *Request) BodySize() (bytes int64, known bool) { return int64(r.body), true }

func readRequest(v strictyaml.Value) *Request {
	r := &Request{method: "GET", path: "/", headers: map[string]string{}}
	v.Object("a request", strictyaml.Words{
		"method": func(v strictyaml.Value) { r.method = v.NonEmpty() },
		"path": func(v strictyaml.Value) {
			target, query, _ := strings.Cut(v.Text(), "?")
			values, err := url.ParseQuery(query)
			if err != nil || !strings.HasPrefix(target, "/") {
				v.Fail(fmt.Sprintf("%q is no path", v.Text()), "begin it with a slash, and write a query as ?name=value&other=value")
			}
			r.path, r.query = target, values
		},
		"headers": func(v strictyaml.Value) {
			for _, f := range v.Fields() {
				r.headers[textproto.CanonicalMIMEHeaderKey(f.Name)] = f.Value.Text()
			}
		},
		"trusted": func(v strictyaml.Value) { r.trusted = v.Bool() },
		"body":    func(v strictyaml.Value) { r.body = v.Uint(1 << 50) },
		"address": func(v strictyaml.Value) {
			addr, err := netip.ParseAddr(v.Text())
			if err != nil {
				v.Fail(fmt.Sprintf("%q is no address", v.Text()), "write an IPv4 or IPv6 address without a port")
			}
			r.address = addr
		},
	})
	return r
}
