package httplimit

import (
	"crypto/x509"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/rule"
)

// New returns middleware that limits by the rules of a domain in the table of l. The domain's
// http.rate_limits turn a request into descriptors, each with its cost. A domain that is unknown or
// has no http section limits nothing, until a table with such a domain is in force.
func New(l *limiter.Limiter, domain string, options Options) func(http.Handler) http.Handler {
	return middleware(newRules(l, domain, options))
}

func newRules(l *limiter.Limiter, domain string, options Options) *handler {
	f := finder(&options)
	a := &byRules{
		ByRules: request.ByRules{Limiter: l, Domain: domain, Phase: options.Phase}, client: options.Client,
		identify: options.APIKeys, identity: options.Identity, finder: f, forwarded: http.CanonicalHeaderKey(f.Header()),
	}
	return newHandler(a, l, domain, options)
}

// byRules decides by the rules of a domain.
type byRules struct {
	request.ByRules
	identify  request.IdentifyFunc
	identity  func(*http.Request) string
	client    func(*http.Request) (netip.Addr, bool) // nil: finder finds it
	finder    *web.ClientFinder
	forwarded string // the header that finder reads, in canonical form
	names     names
}

// names remembers the header names of rules in canonical form, as net/http makes a new string of a name
// each time. It is safe for concurrent use.
type names struct {
	known atomic.Pointer[map[string]string]
}

// mostNames bounds the names, as rules may change.
const mostNames = 64

func (n *names) canonical(name string) string {
	known := n.known.Load()
	if known != nil {
		if canonical, ok := (*known)[name]; ok {
			return canonical
		}
	}
	canonical, next := http.CanonicalHeaderKey(name), map[string]string{}
	if known != nil {
		next = maps.Clone(*known)
	}
	if len(next) < mostNames {
		next[strings.Clone(name)] = canonical
		n.known.CompareAndSwap(known, &next)
	}
	return canonical
}

func (b *byRules) ask(r *http.Request, s *scratch) (request.Outcome, error) {
	s.attributes = attributes{Request: r, rules: b, Identifier: request.NewIdentifier(b.identify)}
	return b.Decide(s.handler.contextOf(r), &s.attributes, true, &s.Scratch)
}

// attributes is a request for the actions of a rule file.
type attributes struct {
	*http.Request
	request.Identifier
	rules   *byRules
	cookies []*http.Cookie // cookies to set on the answer
}

var (
	_ rule.Attributes = (*attributes)(nil)
	_ rule.Connection = (*attributes)(nil)
	_ rule.Sizer      = (*attributes)(nil)
	_ rule.Parameters = (*attributes)(nil)
	_ rule.KeyRecords = (*attributes)(nil)

	_ rule.Authenticated = (*attributes)(nil)
)

// Method returns the method of the request.
func (a *attributes) Method() string { return a.Request.Method }

// Path returns the path as it was sent.
func (a *attributes) Path() string { return a.URL.EscapedPath() }

// Query returns the first value of a parameter of the query that is not empty, if there is one.
func (a *attributes) Query(name string) (string, bool) { return web.QueryValue(a.URL.RawQuery, name) }

// QueryValues returns all values of a parameter of the query.
func (a *attributes) QueryValues(name string) []string { return web.QueryValues(a.URL.RawQuery, name) }

// Header returns the first value of a header. Names with a colon are pseudo-headers of HTTP/2 and
// Envoy.
func (a *attributes) Header(name string) (string, bool) {
	if values := a.Request.Header[name]; len(values) > 0 {
		return values[0], true
	}
	switch strings.ToLower(name) {
	case "host", ":authority":
		return a.Request.Host, a.Request.Host != ""
	case ":method":
		return a.Request.Method, true
	case ":path":
		return a.URL.RequestURI(), true
	}
	values := a.Request.Header[a.rules.names.canonical(name)]
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// RemoteAddress returns the address of the client.
func (a *attributes) RemoteAddress() netip.Addr {
	if a.rules.client != nil {
		addr, _ := a.rules.client(a.Request)
		return addr
	}
	return a.rules.finder.Client(web.PeerAddr(a.RemoteAddr), a.Request.Header[a.rules.forwarded])
}

// BodySize returns the Content-Length. The size of a chunked body is unknown.
func (a *attributes) BodySize() (bytes int64, known bool) {
	return a.ContentLength, a.ContentLength >= 0
}

// Host returns the name that the client asked for.
func (a *attributes) Host() string { return a.Request.Host }

// Values returns all values of a header, including Host, which net/http stores separately.
func (a *attributes) Values(name string) []string {
	if strings.EqualFold(name, "Host") {
		return []string{a.Request.Host}
	}
	if values := a.Request.Header[name]; len(values) > 0 {
		return values
	}
	return a.Request.Header[a.rules.names.canonical(name)]
}

// PeerCertificate returns the client's certificate if the server verified it. A server that only
// requests certificates accepts any.
func (a *attributes) PeerCertificate() *x509.Certificate {
	if a.TLS == nil || len(a.TLS.VerifiedChains) == 0 || len(a.TLS.VerifiedChains[0]) == 0 {
		return nil
	}
	return a.TLS.VerifiedChains[0][0]
}
