package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// Target is the address of a listener as a client sees it: over TCP or a Unix socket, with TLS or not.
type Target struct {
	Base string      // scheme and host of URLs
	TLS  *tls.Config // nil: without

	network, socket string // arguments for net.Dial
}

// NewTarget returns the target for the address of a listener, which may begin with http:// or https://.
func NewTarget(addr string, secure bool) *Target {
	addr, isHTTPS := strings.CutPrefix(addr, "https://")
	addr = strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/")
	t := &Target{network: "tcp", socket: reachable(addr)}
	host := t.socket
	if path, isSocket := Path(addr); isSocket {
		t.network, t.socket, host = "unix", path, "localhost" // the admin API needs no token for this host
	}
	t.Base = "http://" + host
	if secure || isHTTPS {
		t.Base, t.TLS = "https://"+host, new(tls.Config)
	}
	return t
}

// Trust sets the file of the authorities that the target's certificate must have: "" for those of the
// system. It returns what is wrong, and what to do; "" if nothing is.
func (t *Target) Trust(file string) (problem, hint string) {
	if file == "" {
		return "", ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error(), "name a file of certificates, as PEM"
	}
	t.TLS.RootCAs = x509.NewCertPool()
	if !t.TLS.RootCAs.AppendCertsFromPEM(text) {
		return file + ": the file has no certificate", "name a file of certificates, as PEM"
	}
	return "", ""
}

// Present sets the files of the client's certificate and its key: "" for none. It returns what is wrong, and
// what to do; "" if nothing is.
func (t *Target) Present(cert, key string) (problem, hint string) {
	if cert == "" {
		return "", ""
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err.Error(), "name a certificate and its key, as PEM"
	}
	t.TLS.Certificates = []tls.Certificate{pair}
	return "", ""
}

// Client returns a client that connects only to the target.
func (t *Target) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   t.TLS,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, t.network, t.socket)
		},
	}}
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
