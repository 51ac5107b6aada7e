package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"stint/gateway/service"
)

func init() { caddy.RegisterModule(MTLS{}) }

// MTLS authenticates clients by their certificates. It believes only certificates that Caddy has
// verified with a trust pool (`client_auth` with mode verify_if_given or require_and_verify, in the
// site's `tls`). {http.auth.user.id} is a name in the certificate.
type MTLS struct {
	// Name selects the name: common_name (the default), san_uri, san_dns, san_email (the first of
	// its kind), or fingerprint (the SHA-256 of the certificate).
	Name string `json:"name,omitempty"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`

	read func(*x509.Certificate) string
}

// names are the names in a certificate, by the words of the Caddyfile.
var names = map[string]func(*x509.Certificate) string{
	"common_name": func(c *x509.Certificate) string { return c.Subject.CommonName },
	"san_dns":     func(c *x509.Certificate) string { return first(c.DNSNames) },
	"san_email":   func(c *x509.Certificate) string { return first(c.EmailAddresses) },
	"san_uri": func(c *x509.Certificate) string {
		if len(c.URIs) == 0 {
			return ""
		}
		return c.URIs[0].String()
	},
	"fingerprint": func(c *x509.Certificate) string {
		sum := sha256.Sum256(c.Raw)
		return hex.EncodeToString(sum[:])
	},
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

var (
	_ caddyauth.Authenticator = (*MTLS)(nil)
	_ caddy.Provisioner       = (*MTLS)(nil)
)

// CaddyModule returns the description of the module.
func (MTLS) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.authentication.providers.stint_mtls", New: func() caddy.Module { return new(MTLS) }}
}

// Provision finds the name.
func (m *MTLS) Provision(caddy.Context) error {
	if m.Name == "" {
		m.Name = "common_name"
	}
	if m.read = names[m.Name]; m.read == nil {
		return service.Fault(service.PlaceOf(m.Place, m), "a certificate has no "+m.Name, "write one of "+strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return nil
}

// Authenticate returns the name in the client's verified certificate.
func (m *MTLS) Authenticate(_ http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return caddyauth.User{}, false, nil
	}
	id := m.read(r.TLS.VerifiedChains[0][0])
	return caddyauth.User{ID: id}, id != "", nil
}
