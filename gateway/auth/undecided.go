package auth

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(Undecided{}) }

// Undecided answers with 503 instead of 401 where no provider behind it accepted the request, and one of them
// could not decide: the client's API key or token may be good, and a client that gets 401 may throw it away. It is
// part of stint_keys, stint_jwt, stint_mtls and stint_auth.
type Undecided struct{}

var _ caddyhttp.MiddlewareHandler = (*Undecided)(nil)

// CaddyModule returns the description of the module.
func (Undecided) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_undecided", New: func() caddy.Module { return new(Undecided) }}
}

// errUndecided is the error for a key or token that could not be checked. The cause is logged.
var errUndecided = errors.New("the credentials of the client cannot be checked now")

// failed reports whether a provider could not decide.
func failed(replacer *caddy.Replacer) bool {
	for name := range providers {
		if _, failed := replacer.GetString("http.auth." + name + ".error"); failed {
			return true
		}
	}
	return false
}

// ServeHTTP passes the request on.
func (*Undecided) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err := next.ServeHTTP(w, r)
	answer, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || answer.StatusCode != http.StatusUnauthorized {
		return err
	}
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || !failed(replacer) {
		return err
	}
	if _, authenticated := replacer.GetString(userID); authenticated { // the 401 is that of a later handler
		return err
	}
	w.Header().Del("WWW-Authenticate")
	w.Header().Set("Retry-After", "1")
	return caddyhttp.Error(http.StatusServiceUnavailable, errUndecided)
}
