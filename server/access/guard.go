package access

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/web"
)

// Single returns a list of one caller, admin-token, who has a token and may do everything.
func Single(token string) *List {
	return &List{tokens: map[[sha256.Size]byte]Caller{sha256.Sum256([]byte(token)): {"admin-token", Write}}}
}

// Lists returns the lists of callers of a configuration: the one of Single, if there is a token, and that
// of a file, if there is one.
func Lists(token string, file func() *List) (all []func() *List) {
	if token != "" {
		one := Single(token)
		all = append(all, func() *List { return one })
	}
	if file != nil {
		all = append(all, file)
	}
	return all
}

// Guard lets calls pass whose callers have a role. Its fields must not be changed after the first
// call; then it is safe for concurrent use.
type Guard struct {
	// Lists return the lists of callers; the guard calls each of them for every call. None may be
	// nil. If there are none, every caller is unknown.
	Lists []func() *List

	// Sessions are the logins of browsers; nil for none.
	Sessions *Sessions

	// Refused logs the calls that were refused.
	Refused *logging.MisuseLog

	// Routes are paths for that log, see [logging.Route], beside the patterns of net/http's mux.
	Routes []string
}

// Open reports whether there are no lists of callers.
func (g *Guard) Open() bool { return len(g.Lists) == 0 }

// Caller returns who sent a call: by its token or, if it sent none, by its verified certificate. It
// does not know sessions.
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

// Knows reports whether a list has the caller, or the caller has a session.
func (g *Guard) Knows(r *http.Request) bool {
	if _, known := g.Caller(r); known {
		return true
	}
	_, _, known := g.Session(r, time.Now())
	return known && r.Header.Get("Authorization") == ""
}

// Require returns a handler that answers 401 to unknown callers, and 403 to those without the role.
// The handler can ask [CallerOf] and [Allow].
func (g *Guard) Require(role Role, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		caller, known := g.Caller(r)
		if !known && r.Header.Get("Authorization") == "" {
			var session Session
			if session, caller, known = g.Session(r, time.Now()); known {
				if !g.allows(w, r, &session) {
					return
				}
				end, stop := context.WithDeadline(ctx, session.Until) // a stream ends with its session
				defer stop()
				ctx = end
			}
		}
		if !known {
			problem, hint := "the admin token is missing or wrong", "send it as Authorization: Bearer TOKEN"
			if g.Open() {
				problem, hint = "this asks for an admin token always, and none is configured", "start the service with --admin-token-file FILE"
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="stint admin"`)
			g.Refuse(w, r, &jsonbody.Fault{Status: http.StatusUnauthorized, Code: jsonbody.Unauthorized, Problem: problem, Hint: hint})
			return
		}
		r = r.WithContext(context.WithValue(ctx, callKey{}, call{g, caller}))
		if Allow(w, r, role, "this") {
			handler(w, r)
		}
	}
}

// Guarded is Require, except that it lets everybody pass if the guard has no lists of callers.
func (g *Guard) Guarded(role Role, handler http.HandlerFunc) http.HandlerFunc {
	if g.Open() {
		return handler
	}
	return g.Require(role, handler)
}

// call is a call that a guard let pass.
type call struct {
	guard  *Guard
	caller Caller
}

// callKey is the key of the call in the context of its request.
type callKey struct{}

// CallerOf returns who sent a call that a Guard let pass. It returns false if no guard was asked,
// because everybody who reaches the listener may do everything there.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callKey{}).(call)
	return c.caller, ok
}

// Lasts reports whether a guard would still know the caller of a request that it let pass. A stream asks, so
// that it ends with the session or with the token of its caller. It is true if no guard was asked.
func Lasts(r *http.Request) bool {
	c, ok := r.Context().Value(callKey{}).(call)
	return !ok || c.guard.Knows(r)
}

// Allow reports whether the caller has a role for what, such as "a ban". Otherwise it answers 403. It
// allows everything if no guard was asked.
func Allow(w http.ResponseWriter, r *http.Request, role Role, what string) bool {
	c, ok := r.Context().Value(callKey{}).(call)
	if !ok || c.caller.Role >= role {
		return true
	}
	c.guard.Refuse(w, r, &jsonbody.Fault{
		Status: http.StatusForbidden, Code: jsonbody.Forbidden,
		Problem: c.caller.Name + " has the role " + c.caller.Role.String() + ", and " + what + " needs " + role.String(),
		Hint:    "call it with a token of that role, or let --admin-access give " + c.caller.Name + " another role",
	})
	return false
}

// Refuse answers a call that may not pass, and logs it.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request, f *jsonbody.Fault) {
	g.Refused.ReportAt(logging.Route(r, g.Routes...), web.PeerAddr(r.RemoteAddr), f.Problem, f.Hint)
	f.Write(w)
}
