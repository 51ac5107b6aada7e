package auth

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"stint/gateway/service"
)

// The order of the directives. stint_identity comes before all others. The providers come after
// basic_auth, so also after stint_early, and before forward_auth; stint_user comes after it.
func init() {
	httpcaddyfile.RegisterDirective("stint_identity", parseIdentity)
	httpcaddyfile.RegisterDirectiveOrder("stint_identity", httpcaddyfile.Before, "tracing")
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		httpcaddyfile.RegisterDirective(name, parseOne)
		httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "forward_auth")
	}
	httpcaddyfile.RegisterDirective("stint_auth", parseAny)
	httpcaddyfile.RegisterDirectiveOrder("stint_auth", httpcaddyfile.Before, "forward_auth")
	httpcaddyfile.RegisterHandlerDirective("stint_user", parseUser)
	httpcaddyfile.RegisterDirectiveOrder("stint_user", httpcaddyfile.After, "forward_auth")
}

// unmarshaler is a provider with Caddyfile syntax.
type unmarshaler interface {
	caddyauth.Authenticator
	caddyfile.Unmarshaler
}

// providers make the providers of this package.
var providers = map[string]func() unmarshaler{
	"stint_keys": func() unmarshaler { return new(Keys) },
	"stint_jwt":  func() unmarshaler { return new(JWT) },
	"stint_mtls": func() unmarshaler { return new(MTLS) },
}

// parseOne reads a directive of one provider.
func parseOne(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next()
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	h.Next()
	name := h.Val()
	h.Reset()
	p := providers[name]()
	if err := p.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return route(matcher, caddy.ModuleMap{name: h.JSON(p)}), nil
}

// parseAny reads stint_auth, whose client needs to satisfy one of several providers:
//
//	stint_auth [MATCHER] {
//		stint_keys ...
//		stint_jwt ...
//		stint_mtls ...
//	}
func parseAny(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next()
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	h.Next()
	if h.NextArg() {
		return nil, service.Fault(service.Place(h.Dispenser), "stint_auth has no argument "+h.Val(), "write its providers in a block")
	}
	all := caddy.ModuleMap{}
	for h.NextBlock(0) {
		name := h.Val()
		provider := providers[name]
		switch {
		case provider == nil:
			return nil, service.Fault(service.Place(h.Dispenser), "stint_auth has no provider "+name, fmt.Sprintf("write one of %s", strings.Join(slices.Sorted(maps.Keys(providers)), ", ")))
		case all[name] != nil:
			return nil, service.Fault(service.Place(h.Dispenser), name+" twice in stint_auth", "keep one of them")
		}
		p := provider()
		if err := p.UnmarshalCaddyfile(h.NewFromNextSegment()); err != nil {
			return nil, err
		}
		all[name] = h.JSON(p)
	}
	if len(all) == 0 {
		return nil, service.Fault(service.Place(h.Dispenser), "stint_auth without a provider, so it would refuse everybody", "write stint_keys, stint_jwt or stint_mtls into its block")
	}
	return route(matcher, all), nil
}

// route returns a route that authenticates by one of some providers, and then forwards the identity. A failed
// look-up is no refusal.
func route(matcher, providers caddy.ModuleMap) []httpcaddyfile.ConfigValue {
	r := caddyhttp.Route{HandlersRaw: []json.RawMessage{
		caddyconfig.JSONModuleObject(new(Undecided), "handler", "stint_undecided", nil),
		caddyconfig.JSONModuleObject(caddyauth.Authentication{ProvidersRaw: providers}, "handler", "authentication", nil),
		caddyconfig.JSONModuleObject(new(User), "handler", "stint_user", nil),
	}}
	if matcher != nil {
		r.MatcherSetsRaw = []caddy.ModuleMap{matcher}
	}
	return []httpcaddyfile.ConfigValue{{Class: "route", Value: r}}
}

// parseIdentity reads
//
//	stint_identity [HEADER] {
//		forward_auth HEADER
//	}
//
// It has no matcher: the headers of clients are removed from every request of the site.
func parseIdentity(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next()
	i := &Identity{Place: service.Place(h.Dispenser)}
	if h.NextArg() {
		i.Header = h.Val()
	}
	if strings.ContainsAny(i.Header, "@*/") {
		return nil, service.Fault(service.Place(h.Dispenser), "stint_identity has no matcher such as "+i.Header, "it protects every request of the site")
	}
	if h.NextArg() {
		return nil, service.Fault(service.Place(h.Dispenser), "a second header "+h.Val(), "stint_identity sets one header")
	}
	err := options(h.Dispenser, "stint_identity", map[string]func(string) error{"forward_auth": text1(&i.ForwardAuth)}, nil)
	if err != nil {
		return nil, err
	}
	return h.NewRoute(nil, i), nil
}

