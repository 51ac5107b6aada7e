package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"stint/gateway/service"
	"stint/records/apikey"
)

func init() { caddy.RegisterModule(Keys{}) }

// Keys authenticates clients by the API keys of the records. A key that is mistyped, invented, unknown,
// expired or revoked proves nobody; a revoked one at the latest after the time in which a change of the
// records comes into force. Mistyped and invented keys need no look-up.
//
// {http.auth.user.id} is the value of the key's subject: 42 for user=42. Further placeholders are
// {http.auth.user.subject} (user=42), {http.auth.user.plan} (empty for the default plan),
// {http.auth.user.key_id} (the name of its record) and {http.auth.user.last_four}.
type Keys struct {
	// Headers are the names of headers with a key; nil means X-Api-Key, unless Bearer is set.
	Headers []string `json:"headers,omitempty"`

	// Bearer accepts a key as a bearer token (Authorization: Bearer KEY). It is accepted too if
	// Headers is nil.
	Bearer bool `json:"bearer,omitempty"`

	// Subject is the KEY of the subjects KEY=VALUE that are accepted; "" means user. Keys of other
	// subjects prove nobody here, so that team=42 is never taken for user=42.
	Subject string `json:"subject,omitempty"`

	// Realm is the realm of the challenge that a client without a valid key gets; "" means
	// restricted.
	Realm string `json:"realm,omitempty"`

	// Hide removes a key that was accepted from the request, so that the upstream does not get it.
	Hide bool `json:"hide,omitempty"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`

	app *service.App
}

var (
	_ caddyauth.Authenticator = (*Keys)(nil)
	_ caddy.Provisioner       = (*Keys)(nil)
)

// CaddyModule returns the description of the module.
func (Keys) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.authentication.providers.stint_keys", New: func() caddy.Module { return new(Keys) }}
}

// Provision finds the records.
func (k *Keys) Provision(ctx caddy.Context) error {
	if k.Headers == nil && !k.Bearer {
		k.Headers, k.Bearer = []string{"X-Api-Key"}, true
	}
	if k.Subject == "" {
		k.Subject = "user"
	}
	if k.Realm == "" {
		k.Realm = defaultRealm
	}
	_, err := ctx.AppIfConfigured(service.Name)
	configured := !errors.Is(err, caddy.ErrNotConfigured)
	if configured {
		if k.app, err = service.Running(ctx); err != nil {
			return err
		}
	}
	if !configured || k.app.Config().Records == "" {
		return service.Fault(service.PlaceOf(k.Place, k), "stint_keys needs the records of API keys", "add records FILE to the global option stint")
	}
	return nil
}

// Authenticate returns the subject of the key of a request.
func (k *Keys) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	for _, name := range k.Headers {
		if text := r.Header.Get(name); text != "" {
			if user, ok, err := k.identify(text); ok || err != nil {
				if ok && k.Hide {
					r.Header.Del(name)
				}
				return user, ok, err
			}
		}
	}
	text, sent := "", false
	if k.Bearer {
		if text, sent = bearer(r.Header.Get("Authorization")); sent {
			if user, ok, err := k.identify(text); ok || err != nil {
				if ok && k.Hide {
					r.Header.Del("Authorization")
				}
				return user, ok, err
			}
		}
	}
	if len(k.Headers) > 0 {
		challenge(w, "ApiKey", k.Realm, false)
	}
	if k.Bearer {
		challenge(w, "Bearer", k.Realm, sent)
	}
	return caddyauth.User{}, false, nil
}

// identify returns the user of a key.
func (k *Keys) identify(text string) (caddyauth.User, bool, error) {
	key, err := apikey.Parse(text)
	if err != nil {
		return caddyauth.User{}, false, nil //nolint:nilerr // it is no key and proves nobody
	}
	running, err := k.app.Service()
	if err != nil {
		return caddyauth.User{}, false, err
	}
	subject, plan, err := running.Identify()(text)
	if err != nil {
		return caddyauth.User{}, false, errors.New("cannot read the records of API keys") // the cause is logged by the records
	}
	kind, id, _ := strings.Cut(subject, "=")
	if id == "" || kind != k.Subject {
		return caddyauth.User{}, false, nil
	}
	return caddyauth.User{ID: id, Metadata: map[string]string{
		"subject": subject, "plan": plan, "key_id": key.Hash().String(), "last_four": key.LastFour(),
	}}, true, nil
}

// defaultRealm is the realm of challenges.
const defaultRealm = "restricted"

// challenge adds a challenge to the answer. invalid adds that the token was not valid.
func challenge(w http.ResponseWriter, scheme, realm string, invalid bool) {
	text := scheme + ` realm="` + realm + `"`
	if invalid {
		text += `, error="invalid_token"`
	}
	w.Header().Add("WWW-Authenticate", text)
}

// bearer returns the token of an Authorization header.
func bearer(value string) (token string, ok bool) {
	const scheme = "Bearer "
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", false
	}
	return strings.Trim(value[len(scheme):], " "), true
}
