package rulefile

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule/action"
	"stint/rule/token"
)

// Verifier implements action.Outside.
func (f *fileCompiler) Verifier(v strictyaml.Value, terms action.TokenTerms) action.Verifier {
	source := f.keys(v, terms.PlainHTTP)
	if source == nil {
		return nil
	}
	return token.New(token.Config{Source: source, Issuer: terms.Issuer, Audience: terms.Audience})
}

// keys returns the keys in a file, or those that will be fetched from an address. It returns nil
// after it reported a fault.
func (f *fileCompiler) keys(v strictyaml.Value, plain bool) token.Source {
	if token.IsAddress(v.Text()) {
		address, err := token.NewAddress(v.Text(), plain)
		if err != nil {
			v.Fail(fmt.Sprintf("keys: %s: %v", withoutUser(v.Text()), err),
				"write an https:// address of a key set (JWKS) without a user; `allow_http: true` allows http:// in a network where nobody can replace the keys")
			return nil
		}
		return address
	}
	data, ok := f.Open(v)
	if !ok {
		return nil
	}
	keys, err := token.ParseKeys(data)
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
