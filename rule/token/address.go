package token

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/golang-jwt/jwt/v5"
)

// Address is the address of a key set (JWKS). It has no keys, so it verifies no token, until a
// [Fetcher] uses it.
type Address struct {
	url    string
	remote atomic.Pointer[remote]
}

// IsAddress reports whether text is the address of a key set, not the name of a file.
func IsAddress(text string) bool { return strings.Contains(text, "://") }

// NewAddress parses an address: https, or http to this machine. If plain is true, http to other
// machines is allowed too; anybody on the network path can then replace the keys.
func NewAddress(text string, plain bool) (*Address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it is not a valid URL")
	case u.Host == "":
		return nil, errors.New("it has no host")
	case u.User != nil:
		return nil, errors.New("it contains a user or a password")
	case !fetchable(u, plain):
		return nil, errors.New("the keys would be sent without TLS")
	}
	u.Fragment = ""
	return &Address{url: u.String()}, nil
}

// fetchable reports whether keys from u can be trusted.
func fetchable(u *url.URL, plain bool) bool {
	switch u.Scheme {
	case "https":
		return true
	case "http":
		ip, err := netip.ParseAddr(u.Hostname())
		return plain || u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
	}
	return false
}

// String returns the address.
func (a *Address) String() string { return a.url }

// current implements Source.
func (a *Address) current() *Keys {
	if r := a.remote.Load(); r != nil {
		return r.keys.Load()
	}
	return nil
}

// find implements Source. An unknown key ID starts an early fetch in the background; find does not
// wait for it.
func (a *Address) find(algorithm, id string) []jwt.VerificationKey {
	keys := a.current()
	if keys == nil {
		return nil
	}
	found := keys.find(algorithm, id)
	if len(found) == 0 && id != "" {
		a.remote.Load().ask()
	}
	return found
}
