package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"stint/app/settings"
	"stint/internal/web"
)

// adminTarget is the address of an admin listener.
type adminTarget struct {
	name            string // the flag's value
	base            string // scheme and host of URLs
	network, socket string // arguments for net.Dial
	tls             *tls.Config
}

// target returns the address of the service. The connection uses TLS if the address begins with
// https:// or if --admin-ca or --admin-cert is given.
func (c *adminCall) target() (*adminTarget, error) {
	name := cmp.Or(c.addr, os.Getenv("STINT_ADMIN"), settings.Default().Admin)
	addr, secure := strings.CutPrefix(name, "https://")
	addr, plain := strings.CutPrefix(addr, "http://")
	addr = strings.TrimSuffix(addr, "/")
	secure = secure || c.ca != "" || c.cert != "" || c.key != ""
	if plain && secure {
		return nil, Usage("--admin: "+name+" is http, but other flags require TLS", "write https://HOST:PORT")
	}
	t := &adminTarget{name: name, network: "tcp", socket: reachable(addr)}
	host := t.socket
	if path, isSocket := web.Path(addr); isSocket {
		t.network, t.socket, host = "unix", path, "localhost" // the admin API needs no token for this host
	}
	t.base = "http://" + host
	if !secure {
		return t, nil
	}
	t.base = "https://" + host
	var err error
	t.tls, err = c.tlsConfig()
	return t, err
}

// tlsConfig trusts the authority of --admin-ca, or by default those of the system, and uses the
// client certificate of --admin-cert.
func (c *adminCall) tlsConfig() (*tls.Config, error) {
	config := new(tls.Config)
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, Refuse("--admin-ca: "+err.Error(), "name a file of certificates, as PEM")
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, Refuse("--admin-ca: "+c.ca+": the file has no certificate", "name a file of certificates, as PEM")
		}
	}
	if (c.cert == "") != (c.key == "") {
		return nil, Usage("--admin-cert and --admin-key need each other", "give both or none")
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, Refuse("--admin-cert: "+err.Error(), "name a certificate and its key, as PEM")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// client returns a client that connects only to the target.
func (t *adminTarget) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   t.tls,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, t.network, t.socket)
		},
	}}
}

// unreachable returns the error for a target that did not respond.
func (t *adminTarget) unreachable(err error) error {
	hint := "is the service running, and is this its --admin address?"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		hint = "give the authority of its certificate as --admin-ca, and a host name of the certificate as --admin"
	} else if _, ok := errors.AsType[*tls.AlertError](err); ok {
		hint = "give a certificate that the service accepts as --admin-cert and --admin-key"
	}
	return Refuse("cannot ask "+t.name+": "+err.Error(), hint)
}

// reachable returns an address to dial: the loopback address for a service that listens on all
// addresses.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
