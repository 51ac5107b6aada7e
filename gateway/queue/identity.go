package queue

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// issuer is the iss of identity tokens.
	issuer = "stint-gateway"

	// identityLife is how long an identity token is valid. It is made for each try.
	identityLife = 5 * time.Minute

	// minIdentityKey is the length of the shortest accepted key in bytes: the length of a signature.
	minIdentityKey = 32
)

// Signer makes the identity header: a JSON Web Token with the algorithm HS256. Its claims are iss
// (stint-gateway), sub (the identity), aud (the host), jti (the ID of the record), iat and exp. A nil
// *Signer makes none.
type Signer struct{ key []byte }

// LoadSigner reads the key that gateway and upstream share: a file with one line of at least 32 bytes, such as
// `openssl rand -base64 32` prints. The text itself is the key.
func LoadSigner(path string) (*Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("queue_identity_key_file: %w", err)
	}
	s, err := NewSigner(bytes.TrimSpace(data))
	if err != nil {
		return nil, fmt.Errorf("queue_identity_key_file %s: %w", path, err)
	}
	return s, nil
}

// NewSigner returns a signer with a key.
func NewSigner(key []byte) (*Signer, error) {
	switch {
	case bytes.ContainsAny(key, "\r\n"):
		return nil, errors.New("several lines; it has one key, in one line")
	case len(key) < minIdentityKey:
		return nil, fmt.Errorf("a key of %d bytes; write at least %d (openssl rand -base64 32)", len(key), minIdentityKey)
	}
	return &Signer{bytes.Clone(key)}, nil
}

// Sign returns the value of the identity header; "" for a record without identity.
func (s *Signer) Sign(r *Record, now time.Time) (string, error) {
	if s == nil || r.Identity == "" {
		return "", nil
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer: issuer, Subject: r.Identity, Audience: jwt.ClaimStrings{r.Host}, ID: r.ID,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(identityLife)),
	}).SignedString(s.key)
}
