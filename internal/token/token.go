// Package token reads who sent a request out of a signed token (JWT), and believes
// no token that it cannot verify.
package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// maxBytes is the longest token that is looked at.
const maxBytes = 8 << 10

// Config says which tokens are believed.
type Config struct {
	// Keys are the public keys that may have signed, as PEM: one or several of RSA
	// from 2048 bits, ECDSA and Ed25519, or certificates with such.
	Keys []byte

	// Issuer and Audience are what the token's iss must be and its aud must hold; "":
	// any. Without them a token that the same keys signed for somebody else passes.
	Issuer, Audience string
}

// Verifier verifies tokens. It is immutable and safe for concurrent use. A
// verification costs about as much as a thousand decisions of a limit.
type Verifier struct {
	parser *jwt.Parser
	keys   map[string]jwt.VerificationKeySet // by the first two letters of the algorithm
}

// New returns a verifier. A token says itself how it is signed, so each kind of key
// is only tried for its own algorithms, and one signed with a shared secret, or not
// at all, is never believed. It must say until when it is good.
func New(c Config) (*Verifier, error) {
	v := &Verifier{keys: map[string]jwt.VerificationKeySet{}}
	if err := v.read(c.Keys); err != nil {
		return nil, err
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}),
		jwt.WithExpirationRequired(), jwt.WithJSONNumber(),
	}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	v.parser = jwt.NewParser(options...)
	return v, nil
}

// read takes the keys out of a PEM file.
func (v *Verifier) read(data []byte) error {
	n := 0
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if n == 0 || len(bytes.TrimSpace(rest)) > 0 {
				return errors.New("no public key in PEM form")
			}
			return nil
		}
		n++
		key, err := publicKey(block)
		if err != nil {
			return fmt.Errorf("key %d: %w", n, err)
		}
		for _, kind := range kindsOf(key) {
			set := v.keys[kind]
			set.Keys = append(set.Keys, key)
			v.keys[kind] = set
		}
	}
}

// publicKey returns the key of a PEM block.
func publicKey(block *pem.Block) (any, error) {
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		return nil, fmt.Errorf("%q is no public key", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("unreadable: %w", err)
	}
	if kindsOf(key) == nil {
		return nil, fmt.Errorf("%T is none of RSA from 2048 bits, ECDSA and Ed25519", key)
	}
	return key, nil
}

// kindsOf returns which algorithms a key is for, nil for none.
func kindsOf(key any) []string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() >= 2048 {
			return []string{"RS", "PS"}
		}
	case *ecdsa.PublicKey:
		return []string{"ES"}
	case ed25519.PublicKey:
		return []string{"Ed"}
	}
	return nil
}

// Claim returns a claim of a token as text. It reports false where the token is not
// verified, and where the claim is missing, empty, or neither text nor number.
func (v *Verifier) Claim(token, name string) (string, bool) {
	if len(token) > maxBytes {
		return "", false
	}
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		set := v.keys[t.Method.Alg()[:2]]
		if len(set.Keys) == 0 {
			return nil, errors.New("no key for this algorithm")
		}
		return set, nil
	})
	if err != nil {
		return "", false
	}
	text := ""
	switch value := claims[name].(type) {
	case string:
		text = value
	case json.Number:
		text = value.String()
	}
	return text, text != ""
}
