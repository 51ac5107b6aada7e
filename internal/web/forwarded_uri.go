package web

import "strings"

// Headers that ReadForwarded reads, as net/http spells them. One of each pair is enough.
const (
	OriginalURI     = "X-Original-Uri"
	ForwardedURI    = "X-Forwarded-Uri"
	OriginalMethod  = "X-Original-Method"
	ForwardedMethod = "X-Forwarded-Method"
	ForwardedHost   = "X-Forwarded-Host"
)

// HeaderGetter is the header of the proxy's request. Names have the spelling of net/http.
type HeaderGetter interface {
	// Values returns all values of that name, in their order.
	Values(name string) []string
}

// ForwardedRequest is the request line that the proxy received, and the host name of that request.
type ForwardedRequest struct {
	Method string
	Path   string // as the client sent it: not decoded, not cleaned
	Query  string // raw, without the question mark
	Host   string // with its port if it has one; "" if the proxy did not send it
}

// Target returns the path and the query as the client sent them.
func (r *ForwardedRequest) Target() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

// ForwardedError means that the headers of a proxy do not contain a valid request.
type ForwardedError struct {
	Problem, Hint string

	// Missing means that the proxy sent none of the headers. False: they contain no valid request,
	// or contradict each other, which a client of the proxy can cause.
	Missing bool
}

// Error returns the problem, without the hint.
func (e *ForwardedError) Error() string { return e.Problem }

// ReadForwarded returns the original request from the headers of a proxy. The error is a
// [*ForwardedError].
//
// It trusts the headers, so the caller must know that the peer is a trusted proxy. A client behind
// that proxy can only add headers: if two headers, or two lines of one, differ, one of them may be
// the client's own, and ReadForwarded refuses both.
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
		return r, &ForwardedError{"no header with the request's path", "let the proxy set X-Original-URI or X-Forwarded-Uri", true}
	}
	if r.Method == "" {
		return r, &ForwardedError{"no header with the request's method", "let the proxy set X-Original-Method or X-Forwarded-Method", true}
	}
	if strings.Contains(r.Host, ",") {
		return r, contradiction(ForwardedHost, "")
	}
	r.Path, r.Query, _ = strings.Cut(cutOrigin(uri), "?")
	if r.Path == "" {
		r.Path = "/"
	}
	if r.Path[0] != '/' && r.Path != "*" {
		return r, &ForwardedError{"the forwarded URI is no path", "let the proxy send path and query, such as /orders/7?full=1", false}
	}
	return r, nil
}

// one returns the value of two headers with the same meaning, "" if neither has one. It ignores
// empty values.
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

// cutOrigin removes the scheme and the authority from a URI that has them.
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
