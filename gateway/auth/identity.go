package auth

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/internal/placement"
	"stint/gateway/queue"
	"stint/gateway/service"
)

func init() {
	caddy.RegisterModule(Identity{})
	caddy.RegisterModule(User{})
}

// DefaultHeader is the default name of the header that tells an upstream who sent a request.
const DefaultHeader = "X-Stint-Identity"

// Identity removes the headers of identities that a client sent, whatever the outcome of
// authentication, before any other handler of the site reads the request. It removes every name that
// a server might read as the same: another case, or _ or . instead of -. It removes the signed header
// of the queue, too. Handlers after
// authentication then set the header, see [User]. Without Identity no header is ever set.
//
// It is the directive stint_identity.
type Identity struct {
	// Header is the name of the header for the upstream; "" means DefaultHeader. The value is the
	// identity, with %XX for bytes that are not printable ASCII, and for %.
	Header string `json:"header,omitempty"`

	// ForwardAuth is the name of a header that the site's forward_auth copies from its answer
	// (copy_headers), such as Remote-User. Its value is the identity where no provider of
	// authentication proved another one. "" means none.
	ForwardAuth string `json:"forward_auth,omitempty"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`

	folded []string
}

// User sends the identity that authentication proved to the upstream, in the header of [Identity]. It
// is part of stint_keys, stint_jwt, stint_mtls and stint_auth; after Caddy's own basic_auth and
// forward_auth it is the directive stint_user.
type User struct{}

var (
	_ caddyhttp.MiddlewareHandler = (*Identity)(nil)
	_ caddyhttp.MiddlewareHandler = (*User)(nil)
	_ caddy.Provisioner           = (*Identity)(nil)
	_ placement.Checker           = (*Identity)(nil)
)

// CaddyModule returns the description of the module.
func (Identity) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_identity", New: func() caddy.Module { return new(Identity) }}
}

// CaddyModule returns the description of the module.
func (User) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_user", New: func() caddy.Module { return new(User) }}
}

// Provision checks the names, and the place in the site.
func (i *Identity) Provision(ctx caddy.Context) error {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	placement.Check(server)
	if i.Header == "" {
		i.Header = DefaultHeader
	}
	i.folded = []string{fold(i.Header), fold(queue.IdentityHeader)}
	if i.ForwardAuth != "" {
		i.folded = append(i.folded, fold(i.ForwardAuth))
	}
	for _, name := range i.folded {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return i.fault(fmt.Sprintf("%q is no name of a header", name), "use letters, digits and -, such as "+DefaultHeader)
		}
	}
	if i.ForwardAuth != "" && fold(i.ForwardAuth) == fold(i.Header) {
		return i.fault(i.Header+" is the header of forward_auth and that for the upstream", "give the upstream another name")
	}
	return nil
}

// CheckPlace returns an error if some requests of the site do not come to the handler, so that the headers
// of their clients would stay.
func (i *Identity) CheckPlace(p placement.Place) error {
	outer, own := p.Routes[:len(p.Routes)-1], p.Routes[len(p.Routes)-1]
	inner := func(r *caddyhttp.Route) bool { return !r.Terminal } // the route of a site is terminal
	if slices.ContainsFunc(outer, inner) || len(own.MatcherSets) > 0 || own.Group != "" {
		return i.fault("stint_identity protects every request of the site, so it cannot stand in handle, route or another block", "write it into the site itself")
	}
	return nil
}

// fault returns an error about the directive.
func (i *Identity) fault(problem, hint string) error {
	return service.Fault(service.PlaceOf(i.Place, i), problem, hint)
}

// fold returns the form that all names have that a server might read as one: in lower case, with - for
// _ and for a dot.
func fold(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '_' || c == '.':
			return '-'
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		}
		return c
	}, name)
}

// same reports whether a name folds to folded.
func same(name, folded string) bool {
	if len(name) != len(folded) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' || c == '.':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != folded[i] {
			return false
		}
	}
	return true
}

// identityVar is the name of the request's variable with the *Identity of the site.
const identityVar = "stint_identity"

// ServeHTTP removes the headers and passes the request on.
func (i *Identity) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	i.strip(r.Header)
	i.strip(r.Trailer)
	i.keep(r.Header)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &stripping{r.Body, i, r}
	}
	caddyhttp.SetVar(r.Context(), identityVar, i)
	return next.ServeHTTP(w, r)
}

func (i *Identity) strip(h http.Header) {
	for name := range h {
		for _, folded := range i.folded {
			if same(name, folded) {
				delete(h, name)
			}
		}
	}
}

// keep takes the headers of identities out of the list of those that belong to the client's connection,
// because a proxy removes what is in the list, also what was set here.
func (i *Identity) keep(h http.Header) {
	for n, list := range h["Connection"] {
		kept := slices.DeleteFunc(strings.Split(list, ","), func(name string) bool {
			name = fold(strings.TrimSpace(name))
			return slices.Contains(i.folded, name)
		})
		h["Connection"][n] = strings.Join(kept, ",")
	}
}

// stripping is the body of a request. Trailers are known at its end, where those of identities are removed.
type stripping struct {
	io.ReadCloser
	identity *Identity
	request  *http.Request
}

// Read implements io.Reader.
func (s *stripping) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.identity.strip(s.request.Trailer)
	}
	return n, err
}

// ServeHTTP sets the header and passes the request on.
func (*User) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	Forward(r)
	return next.ServeHTTP(w, r)
}

// userID is Caddy's placeholder for the identity that authentication proved.
const userID = "http.auth.user.id"

// Forward sets the header for the upstream to the identity that authentication proved, and returns it;
// "" if there is none. It sets nothing in a site without [Identity], which removes the header of the
// client. Where only forward_auth knows the identity, it becomes {http.auth.user.id}.
func Forward(r *http.Request) (id string) {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	id, _ = replacer.GetString(userID)
	i, ok := caddyhttp.GetVar(r.Context(), identityVar).(*Identity)
	if !ok {
		return id
	}
	if id == "" && i.ForwardAuth != "" {
		if id = r.Header.Get(i.ForwardAuth); id != "" {
			replacer.Set(userID, id)
		}
	}
	if id != "" {
		r.Header.Set(i.Header, escape(id))
	}
	return id
}

// escape returns an identity as the value of a header.
func escape(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
