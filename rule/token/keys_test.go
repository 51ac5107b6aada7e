package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// entry returns a public key as an entry of a key set, with additional members.
func entry(t testing.TB, signer crypto.Signer, more map[string]any) map[string]any {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString
	var e map[string]any
	switch public := signer.Public().(type) {
	case *rsa.PublicKey:
		e = map[string]any{"kty": "RSA", "n": text(public.N.Bytes()), "e": text(big.NewInt(int64(public.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		half := (len(point) - 1) / 2
		e = map[string]any{"kty": "EC", "crv": public.Params().Name, "x": text(point[1 : 1+half]), "y": text(point[1+half:])}
	case ed25519.PublicKey:
		e = map[string]any{"kty": "OKP", "crv": "Ed25519", "x": text(public)}
	}
	maps.Copy(e, more)
	return e
}

// set returns a key set.
func set(t testing.TB, keys ...map[string]any) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func named(id string) map[string]any { return map[string]any{"kid": id} }

// signed returns a valid token with a key ID.
func signed(t testing.TB, key crypto.Signer, id any) string {
	t.Helper()
	var method jwt.SigningMethod = jwt.SigningMethodEdDSA
	switch key.(type) {
	case *rsa.PrivateKey:
		method = jwt.SigningMethodRS256
	case *ecdsa.PrivateKey:
		method = jwt.SigningMethodES256
	}
	return signedAs(t, method, key, map[string]any{"kid": id})
}

// signedAs returns a valid token with additional header members; a nil value removes one.
func signedAs(t testing.TB, method jwt.SigningMethod, key any, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()})
	for word, value := range header {
		if value != nil {
			token.Header[word] = value
		}
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each key of a set verifies only tokens with its ID and its own algorithms.
func TestKeySet(t *testing.T) {
	one, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	two, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	big, _ := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	keys, err := ParseKeys(set(t, entry(t, one, named("1")), entry(t, two, named("2")), entry(t, ed, named("e")),
		entry(t, rs, map[string]any{"kid": "r", "alg": "RS256", "use": "sig", "key_ops": []string{"verify"}}),
		entry(t, big, nil), entry(t, other, map[string]any{"kid": "no", "use": "enc"}),
		map[string]any{"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}, map[string]any{"kty": "EC", "crv": "secp256k1"},
		map[string]any{"kty": "OKP", "crv": "X25519", "x": "AAAA"}, map[string]any{"kty": "AKP", "alg": "ML-DSA-44"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(keys.all); got != 5 {
		t.Errorf("%d keys, want 5", got)
	}
	v := New(Config{Source: keys})
	for name, tt := range map[string]struct {
		token string
		good  bool
	}{
		"first":                 {signed(t, one, "1"), true},
		"second":                {signed(t, two, "2"), true},
		"the only one of RSA":   {signed(t, rs, nil), true},
		"the only one of EdDSA": {signed(t, ed, nil), true},
		"a key without id":      {signedAs(t, jwt.SigningMethodES512, big, map[string]any{"kid": "any"}), true},
		"another's id":          {signed(t, one, "2"), false},
		"no id, and two keys":   {signed(t, one, nil), false},
		"unknown id":            {signed(t, one, "3"), false},
		"an id that is none":    {signed(t, ed, 7), false},
		"not for signatures":    {signed(t, other, "no"), false},
		"another algorithm":     {signedAs(t, jwt.SigningMethodPS256, rs, named("r")), false},
		"a shared secret":       {signedAs(t, jwt.SigningMethodHS256, []byte("secret"), named("secret")), false},
		"key as a secret":       {signedAs(t, jwt.SigningMethodHS256, public(t, rs), named("r")), false},
		"no signature":          {signedAs(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, named("1")), false},
		"an extension":          {signedAs(t, jwt.SigningMethodEdDSA, ed, map[string]any{"kid": "e", "crit": []string{"x"}, "x": 1}), false},
		"its own key":           {signedAs(t, jwt.SigningMethodEdDSA, other, map[string]any{"jwk": entry(t, other, nil)}), false},
	} {
		if got, ok := v.Claim(tt.token, "sub"); ok != tt.good {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

// An invalid key is an error, not skipped.
func TestBadKeys(t *testing.T) {
	weak, _ := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // too weak on purpose
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	odd, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	secret, _ := x509.MarshalECPrivateKey(ec)
	block := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	good := entry(t, ec, nil)
	with := func(words map[string]any) string { return string(set(t, good, entry(t, ec, words))) }
	many := make([]map[string]any, maxKeys+1)
	for i := range many {
		many[i] = good
	}
	for name, tt := range map[string]struct{ file, want string }{
		"empty":              {"", "no public key"},
		"text":               {"secret", "no public key"},
		"weak":               {string(public(t, ec)) + string(public(t, weak)), "key 2: *rsa.PublicKey is not RSA"},
		"another curve":      {string(public(t, odd)), "key 1: *ecdsa.PublicKey is not RSA"},
		"private":            {block("EC PRIVATE KEY", secret), "key 1: \"EC PRIVATE KEY\" is not a public key"},
		"damaged":            {block("PUBLIC KEY", []byte("x")), "key 1: invalid key"},
		"certificate":        {block("CERTIFICATE", []byte("x")), "key 1: invalid key"},
		"cut off":            {string(public(t, ec)) + "-----BEGIN PUBLIC", "no public key"},
		"no JSON":            {"{", "not a key set (JWKS): "},
		"no set":             {`{"kty":"EC"}`, "no public key in the key set"},
		"no list":            {`{"keys":"none"}`, "not a key set (JWKS): "},
		"only other kinds":   {`{"keys":[{"kty":"oct","k":"AAAA"}]}`, "no public key in the key set"},
		"too many":           {string(set(t, many...)), "101 keys, which is more than 100"},
		"weak in a set":      {string(set(t, good, entry(t, weak, nil))), "key 2: *rsa.PublicKey is not RSA"},
		"off the curve":      {with(map[string]any{"y": good["x"]}), "key 2: "},
		"short":              {with(map[string]any{"x": "AAAA"}), "key 2: an EC key without valid x and y"},
		"not base64":         {with(map[string]any{"x": "*"}), "key 2: illegal base64"},
		"another algorithm":  {with(map[string]any{"alg": "RS256"}), `key 2: alg "RS256" does not fit`},
		"RSA without number": {`{"keys":[{"kty":"RSA","e":"AQAB"}]}`, "key 1: an RSA key without valid n and e"},
		"RSA with an even e": {`{"keys":[{"kty":"RSA","n":"AQAB","e":"BA"}]}`, "key 1: an RSA key without valid n and e"},
		"short Ed25519":      {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AQAB"}]}`, "key 1: an Ed25519 key without a valid x"},
	} {
		if _, err := ParseKeys([]byte(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// An address without transport security is refused.
func TestNewAddress(t *testing.T) {
	for text, want := range map[string]string{ // "" means that the address is accepted
		"https://login.example.com/keys?a=b#c": "", "http://127.0.0.1:1/k": "", "http://[::1]/k": "", "http://localhost/k": "",
		"http://login.example.com/k": "without TLS", "http://127.0.0.1.example.com/": "without TLS", "ftp://127.0.0.1/": "without TLS",
		"https:///k": "no host", "https://ann:secret@login.example.com/": "a password", "https://%zz/": "not a valid URL",
	} {
		a, err := NewAddress(text, false)
		if want == "" && (err != nil || a.String() == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v, want %q", text, a, err, want)
		}
	}
	if _, err := NewAddress("http://login.example.com/k", true); err != nil {
		t.Errorf("plain http that was asked for: %v", err)
	}
	if got := fmt.Sprint(IsAddress("keys/issuer.pem"), IsAddress("http://x")); got != "false true" {
		t.Error(got)
	}
}
