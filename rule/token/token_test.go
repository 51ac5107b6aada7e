package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// public returns a public key in the format of a key file.
func public(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func keysOf(t testing.TB, file string) *Keys {
	t.Helper()
	keys, err := ParseKeys([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A token is accepted only if a known key signed it, for this audience and issuer, and it is valid
// now.
func TestClaim(t *testing.T) {
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	file := string(public(t, ec)) + "\n" + string(public(t, rs)) + string(public(t, ed))
	v := New(Config{Source: keysOf(t, file), Issuer: "us", Audience: "api"})
	later := time.Now().Add(time.Hour).Unix()
	with := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "ann", "iss": "us", "aud": []string{"api", "web"}, "exp": later, "org": int64(12345678901234567), "empty": "", "list": []string{"a"}}
		if change != nil {
			change(c)
		}
		return c
	}
	good := sign(t, jwt.SigningMethodES256, ec, with(nil))
	head, rest, _ := strings.Cut(good, ".")
	_, signature, _ := strings.Cut(rest, ".")
	forged := strings.Split(sign(t, jwt.SigningMethodES256, stranger, with(func(c jwt.MapClaims) { c["sub"] = "bob" })), ".")
	for name, tt := range map[string]struct{ token, claim, want string }{
		"ECDSA":           {good, "sub", "ann"},
		"RSA":             {sign(t, jwt.SigningMethodRS256, rs, with(nil)), "sub", "ann"},
		"PSS":             {sign(t, jwt.SigningMethodPS256, rs, with(nil)), "sub", "ann"},
		"Ed25519":         {sign(t, jwt.SigningMethodEdDSA, ed, with(nil)), "sub", "ann"},
		"a number":        {good, "org", "12345678901234567"},
		"missing claim":   {good, "team", ""},
		"empty claim":     {good, "empty", ""},
		"a list":          {good, "list", ""},
		"a stranger's":    {strings.Join(forged, "."), "sub", ""},
		"our signature":   {forged[0] + "." + forged[1] + "." + signature, "sub", ""},
		"no signature":    {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, with(nil)), "sub", ""},
		"key as a secret": {sign(t, jwt.SigningMethodHS256, public(t, ec), with(nil)), "sub", ""},
		"expired":         {sign(t, jwt.SigningMethodES256, ec, with(func(c jwt.MapClaims) { c["exp"] = 1 })), "sub", ""},
		"for ever":        {sign(t, jwt.SigningMethodES256, ec, with(func(c jwt.MapClaims) { delete(c, "exp") })), "sub", ""},
		"not yet":         {sign(t, jwt.SigningMethodES256, ec, with(func(c jwt.MapClaims) { c["nbf"] = later })), "sub", ""},
		"other issuer":    {sign(t, jwt.SigningMethodES256, ec, with(func(c jwt.MapClaims) { c["iss"] = "them" })), "sub", ""},
		"other audience":  {sign(t, jwt.SigningMethodES256, ec, with(func(c jwt.MapClaims) { c["aud"] = "web" })), "sub", ""},
		"no token":        {"", "sub", ""},
		"half a token":    {head + "." + rest[:10], "sub", ""},
		"dots":            {"..", "sub", ""},
		"too long":        {sign(t, jwt.SigningMethodES256, ec, with(func(c jwt.MapClaims) { c["x"] = strings.Repeat("x", maxBytes) })), "sub", ""},
	} {
		if got, ok := v.Claim(tt.token, tt.claim); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, tt.want)
		}
	}
	alone := New(Config{Source: keysOf(t, string(public(t, rs)))})
	if got, ok := alone.Claim(good, "sub"); ok {
		t.Errorf("a token of another kind of key says %s", got)
	}
}

// With a leeway, tokens are accepted for so long before and after their validity, also from the cache.
func TestLeeway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey25519(t)
		v := New(Config{Source: keysOf(t, string(public(t, key))), Leeway: 30 * time.Second})
		now := time.Now()
		token := sign(t, jwt.SigningMethodEdDSA, key, jwt.MapClaims{
			"sub": "ann", "nbf": now.Add(20 * time.Second).Unix(), "exp": now.Add(time.Minute).Unix(),
		})
		for _, step := range []struct {
			after time.Duration
			want  bool
		}{{0, true}, {89 * time.Second, true}, {2 * time.Second, false}} {
			pass(step.after)
			if _, ok := v.Claim(token, "sub"); ok != step.want {
				t.Errorf("%v after the token was made: accepted %v", time.Since(now), ok)
			}
		}
		early := sign(t, jwt.SigningMethodEdDSA, key, jwt.MapClaims{
			"sub": "ann", "nbf": time.Now().Add(40 * time.Second).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		})
		if _, ok := v.Claim(early, "sub"); ok {
			t.Error("accepted 40 s before its time")
		}
	})
}
