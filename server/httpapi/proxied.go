package httpapi

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"stint/internal/web"
	"stint/limiter/request"
	"stint/rule"
)

// proxied is a request as described by a trusted proxy, for the actions of a rule file. Its headers
// are those of the proxy's call: the client's and those that the proxy adds. The size of the body
// and the client's certificate are unknown.
type proxied struct {
	line   web.ForwardedRequest
	header Headers
	client netip.Addr
	request.Identifier
	cookies []*http.Cookie // cookies to set on the answer
}

var (
	_ rule.Attributes = (*proxied)(nil)
	_ rule.Connection = (*proxied)(nil)
	_ rule.Parameters = (*proxied)(nil)
	_ rule.Responder  = (*proxied)(nil)
	_ rule.KeyRecords = (*proxied)(nil)
)

// Method returns the method of the client's request.
func (p *proxied) Method() string { return p.line.Method }

// Path returns the path as it was sent.
func (p *proxied) Path() string { return p.line.Path }

// Query returns the first value of a parameter of the query that is not empty, if there is one.
func (p *proxied) Query(name string) (string, bool) { return web.QueryValue(p.line.Query, name) }

// QueryValues returns all values of a parameter of the query.
func (p *proxied) QueryValues(name string) []string { return web.QueryValues(p.line.Query, name) }

// Header returns the first value of a header. Names with a colon are pseudo-headers of HTTP/2 and
// Envoy.
func (p *proxied) Header(name string) (string, bool) {
	switch strings.ToLower(name) {
	case "host", ":authority":
		return p.line.Host, p.line.Host != ""
	case ":method":
		return p.line.Method, true
	case ":path":
		return p.line.Target(), true
	}
	values := p.header.Values(name)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// RemoteAddress returns the address of the client behind trusted proxies.
func (p *proxied) RemoteAddress() netip.Addr { return p.client }

// Host returns the name that the client asked for.
func (p *proxied) Host() string { return p.line.Host }

// Values returns all values of a header, including Host.
func (p *proxied) Values(name string) []string {
	if strings.EqualFold(name, "Host") {
		if p.line.Host == "" {
			return nil
		}
		return []string{p.line.Host}
	}
	return p.header.Values(name)
}

// PeerCertificate returns nil: only the proxy has seen the client's certificate.
func (p *proxied) PeerCertificate() *x509.Certificate { return nil }

// TrustedPeer returns true, because only trusted proxies may call.
func (p *proxied) TrustedPeer() bool { return true }

// SetCookie adds a cookie to the answer, unless it has one of that name.
func (p *proxied) SetCookie(c *http.Cookie) {
	same := func(one *http.Cookie) bool { return one.Name == c.Name }
	if !slices.ContainsFunc(p.cookies, same) {
		p.cookies = append(p.cookies, c)
	}
}
