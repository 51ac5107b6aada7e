package access

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/web"
)

// Single returns a list of one caller, admin-token, who has a token and may do everything.
func Single(token string) *List {
	return &List{tokens: map[[sha256.Size]byte]Caller{sha256.Sum256([]byte(token)): {"admin-token", Write}}}
}

// Guard lets calls pass whose callers have a role. Its fields must not be changed after the first
// call; then it is safe for concurrent use.
type Guard struct {
	// Lists return the lists of callers; the guard calls each of them for every call. None may be
	// nil. If there are none, every caller is unknown.
	Lists []func() *List

	// Refused logs the calls that were refused.
	Refused *logging.MisuseLog
}

// Open reports whether there are no lists of callers.
func (g *Guard) Open() bool { return len(g.Lists) == 0 }

// Caller returns who sent a call: by its token or, if it sent none, by its verified certificate.
func (g *Guard) Caller(r *http.Request) (Caller, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for _, list := range g.Lists {
		l := list()
		c, ok := Caller{}, false
		switch {
		case strings.EqualFold(scheme, "Bearer"):
			c, ok = l.Token(strings.TrimSpace(token))
		case scheme == "" && r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
			c, ok = l.Certificate(r.TLS.PeerCertificates[0].Subject.String())
		}
		if ok {
			return c, true
		}
	}
	return Caller{}, false
}

// Require returns a handler that answers 401 to unknown callers, and 403 to those without the role.
func (g *Guard) Require(role Role, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, known := g.Caller(r)
		if known && caller.Role >= role {
			handler(w, r)
			return
		}
		f := &jsonbody.Fault{
			Status: http.StatusUnauthorized, Code: jsonbody.Unauthorized,
			Problem: "the admin token is missing or wrong", Hint: "send it as Authorization: Bearer TOKEN",
		}
		switch {
		case known:
			f.Status, f.Code = http.StatusForbidden, jsonbody.Forbidden
			f.Problem = caller.Name + " has the role " + caller.Role.String() + ", and this needs " + role.String()
			f.Hint = "call it with a token of that role, or let --admin-access give " + caller.Name + " another role"
		case g.Open():
			f.Problem, f.Hint = "this asks for an admin token always, and none is configured", "start the service with --admin-token-file FILE"
		}
		g.Refused.ReportAt(r.URL.Path, web.PeerAddr(r.RemoteAddr), f.Problem, f.Hint)
		if !known {
			w.Header().Set("WWW-Authenticate", `Bearer realm="stint admin"`)
		}
		f.Write(w)
	}
}
