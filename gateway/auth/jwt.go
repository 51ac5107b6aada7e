package auth

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"stint/gateway/service"
	"stint/internal/text"
	"stint/rule/token"
)

func init() { caddy.RegisterModule(new(JWT)) }

// JWT authenticates clients by signed tokens (Authorization: Bearer TOKEN). It accepts tokens with an
// expiry that one of the keys has signed, with the algorithms of that key alone.
//
// {http.auth.user.id} is a claim of the token, and {http.auth.user.plan} another one.
type JWT struct {
	// Keys is a file of public keys (PEM, or a key set in JSON), or the https address of a key set
	// (JWKS). A changed file is read again. An address is fetched in the background: at the start,
	// every 15 minutes, and for a token with an unknown key ID, then at most once a minute. No token
	// of an address is accepted before the first fetch succeeds.
	Keys string `json:"keys,omitempty"`

	// AllowHTTP allows an http address in a network where nobody can replace the keys. One of this
	// machine is always allowed.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Issuer is the required iss of a token, and Audience a required element of its aud; "" accepts
	// any. Without them, tokens that the same keys signed for another service are accepted.
	Issuer   string `json:"issuer,omitempty"`
	Audience string `json:"audience,omitempty"`

	// Leeway extends the validity of tokens at both ends, for clocks that differ. 0 means none.
	Leeway caddy.Duration `json:"leeway,omitempty"`

	// User is the claim with the identity; "" means sub. Plan is the claim with the name of the plan;
	// "" means none.
	User string `json:"user,omitempty"`
	Plan string `json:"plan,omitempty"`

	// Header is the header with the token alone, such as Cf-Access-Jwt-Assertion; "" means a bearer
	// token in Authorization.
	Header string `json:"header,omitempty"`

	// Realm is the realm of the challenge; "" means restricted.
	Realm string `json:"realm,omitempty"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`

	// KeysPlace is the place of Keys in the configuration file, for errors; "" means Place.
	KeysPlace string `json:"keys_place,omitempty"`

	current atomic.Pointer[verifiers]
	refused string // the last fault of the key file, which is logged once
}

// verifiers verify the tokens. Each remembers one claim of a token, so each claim has one of its own.
type verifiers struct {
	user, plan *token.Verifier // plan is nil if no claim has it
	data       string          // the content of the key file
	since      time.Time
}

// maxLeeway is the longest leeway. Clocks that differ by more are wrong.
const maxLeeway = 10 * time.Minute

var (
	_ caddyauth.Authenticator = (*JWT)(nil)
	_ caddy.Provisioner       = (*JWT)(nil)
)

// CaddyModule returns the description of the module.
func (*JWT) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.authentication.providers.stint_jwt", New: func() caddy.Module { return new(JWT) }}
}

// Provision reads the key file.
func (j *JWT) Provision(ctx caddy.Context) error {
	if j.User == "" {
		j.User = "sub"
	}
	if j.Realm == "" {
		j.Realm = defaultRealm
	}
	switch leeway := time.Duration(j.Leeway); {
	case j.Keys == "":
		return j.fault("stint_jwt without keys", "add keys FILE, or keys https://ISSUER/... with the address of the issuer's key set (JWKS)")
	case leeway < 0 || leeway > maxLeeway:
		return j.fault(fmt.Sprintf("a leeway of %v", leeway), fmt.Sprintf("write a time up to %v", maxLeeway))
	}
	if err := keepSecret(ctx, j.Header); err != nil {
		return err
	}
	app, err := ctx.App(appName)
	if err != nil {
		return err
	}
	return app.(*App).use(j) //nolint:forcetypeassert // registered under this name in this package
}

// keepSecret tells the queue not to store a header; "" is none.
func keepSecret(ctx caddy.Context, header string) error {
	if _, err := ctx.AppIfConfigured(service.Name); header == "" || errors.Is(err, caddy.ErrNotConfigured) {
		return nil
	}
	app, err := service.Running(ctx)
	if err == nil {
		app.AddSecret(header)
	}
	return err
}

// fault returns an error about the directive.
func (j *JWT) fault(problem, hint string) error {
	return service.Fault(service.PlaceOf(j.Place, j), problem, hint)
}

// keysFault returns an error about the keys.
func (j *JWT) keysFault(problem, hint string) error {
	return service.Fault(cmp.Or(j.KeysPlace, service.PlaceOf(j.Place, j)), problem, hint)
}

// set uses keys from now on.
func (j *JWT) set(source token.Source, data string) {
	c := token.Config{Source: source, Issuer: j.Issuer, Audience: j.Audience, Leeway: time.Duration(j.Leeway)}
	next := &verifiers{user: token.New(c), data: data, since: time.Now()}
	if j.Plan != "" {
		next.plan = token.New(c)
	}
	j.current.Store(next)
}

// load reads the key file and reports whether it has changed. On an error the previous keys stay.
func (j *JWT) load() (changed bool, err error) {
	data, err := os.ReadFile(j.Keys)
	if err != nil {
		return false, &fault{j.Keys, "cannot read it: " + text.Cause(err), "name a file of public keys that this process may read"}
	}
	if before := j.current.Load(); before != nil && before.data == string(data) {
		return false, nil
	}
	keys, err := token.ParseKeys(data)
	if err != nil {
		return false, &fault{j.Keys, err.Error(), "write public keys in PEM form there, or a key set (JWKS): RSA from 2048 bits, ECDSA or Ed25519"}
	}
	j.set(keys, string(data))
	return true, nil
}

// fault is a fault of a key file, in one line.
type fault struct{ file, problem, hint string }

// Error returns the file, the fault and the hint.
func (f *fault) Error() string { return f.file + ": " + f.problem + "; hint: " + f.hint }

// reload loads the file again and logs what changed. It logs the same fault once.
func (j *JWT) reload(log *slog.Logger) {
	changed, err := j.load()
	switch {
	case err == nil:
		j.refused = ""
		if changed {
			log.Info("token keys reloaded", "file", j.Keys)
		}
	case j.refused != err.Error():
		j.refused = err.Error()
		log.Error("token keys not reloaded: keeping the keys of "+j.current.Load().since.Format(time.TimeOnly), "error", err)
	}
}

// errNoKeys is the error for a token that cannot be verified yet.
var errNoKeys = errors.New("the key set has not been fetched yet")

// Authenticate returns the user of the token of a request.
func (j *JWT) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	text, sent := j.token(r)
	if sent {
		v := j.current.Load()
		if !v.user.HasKeys() {
			return caddyauth.User{}, false, errNoKeys
		}
		if id, ok := v.user.Claim(text, j.User); ok {
			user := caddyauth.User{ID: id}
			if v.plan != nil {
				plan, _ := v.plan.Claim(text, j.Plan)
				user.Metadata = map[string]string{"plan": plan}
			}
			return user, true, nil
		}
	}
	challenge(w, "Bearer", j.Realm, sent)
	return caddyauth.User{}, false, nil
}

// token returns the token of a request.
func (j *JWT) token(r *http.Request) (text string, ok bool) {
	if j.Header == "" {
		return bearer(r.Header.Get("Authorization"))
	}
	text = r.Header.Get(j.Header)
	return text, text != ""
}
