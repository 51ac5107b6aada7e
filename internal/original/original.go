// Package original reads what a reverse proxy says of the request that it asks about,
// in the headers of its own request: nginx and HAProxy say it in X-Original headers,
// Caddy and Traefik in X-Forwarded ones.
//
// It believes what it reads, so whoever uses it has to know that the peer is a trusted
// proxy. A client behind that proxy can only add: where two headers, or two lines of
// one, say different things, one of them may be the client's own, and nothing is
// believed.
package original

import "strings"

// The headers that are read, as net/http spells them. Of a pair one is enough.
const (
	URI             = "X-Original-Uri"
	ForwardedURI    = "X-Forwarded-Uri"
	Method          = "X-Original-Method"
	ForwardedMethod = "X-Forwarded-Method"
	ForwardedHost   = "X-Forwarded-Host"
)

// Header is the header of the proxy's request. Names are given as net/http spells them.
type Header interface {
	// Values returns all values of that name, in their order.
	Values(name string) []string
}

// Request is the line of the request that the proxy got, and the name of the host that
// it was sent to.
type Request struct {
	Method string
	Path   string // as it was sent: not decoded, not cleaned
	Query  string // raw, without the question mark
	Host   string // with its port if it has one; "" where the proxy does not say
}

// Target returns the path and the query as they were sent.
func (r *Request) Target() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

// Error says that a proxy does not say what was asked.
type Error struct {
	Problem, Hint string

	// Missing: the proxy says nothing of it. False: what it says is no request, or
	// contradicts itself, which its client can bring about.
	Missing bool
}

// Error returns the problem. The hint stands apart.
func (e *Error) Error() string { return e.Problem }

// Read returns the request that a proxy asks about. The error is an [*Error].
func Read(h Header) (Request, error) {
	var r Request
	uri, err := one(h, URI, ForwardedURI)
	if err != nil {
		return r, err
	}
	if r.Method, err = one(h, Method, ForwardedMethod); err != nil {
		return r, err
	}
	if r.Host, err = one(h, ForwardedHost, ""); err != nil {
		return r, err
	}
	if uri == "" {
		return r, &Error{"no header says what was asked for", "let the proxy set X-Original-URI or X-Forwarded-Uri", true}
	}
	if r.Method == "" {
		return r, &Error{"no header says by which method", "let the proxy set X-Original-Method or X-Forwarded-Method", true}
	}
	if strings.Contains(r.Host, ",") {
		return r, contradiction(ForwardedHost, "")
	}
	r.Path, r.Query, _ = strings.Cut(cutOrigin(uri), "?")
	if r.Path == "" {
		r.Path = "/"
	}
	if r.Path[0] != '/' && r.Path != "*" {
		return r, &Error{"what was asked for is no path", "let the proxy send path and query, such as /orders/7?full=1", false}
	}
	return r, nil
}

// one returns the value of two headers that mean the same, "" where neither has one.
// Empty values say nothing.
func one(h Header, name, other string) (string, error) {
	found := ""
	for _, n := range [...]string{name, other} {
		if n == "" {
			continue
		}
		for _, value := range h.Values(n) {
			if value != "" && found != "" && value != found {
				return "", contradiction(name, other)
			}
			if value != "" {
				found = value
			}
		}
	}
	return found, nil
}

func contradiction(name, other string) error {
	names := name
	if other != "" {
		names += " or " + other
	}
	return &Error{names + " is there twice, with different values", "let the proxy overwrite what its clients send of them", false}
}

// cutOrigin cuts the scheme and the authority off a URI that has them.
func cutOrigin(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || strings.ContainsAny(scheme, "/?#") {
		return uri
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:]
	}
	return "/"
}
