package httplimit_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule/rulefile"
)

// signer creates signed tokens.
type signer struct {
	public ed25519.PublicKey
	key    ed25519.PrivateKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{public, key}
}

func encode(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }

// set returns the key of the signer as a key set.
func (s signer) set() string {
	return fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, encode(s.public))
}

func (s signer) token(header, claims string) string {
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	return "Bearer " + text + "." + encode(ed25519.Sign(s.key, []byte(text)))
}

const goodHeader = `{"alg":"EdDSA","kid":"1"}`

// user returns a valid token of a user.
func (s signer) user(name string) string {
	return s.token(goodHeader, fmt.Sprintf(`{"sub":%q,"aud":"api","exp":%d}`, name, time.Now().Add(time.Hour).Unix()))
}

const bearerRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 5, per: 1h}
  - key: remote_address
    rate_limit: {requests: 3, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [{bearer_claim: {keys: "KEYS", audience: api, descriptor_key: user}}, {remote_address: {}}]}]
`

// Fifty signed-in users behind one address have a limit each, also from other addresses. Clients
// with an invalid token share one limit with all other clients of the address.
func TestSignedInBehindOneAddress(t *testing.T) {
	const office, home = "192.0.2.1:1", "192.0.2.2:1"
	ours, theirs := newSigner(t), newSigner(t)
	table := loadFiles(t, map[string]string{"rules.yaml": keysAt("keys.json"), "keys.json": ours.set()})
	var clock clock
	h := httplimit.New(limiter.New(clock.store(), table, limiter.Options{}), "api", httplimit.Options{})(ok)
	for user := range 50 {
		token := ours.user(fmt.Sprint("user", user))
		if got := passing(7, h, office, "Authorization", token); got != 5 {
			t.Errorf("user %d: %d passed, want 5", user, got)
		}
		if got := passing(1, h, home, "Authorization", token); got != 0 {
			t.Errorf("user %d has a second budget at home", user)
		}
	}
	later := time.Now().Add(time.Hour).Unix()
	left := 3 // remaining units of the other clients
	for name, authorization := range map[string]string{
		"nothing":          "",
		"another's":        theirs.user("ann"),
		"alg none":         "Bearer " + encode([]byte(`{"alg":"none"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":"ann","aud":"api","exp":%d}`, later)) + ".",
		"another alg":      ours.token(`{"alg":"HS256","kid":"1"}`, fmt.Sprintf(`{"sub":"ann","aud":"api","exp":%d}`, later)),
		"an unknown key":   ours.token(`{"alg":"EdDSA","kid":"2"}`, fmt.Sprintf(`{"sub":"ann","aud":"api","exp":%d}`, later)),
		"expired":          ours.token(goodHeader, `{"sub":"ann","aud":"api","exp":1}`),
		"another audience": ours.token(goodHeader, fmt.Sprintf(`{"sub":"ann","aud":"web","exp":%d}`, later)),
		"no audience":      ours.token(goodHeader, fmt.Sprintf(`{"sub":"ann","exp":%d}`, later)),
		"no claim":         ours.token(goodHeader, fmt.Sprintf(`{"aud":"api","exp":%d}`, later)),
		"an empty claim":   ours.token(goodHeader, fmt.Sprintf(`{"sub":"","aud":"api","exp":%d}`, later)),
		"half a token":     ours.user("ann")[:60],
	} {
		if got := passing(1, h, office, "Authorization", authorization); got != min(left, 1) {
			t.Errorf("%s: %d passed, with %d left", name, got, left)
		}
		left = max(0, left-1)
	}
	// If the header is sent twice, the valid token counts.
	if got := passing(7, h, office, "Authorization", theirs.user("ann"), "Authorization", ours.user("bob")); got != 5 {
		t.Errorf("%d with two tokens passed, want 5", got)
	}
}

// keysAt returns the rules with the keys at an address or in a file.
func keysAt(where string) string { return strings.Replace(bearerRules, "KEYS", where, 1) }

// NewKeySets fetches the keys of an address. Until then no user is known, and no request waits.
func TestKeySets(t *testing.T) {
	ours := newSigner(t)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(ours.set()))
	}))
	defer issuer.Close()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(keysAt(issuer.URL))})
	if err != nil {
		t.Fatal(err)
	}
	var clock clock
	l := limiter.New(clock.store(), table, limiter.Options{})
	h := httplimit.New(l, "api", httplimit.Options{})(ok)
	if got := passing(7, h, "192.0.2.1:1", "Authorization", ours.user("ann")); got != 3 {
		t.Errorf("%d passed before the keys are fetched, want the 3 of a stranger", got)
	}
	fetched := make(chan error, 1)
	keys := rulefile.NewKeySets(rulefile.KeySetOptions{Report: func(_ string, err error) { fetched <- err }})
	defer keys.Close()
	keys.Use(table)
	if err := <-fetched; err != nil {
		t.Fatal(err)
	}
	if got := passing(7, h, "192.0.2.1:1", "Authorization", ours.user("ann")); got != 5 {
		t.Errorf("%d passed, want 5", got)
	}
}
