package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// maxKeys is the maximum number of keys in a set. Sets for hundreds of tenants have a few dozen.
const maxKeys = 100

// webKey is one key of a set in the format of RFC 7517, with the members of RFC 7518 (RSA, EC) and
// RFC 8037 (OKP).
type webKey struct {
	Type       string   `json:"kty"`
	ID         string   `json:"kid"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	Curve      string   `json:"crv"`
	N, E, X, Y base64URL
}

// base64URL are bytes that JSON writes in unpadded base64url.
type base64URL []byte

// UnmarshalJSON decodes a base64url string.
func (b *base64URL) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		*b, err = base64.RawURLEncoding.DecodeString(text)
	}
	return err
}

// parseSet parses a key set. It skips keys that are not for verification and keys of unknown types,
// as RFC 7517 requires, and returns an error for each invalid key in broken. A set without any
// usable key is an error.
func parseSet(data []byte) (k *Keys, broken []error, err error) {
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, nil, fmt.Errorf("not a key set (JWKS): %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("%d keys, which is more than %d", len(set.Keys), maxKeys)
	}
	k = new(Keys)
	for i, text := range set.Keys {
		one, use, err := readWebKey(text)
		if err != nil {
			broken = append(broken, fmt.Errorf("key %d: %w", i+1, err))
		} else if use {
			k.all = append(k.all, one)
		}
	}
	switch {
	case len(k.all) > 0:
		return k, broken, nil
	case len(broken) > 0:
		return nil, broken, broken[0]
	}
	return nil, nil, errors.New("no public key in the key set (JWKS) verifies signatures")
}

// readWebKey parses one key of a set; use reports whether the key can verify tokens.
func readWebKey(text json.RawMessage) (k key, use bool, err error) {
	var w webKey
	if err := json.Unmarshal(text, &w); err != nil {
		return key{}, false, err
	}
	if w.Use != "" && w.Use != "sig" || w.Operations != nil && !slices.Contains(w.Operations, "verify") {
		return key{}, false, nil
	}
	public, err := w.public()
	if public == nil || err != nil {
		return key{}, false, err
	}
	if k, err = newKey(w.ID, public); err != nil || w.Algorithm == "" {
		return k, err == nil, err
	}
	algorithm := w.Algorithm
	if algorithm == "Ed25519" {
		algorithm = "EdDSA" // the name in RFC 9864
	}
	if !slices.Contains(k.algorithms, algorithm) {
		return key{}, false, fmt.Errorf("alg %q does not fit the type of the key", w.Algorithm)
	}
	k.algorithms = []string{algorithm}
	return k, true, nil
}

// public returns the public key, or nil for a key of an unknown type, such as a shared secret.
func (w *webKey) public() (crypto.PublicKey, error) {
	switch w.Type {
	case "RSA":
		e := new(big.Int).SetBytes(w.E)
		if len(w.N) == 0 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 || e.Bit(0) == 0 {
			return nil, errors.New("an RSA key without valid n and e")
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(w.N), E: int(e.Int64())}, nil
	case "EC":
		return w.onCurve()
	case "OKP":
		if w.Curve != "Ed25519" {
			return nil, nil
		}
		if len(w.X) != ed25519.PublicKeySize {
			return nil, errors.New("an Ed25519 key without a valid x")
		}
		return ed25519.PublicKey(w.X), nil
	}
	return nil, nil
}

func (w *webKey) onCurve() (crypto.PublicKey, error) {
	var curve elliptic.Curve
	switch w.Curve {
	case "P-256":
		curve = elliptic.P256()
	case "P-384":
		curve = elliptic.P384()
	case "P-521":
		curve = elliptic.P521()
	default:
		return nil, nil
	}
	if size := (curve.Params().BitSize + 7) / 8; len(w.X) != size || len(w.Y) != size {
		return nil, errors.New("an EC key without valid x and y")
	}
	point := append(append([]byte{4}, w.X...), w.Y...) // 4: uncompressed point (SEC 1)
	return ecdsa.ParseUncompressedPublicKey(curve, point)
}