// parseUser reads stint_user, which has no options.
func parseUser(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next()
	if h.NextArg() || h.NextBlock(0) {
		return nil, service.Fault(service.Place(h.Dispenser), "stint_user has no option "+h.Val(), "stint_identity names the headers")
	}
	return new(User), nil
}

// UnmarshalCaddyfile reads
//
//	stint_keys [MATCHER] [REALM] {
//		header  NAME...
//		bearer
//		subject KEY
//		hide
//	}
func (k *Keys) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := realm(d, &k.Realm, &k.Place); err != nil {
		return err
	}
	return options(d, "stint_keys", map[string]func(string) error{
		"header":  func(value string) error { k.Headers = append(k.Headers, value); return nil },
		"subject": text1(&k.Subject),
	}, map[string]*bool{"bearer": &k.Bearer, "hide": &k.Hide})
}

// UnmarshalCaddyfile reads
//
//	stint_jwt [MATCHER] [REALM] {
//		keys     FILE|ADDRESS
//		issuer   TEXT
//		audience TEXT
//		leeway   DURATION
//		user     CLAIM
//		plan     CLAIM
//		header   NAME
//		allow_http
//	}
func (j *JWT) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := realm(d, &j.Realm, &j.Place); err != nil {
		return err
	}
	return options(d, "stint_jwt", map[string]func(string) error{
		"keys": func(value string) error {
			j.Keys, j.KeysPlace = value, service.Place(d)
			return nil
		},
		"issuer": text1(&j.Issuer), "audience": text1(&j.Audience),
		"user": text1(&j.User), "plan": text1(&j.Plan), "header": text1(&j.Header),
		"leeway": func(value string) error {
			leeway, err := caddy.ParseDuration(value)
			j.Leeway = caddy.Duration(leeway)
			return err
		},
	}, map[string]*bool{"allow_http": &j.AllowHTTP})
}

// UnmarshalCaddyfile reads
//
//	stint_mtls [MATCHER] {
//		name common_name|san_uri|san_dns|san_email|fingerprint
//	}
func (m *MTLS) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	m.Place = service.Place(d)
	if d.NextArg() {
		return service.Fault(service.Place(d), "stint_mtls has no argument "+d.Val(), "write name "+d.Val()+" in its block")
	}
	return options(d, "stint_mtls", map[string]func(string) error{"name": text1(&m.Name)}, nil)
}

// realm reads the line of a directive with an optional realm.
func realm(d *caddyfile.Dispenser, to, place *string) error {
	d.Next()
	*place = service.Place(d)
	directive := d.Val()
	if d.NextArg() {
		*to = d.Val()
	}
	if strings.ContainsAny(*to, "\"\\\r\n") {
		return service.Fault(service.Place(d), "the realm of "+directive+" contains a quote, a backslash or a line end", "leave it out")
	}
	if d.NextArg() {
		return service.Fault(service.Place(d), directive+" has one argument, the realm", "write "+d.Val()+" in a block, or the realm in quotes")
	}
	return nil
}

// text1 returns a function that sets a text.
func text1(to *string) func(string) error {
	return func(value string) error {
		*to = value
		return nil
	}
}

// options reads the block of a directive: options with values, and switches.
func options(d *caddyfile.Dispenser, directive string, values map[string]func(string) error, switches map[string]*bool) error {
	for d.NextBlock(0) {
		word := d.Val()
		if on := switches[word]; on != nil {
			if *on = true; d.NextArg() {
				return service.Fault(service.Place(d), word+" has no value", "write "+word+" alone on its line")
			}
			continue
		}
		set := values[word]
		if set == nil {
			known := slices.Sorted(maps.Keys(values))
			known = append(known, slices.Sorted(maps.Keys(switches))...)
			return service.Fault(service.Place(d), fmt.Sprintf("%s has no option %s", directive, word), fmt.Sprintf("it has %s", strings.Join(known, ", ")))
		}
		args := d.RemainingArgs()
		if len(args) == 0 || args[0] == "" || len(args) > 1 && word != "header" {
			return service.Fault(service.Place(d), word+" needs one value", "write "+word+" VALUE")
		}
		for _, value := range args {
			if err := set(value); err != nil {
				return service.Fault(service.Place(d), fmt.Sprintf("%s %s: %v", word, value, err), "write it such as 30s")
			}
		}
	}
	return nil
}
