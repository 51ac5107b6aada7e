package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// Keys are public keys. Each key is used only with its own algorithms, because a token names its
// algorithm itself and must not choose the use of a key. Keys are immutable.
type Keys struct{ all []key }

// key is one public key.
type key struct {
	id         string // "" for none
	public     crypto.PublicKey
	algorithms []string
}

// weakest and largest are the allowed sizes of an RSA key in bits. Verifying with a larger key
// would take too long for a request.
const weakest, largest = 2048, 16384

// ParseKeys parses public keys: RSA keys from 2048 bits, ECDSA and Ed25519 keys, or certificates
// with such keys, in PEM format; or a key set (JWKS), which is a JSON object. An invalid key is an
// error.
func ParseKeys(data []byte) (*Keys, error) {
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '{' {
		keys, broken, err := parseSet(data)
		if err == nil && len(broken) > 0 {
			err = broken[0]
		}
		return keys, err
	}
	return parsePEM(data)
}

func parsePEM(data []byte) (*Keys, error) {
	k := new(Keys)
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(k.all) == 0 || len(bytes.TrimSpace(rest)) > 0 {
				return nil, errors.New("no public key in PEM form")
			}
			return k, nil
		}
		one, err := readBlock(block)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(k.all)+1, err)
		}
		k.all = append(k.all, one)
	}
}

// readBlock returns the key of a PEM block.
func readBlock(block *pem.Block) (key, error) {
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			public = cert.PublicKey
		}
	default:
		return key{}, fmt.Errorf("%q is not a public key", block.Type)
	}
	if err != nil {
		return key{}, fmt.Errorf("invalid key: %w", err)
	}
	return newKey("", public)
}

func newKey(id string, public crypto.PublicKey) (key, error) {
	k := key{id: id, public: public, algorithms: algorithms(public)}
	if k.algorithms == nil {
		return k, fmt.Errorf("%T is not RSA with %d to %d bits, ECDSA or Ed25519", public, weakest, largest)
	}
	return k, nil
}

// algorithms returns the algorithms of a key; nil if it has none.
func algorithms(public crypto.PublicKey) []string {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits >= weakest && bits <= largest {
			return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		}
	case *ecdsa.PublicKey:
		switch public.Params().Name {
		case "P-256":
			return []string{"ES256"}
		case "P-384":
			return []string{"ES384"}
		case "P-521":
			return []string{"ES512"}
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

// current implements Source.
func (k *Keys) current() *Keys { return k }

// find returns the keys that can have signed a token with this algorithm. If id is not empty these
// are the keys with that ID and the keys without an ID. A token without an ID matches a key with
// one only if no other key has the algorithm.
func (k *Keys) find(algorithm, id string) []jwt.VerificationKey {
	var found []jwt.VerificationKey
	var only *key
	named := 0
	for i := range k.all {
		one := &k.all[i]
		if !slices.Contains(one.algorithms, algorithm) {
			continue
		}
		if one.id == "" || one.id == id {
			found = append(found, one.public)
			continue
		}
		only = one
		named++
	}
	if len(found) == 0 && id == "" && named == 1 {
		found = append(found, only.public)
	}
	return found
}
