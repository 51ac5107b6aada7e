package bench

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"stint"
	"stint/cmd/stint/cli"
	"stint/internal/web"
	"stint/loadtest"
)

// target is TARGET with the protocol.
type target struct {
	url      *url.URL
	protocol string
}

// The protocols.
const (
	protocolCheck    = "check"
	protocolRLS      = "rls"
	protocolRule     = "stint.check"
	protocolThrottle = "cl.throttle"
	protocolHTTP     = "http"
)

// schemes has the protocols of each scheme, the default one first. With an s added a scheme is encrypted.
var schemes = map[string][]string{
	"http":  {protocolCheck, protocolHTTP},
	"grpc":  {protocolRLS},
	"redis": {protocolRule, protocolThrottle},
}

// name returns the target for the report, without what might be secret.
func (t *target) name() string { return t.url.Redacted() + " (" + t.protocol + ")" }

// encrypted reports whether the connection is encrypted.
func (t *target) encrypted() bool { return schemes[t.url.Scheme] == nil }

// sendsLimit reports whether requests contain the limit.
func (t *target) sendsLimit(o *loadOptions) bool {
	return t.protocol == protocolThrottle || t.protocol == protocolCheck && o.domain == ""
}

// parseTarget parses TARGET. It refuses other machines unless their owner has said so.
func (o *loadOptions) parseTarget(address string) (*target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, cli.Usage(fmt.Sprintf("TARGET: %q is not an address of a service", address), "write http://127.0.0.1:8080, grpc://127.0.0.1:8081 or redis://127.0.0.1:6380")
	}
	protocols := schemes[u.Scheme]
	if protocols == nil {
		protocols = schemes[strings.TrimSuffix(u.Scheme, "s")]
	}
	t := &target{url: u, protocol: o.protocol}
	if t.protocol == "" && len(protocols) > 0 {
		t.protocol = protocols[0]
	}
	switch {
	case protocols == nil:
		return nil, cli.Usage(fmt.Sprintf("TARGET: unknown scheme %q", u.Scheme), "write http, https, grpc, grpcs, redis or rediss")
	case !slices.Contains(protocols, t.protocol):
		return nil, cli.Usage(fmt.Sprintf("--protocol: %s is not spoken over %s", t.protocol, u.Scheme), "write "+strings.Join(protocols, " or ")+", or another TARGET")
	case u.Port() == "" && t.protocol != protocolCheck && t.protocol != protocolHTTP:
		return nil, cli.Usage("TARGET: "+address+" has no port", "write "+address+":PORT")
	case t.protocol != protocolHTTP && (strings.Trim(u.Path, "/") != "" || u.RawQuery != ""):
		return nil, cli.Usage("TARGET: "+address+" has a path", "leave the path out, or give --protocol http")
	case u.User != nil:
		return nil, cli.Usage("TARGET: the address contains a user", "give --token-file")
	case !o.own && !web.Loopback(u.Hostname()):
		return nil, cli.Usage(u.Hostname()+" is not this machine", "a load harms a service: only if it is yours, give --i-own-this-target")
	}
	return t, nil
}

// open returns the target, and whether its requests have the name of a key.
func (o *loadOptions) open(t *target, limit *stint.Limit) (to loadtest.Target, named bool, err error) {
	if err := o.checkForeign(t); err != nil {
		return nil, false, err
	}
	options, err := o.options(t)
	if err != nil {
		return nil, false, err
	}
	if t.protocol == protocolHTTP {
		plain, err := o.plain(t)
		return loadtest.NewPlain(plain, options), plain.Named(), err
	}
	if t.protocol == protocolThrottle {
		to, err = loadtest.NewThrottle(t.url.Host, limit, options)
		return to, true, usage(err)
	}
	if t.sendsLimit(o) {
		return loadtest.NewLimitCheck(t.url.String(), limit, options), true, nil
	}
	d, err := o.ruleDescriptor()
	if err != nil {
		return nil, false, err
	}
	switch t.protocol {
	case protocolRLS:
		to, err = loadtest.NewRLS(t.url.Host, d, options)
	case protocolRule:
		to, err = loadtest.NewRuleCheck(t.url.Host, d, options)
	default:
		to, err = loadtest.NewCheck(t.url.String(), d, options)
	}
	return to, d.Named(), usage(err)
}

