package token

import (
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/golang-jwt/jwt/v5"
)

// maxBytes is the longest token that is looked at.
const maxBytes = 8 << 10

// Config says which tokens are believed.
type Config struct {
	// Source has the public keys that may have signed: [*Keys] or an [*Address].
	Source Source
	// Issuer and Audience are what the token's iss must be and its aud must hold; "":
	// any. Without them a token that the same keys signed for somebody else passes.
	Issuer, Audience string
}

// Source has public keys. It is asked by many at once and never blocks.
type Source interface {
	// find returns the keys that may have signed a token with this algorithm, and with
	// this key id unless that is "".
	find(algorithm, id string) []jwt.VerificationKey

	// current returns all keys as they are now, nil for none.
	current() *Keys
}

// Verifier verifies tokens. It is safe for concurrent use. A verification costs about
// as much as a thousand decisions of a limit; a token that was verified is remembered
// for as long as it is good and the keys stay the same, and costs as much as a few.
type Verifier struct {
	parser *jwt.Parser
	source Source
	memo   memo
}

// New returns a verifier. A token says itself how it is signed, so each kind of key
// is only tried for its own algorithms, and one signed with a shared secret, or not
// at all, is never believed. It must say until when it is good.
func New(c Config) *Verifier {
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
	return &Verifier{parser: jwt.NewParser(options...), source: c.Source}
}

// Address returns where the keys are fetched from; nil for those of a file.
func (v *Verifier) Address() *Address {
	address, _ := v.source.(*Address)
	return address
}

// Claim returns a claim of a token as text. It reports false where the token is not
// verified, and where the claim is missing, empty, or neither text nor number.
func (v *Verifier) Claim(token, name string) (string, bool) {
	if len(token) > maxBytes {
		return "", false
	}
	keys, sum := v.source.current(), sha256.Sum256([]byte(token))
	if text, ok := v.memo.find(&sum, name, keys); ok {
		return text, true
	}
	if !modest(token) {
		return "", false
	}
	claims := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(token, claims, v.keys); err != nil {
		return "", false
	}
	text := ""
	switch value := claims[name].(type) {
	case string:
		text = value
	case json.Number:
		text = value.String()
	}
	if until, err := claims.GetExpirationTime(); err == nil && until != nil && text != "" {
		v.memo.at(&sum).Store(&verified{sum: sum, claim: name, keys: keys, until: until.Time, text: text})
	}
	return text, text != ""
}

// keys returns the keys that may have signed t.
func (v *Verifier) keys(t *jwt.Token) (any, error) {
	if t.Header["crit"] != nil {
		return nil, errors.New("it names extensions that must be understood")
	}
	id, ok := t.Header["kid"].(string)
	if !ok && t.Header["kid"] != nil {
		return nil, errors.New("its key id is no text")
	}
	found := v.source.find(t.Method.Alg(), id)
	if len(found) == 0 {
		return nil, errors.New("no key for it")
	}
	return jwt.VerificationKeySet{Keys: found}, nil
}
