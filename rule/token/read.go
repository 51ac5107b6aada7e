package token

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
)

// Read reads `keys`: it returns the keys in a file, which open reads, or those that will be fetched
// from an address. plain allows an http:// address. It returns nil after it reported a fault.
func Read(v strictyaml.Value, plain bool, open func(v strictyaml.Value) (data []byte, ok bool)) Source {
	if IsAddress(v.Text()) {
		address, err := NewAddress(v.Text(), plain)
		if err != nil {
			v.Fail(fmt.Sprintf("keys: %s: %v", withoutUser(v.Text()), err),
				"write an https:// address of a key set (JWKS) without a user; `allow_http: true` allows http:// in a network where nobody can replace the keys")
			return nil
		}
		return address
	}
	data, ok := open(v)
	if !ok {
		return nil
	}
	keys, err := ParseKeys(data)
	if err != nil {
		v.Fail(fmt.Sprintf("keys: %s: %v", v.Text(), err), "write public keys in PEM form there, or a key set (JWKS): RSA from 2048 bits, ECDSA or Ed25519")
		return nil
	}
	return keys
}

// withoutUser returns an address without its user name and password.
func withoutUser(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}
