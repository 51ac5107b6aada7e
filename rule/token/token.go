package token

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxBytes is the length of the longest accepted token.
const maxBytes = 8 << 10

// Config selects the accepted tokens.
type Config struct {
	// Source has the trusted public keys: [*Keys] or an [*Address].
	Source Source
	// Issuer is the required iss of a token, and Audience a required element of its aud; "" accepts
	// any. Without them, tokens that the same keys signed for another service are accepted.
	Issuer, Audience string
	// Leeway extends the validity of tokens at both ends, for clocks that differ. 0 means none; with
	// a longer one, expired tokens are accepted for longer.
	Leeway time.Duration
}

// Source provides public keys. Its methods are safe for concurrent use and never block.
type Source interface {
	// find returns the keys that can have signed a token with this algorithm and this key ID; an
	// empty ID means that the token has none.
	find(algorithm, id string) []jwt.VerificationKey

	// current returns all current keys; nil for none.
	current() *Keys
}

// Verifier verifies tokens. It is safe for concurrent use. A verification costs about as much as a
// thousand decisions of a limit. A verified token is cached until it expires or the keys change,
// and then costs as much as a few decisions.
type Verifier struct {
	parser *jwt.Parser
	source Source
	leeway time.Duration
	memo   memo
}

// New returns a verifier. Each type of key is used only with its own algorithms, because a token
// names its algorithm itself. A token with a shared-secret signature, without signature, or without
// expiry is rejected.
func New(c Config) *Verifier {
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}),
		jwt.WithExpirationRequired(), jwt.WithJSONNumber(), jwt.WithLeeway(c.Leeway),
	}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	return &Verifier{parser: jwt.NewParser(options...), source: c.Source, leeway: c.Leeway}
}

// Address returns the address of the key set; nil if the keys are from a file.
func (v *Verifier) Address() *Address {
	address, _ := v.source.(*Address)
	return address
}

// HasKeys reports whether there are keys. Of an address there are none before its first fetch.
func (v *Verifier) HasKeys() bool { return v.source.current() != nil }

// Claim returns a claim of a token as text. It returns false if the token is invalid, or if the
// claim is missing, empty, or neither text nor number.
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
		v.memo.at(&sum).Store(&verified{sum: sum, claim: name, keys: keys, until: until.Add(v.leeway), text: text})
	}
	return text, text != ""
}

// keys returns the keys that can have signed t.
func (v *Verifier) keys(t *jwt.Token) (any, error) {
	if t.Header["crit"] != nil {
		return nil, errors.New("it requires unknown extensions (crit)")
	}
	id, ok := t.Header["kid"].(string)
	if !ok && t.Header["kid"] != nil {
		return nil, errors.New("its key id is not a text")
	}
	found := v.source.find(t.Method.Alg(), id)
	if len(found) == 0 {
		return nil, errors.New("no key with this ID and algorithm")
	}
	return jwt.VerificationKeySet{Keys: found}, nil
}
