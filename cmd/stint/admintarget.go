package main

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

// adminTarget is where an admin listener is reached.
type adminTarget struct {
	name            string // as the user gave it
	base            string // what URLs begin with
	network, socket string // what is dialed
	tls             *tls.Config
}

// target returns where the service is reached. Over TLS it is asked where the address begins
// with https:// or an authority or a certificate is given.
func (c *adminCall) target() (*adminTarget, error) {
	name := cmp.Or(c.addr, os.Getenv("STINT_ADMIN"), settings.Default().Admin)
	addr, secure := strings.CutPrefix(name, "https://")
	addr, plain := strings.CutPrefix(addr, "http://")
	addr = strings.TrimSuffix(addr, "/")
	secure = secure || c.ca != "" || c.cert != "" || c.key != ""
	if plain && secure {
		return nil, &usageError{"--admin: " + name + " is not encrypted, and TLS is asked for", "write https://HOST:PORT"}
	}
	t := &adminTarget{name: name, network: "tcp", socket: reachable(addr)}
	host := t.socket
	if path, isSocket := web.Path(addr); isSocket {
		t.network, t.socket, host = "unix", path, "localhost" // admin answers this host without a token
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

// tlsConfig trusts the authority that is given, else those of the system, and shows the
// certificate that is given.
func (c *adminCall) tlsConfig() (*tls.Config, error) {
	config := new(tls.Config)
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, &refusal{"--admin-ca: " + err.Error(), "name a file of certificates, as PEM"}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, &refusal{"--admin-ca: " + c.ca + ": holds no certificate", "name a file of certificates, as PEM"}
		}
	}
	if (c.cert == "") != (c.key == "") {
		return nil, &usageError{"--admin-cert and --admin-key need each other", "give both, or neither"}
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, &refusal{"--admin-cert: " + err.Error(), "name a certificate and its key, as PEM"}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// client returns a client of the target alone.
func (t *adminTarget) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   t.tls,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, t.network, t.socket)
		},
	}}
}

// unreachable is the error of a target that gave no answer.
func (t *adminTarget) unreachable(err error) error {
	hint := "is the service running, and is this its --admin address?"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		hint = "give the authority of its certificate as --admin-ca, and a host that the certificate is for as --admin"
	} else if _, ok := errors.AsType[*tls.AlertError](err); ok {
		hint = "give a certificate that the service lets in as --admin-cert and --admin-key"
	}
	return &refusal{"cannot ask " + t.name + ": " + err.Error(), hint}
}

// reachable returns an address to dial: a service that listens on all addresses is
// reached on the loopback.
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
