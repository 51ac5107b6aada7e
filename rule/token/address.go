package token

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/golang-jwt/jwt/v5"
)

// Address is where a key set (JWKS) is fetched from. It has no keys, and so knows
// nobody, until a [Fetcher] uses it.
type Address struct {
	url    string
	remote atomic.Pointer[remote]
}

// IsAddress reports whether text is meant as the address of a key set, rather than as
// the name of a file.
func IsAddress(text string) bool { return strings.Contains(text, "://") }

// NewAddress returns the address that text says: https, or http to this machine, or
// to others as well where plain is set. On the way of plain http anybody can put in
// keys of their own.
func NewAddress(text string, plain bool) (*Address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it cannot be read")
	case u.Host == "":
		return nil, errors.New("it has no host")
	case u.User != nil:
		return nil, errors.New("it holds a user or a password")
	case !fetchable(u, plain):
		return nil, errors.New("the keys would come in the clear")
	}
	u.Fragment = ""
	return &Address{url: u.String()}, nil
}

// fetchable reports whether keys from there can be believed.
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

// current is part of Source.
func (a *Address) current() *Keys {
	if r := a.remote.Load(); r != nil {
		return r.keys.Load()
	}
	return nil
}

// find is part of Source. A token with an id that is not known makes the keys be
// fetched anew soon; nobody waits for that.
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
