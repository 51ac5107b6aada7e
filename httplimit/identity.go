package httplimit

import (
	"net/http"
	"slices"

	"stint/internal/web"
	"stint/rule"
)

var _ rule.Responder = (*attributes)(nil)

// Identity returns the name that authentication proved; "" if there is none.
func (a *attributes) Identity() string {
	if a.rules.identity == nil {
		return ""
	}
	return a.rules.identity(a.Request)
}

// TrustedPeer reports whether a trusted proxy forwarded the request.
func (a *attributes) TrustedPeer() bool {
	if a.rules.client != nil {
		_, forwarded := a.rules.client(a.Request)
		return forwarded
	}
	return a.rules.finder.Trusts(web.PeerAddr(a.RemoteAddr))
}

// SetCookie adds a cookie to the answer, unless it has one of that name.
func (a *attributes) SetCookie(c *http.Cookie) {
	same := func(one *http.Cookie) bool { return one.Name == c.Name }
	if !slices.ContainsFunc(a.cookies, same) {
		a.cookies = append(a.cookies, c)
	}
}

// setCookies adds the cookies to the header of the answer. A denied request, or one that passes
// because the store is away, gets none; otherwise new devices would be free and could be used to
// escape the limit of an address.
func (a *attributes) setCookies(h http.Header) {
	for _, c := range a.cookies {
		h.Add("Set-Cookie", c.String())
	}
}