// usage converts the error of a target; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return cli.Usage(err.Error(), "see stint help bench")
}

// checkForeign refuses flags of other protocols.
func (o *loadOptions) checkForeign(t *target) error {
	byRules := t.protocol == protocolRLS || t.protocol == protocolRule || t.protocol == protocolCheck
	for _, f := range []struct {
		flag string
		of   bool
	}{
		{"domain", byRules},
		{"descriptor", byRules && o.domain != ""},
		{"method", t.protocol == protocolHTTP},
		{"header", t.protocol == protocolHTTP},
		{"body", t.protocol == protocolHTTP},
		{"denied-status", t.protocol == protocolHTTP},
		{"cost", t.protocol != protocolHTTP},
	} {
		if o.changed(f.flag) && !f.of {
			return cli.Usage(fmt.Sprintf("--%s has no meaning for %s here", f.flag, t.protocol), "leave it out; see stint help bench")
		}
	}
	return nil
}

// plain returns the requests of http.
func (o *loadOptions) plain(t *target) (loadtest.Plain, error) {
	// Parsing has escaped the braces.
	address := strings.NewReplacer("%7Bkey%7D", loadtest.Placeholder).Replace(t.url.String())
	p := loadtest.Plain{Method: o.method, URL: address, Header: map[string]string{}, Body: o.body, Denied: o.denied}
	for _, h := range o.header {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return p, cli.Usage(fmt.Sprintf("--header: %q is not NAME: VALUE", h), `write --header "X-User: {key}"`)
		}
		p.Header[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return p, nil
}

// ruleDescriptor returns the descriptor of --domain and --descriptor.
func (o *loadOptions) ruleDescriptor() (loadtest.Descriptor, error) {
	d := loadtest.Descriptor{Domain: o.domain}
	if o.domain == "" || len(o.descriptor) == 0 {
		return d, cli.Usage("this needs --domain and --descriptor", "write --domain api --descriptor user={key}")
	}
	for _, one := range o.descriptor {
		key, value, ok := strings.Cut(one, "=")
		if !ok || key == "" {
			return d, cli.Usage(fmt.Sprintf("--descriptor: %q is not KEY=VALUE", one), "write user={key}")
		}
		d.Entries = append(d.Entries, loadtest.Entry{Key: key, Value: value})
	}
	return d, nil
}

// options returns what all targets share.
func (o *loadOptions) options(t *target) (loadtest.Options, error) {
	options := loadtest.Options{Prefix: o.prefix}
	if o.tokenFile != "" {
		data, err := readFile("token-file", o.tokenFile)
		if err != nil {
			return options, err
		}
		if options.Token = strings.TrimSpace(string(data)); options.Token == "" {
			return options, cli.Refuse("--token-file: "+o.tokenFile+" is empty", "write the token into it")
		}
	}
	if !t.encrypted() {
		if o.caFile != "" {
			return options, cli.Usage("--ca-file: "+t.url.Scheme+" is not encrypted", "write "+t.url.Scheme+"s, or leave it out")
		}
		return options, nil
	}
	options.TLS = &tls.Config{ServerName: t.url.Hostname(), MinVersion: tls.VersionTLS12}
	if o.caFile != "" {
		data, err := readFile("ca-file", o.caFile)
		if err != nil {
			return options, err
		}
		options.TLS.RootCAs = x509.NewCertPool()
		if !options.TLS.RootCAs.AppendCertsFromPEM(data) {
			return options, cli.Refuse("--ca-file: "+o.caFile+" has no certificate", "give a file in PEM")
		}
	}
	return options, nil
}
