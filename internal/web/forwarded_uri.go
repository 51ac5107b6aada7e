package web

import "strings"

// The headers that are read, as net/http spells them. Of a pair one is enough.
const (
	OriginalURI     = "X-Original-Uri"
	ForwardedURI    = "X-Forwarded-Uri"
	OriginalMethod  = "X-Original-Method"
	ForwardedMethod = "X-Forwarded-Method"
	ForwardedHost   = "X-Forwarded-Host"
)

// HeaderGetter is the header of the proxy's request. Names are given as net/http spells them.
type HeaderGetter interface {
	// Values returns all values of that name, in their order.
	Values(name string) []string
}

// ForwardedRequest is the line of the request that the proxy got, and the name of the host that
// it was sent to.
type ForwardedRequest struct {
	Method string
	Path   string // as it was sent: not decoded, not cleaned
	Query  string // raw, without the question mark
	Host   string // with its port if it has one; "" where the proxy does not say
}

// Target returns the path and the query as they were sent.
func (r *ForwardedRequest) Target() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

// ForwardedError says that a proxy does not say what was asked.
type ForwardedError struct {
	Problem, Hint string

	// Missing: the proxy says nothing of it. False: what it says is no request, or
	// contradicts itself, which its client can bring about.
	Missing bool
}

// Error returns the problem. The hint stands apart.
func (e *ForwardedError) Error() string { return e.Problem }

// ReadForwarded returns the request that a proxy asks about. The error is a [*ForwardedError].
//
// It believes what it reads, so the caller has to know that the peer is a trusted proxy. A client
// behind that proxy can only add headers: where two headers, or two lines of one, differ, one
// of them may be the client's own, and both are refused.
func ReadForwarded(h HeaderGetter) (ForwardedRequest, error) {
	var r ForwardedRequest
	uri, err := one(h, OriginalURI, ForwardedURI)
	if err != nil {
		return r, err
	}
	if r.Method, err = one(h, OriginalMethod, ForwardedMethod); err != nil {
		return r, err
	}
	if r.Host, err = one(h, ForwardedHost, ""); err != nil {
		return r, err
	}
	if uri == "" {
		return r, &ForwardedError{"no header says what was asked for", "let the proxy set X-Original-URI or X-Forwarded-Uri", true}
	}
	if r.Method == "" {
		return r, &ForwardedError{"no header says by which method", "let the proxy set X-Original-Method or X-Forwarded-Method", true}
	}
	if strings.Contains(r.Host, ",") {
		return r, contradiction(ForwardedHost, "")
	}
	r.Path, r.Query, _ = strings.Cut(cutOrigin(uri), "?")
	if r.Path == "" {
		r.Path = "/"
	}
	if r.Path[0] != '/' && r.Path != "*" {
		return r, &ForwardedError{"what was asked for is no path", "let the proxy send path and query, such as /orders/7?full=1", false}
	}
	return r, nil
}

// one returns the value of two headers that mean the same, "" where neither has one.
// Empty values say nothing.
func one(h HeaderGetter, name, other string) (string, error) {
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
	return &ForwardedError{names + " is there twice, with different values", "let the proxy overwrite what its clients send of them", false}
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
