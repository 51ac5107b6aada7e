package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// counted is a Source that counts verifications.
type counted struct {
	keys  atomic.Pointer[Keys]
	asked atomic.Int64
}

func (c *counted) current() *Keys { return c.keys.Load() }

func (c *counted) find(algorithm, id string) []jwt.VerificationKey {
	c.asked.Add(1)
	return c.keys.Load().find(algorithm, id)
}

// A token is verified once until it expires or the keys change, and an invalid token is never
// cached.
func TestMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c := new(counted)
		c.keys.Store(keysOf(t, string(public(t, key))))
		v := New(Config{Source: c})
		good := sign(t, jwt.SigningMethodES256, key, jwt.MapClaims{"sub": "ann", "org": 7, "exp": time.Now().Add(time.Hour).Unix()})
		bad := sign(t, jwt.SigningMethodES256, other, jwt.MapClaims{"sub": "bob", "exp": time.Now().Add(time.Hour).Unix()})
		ask := func(what, token, claim, want string, verified int64) {
			t.Helper()
			before := c.asked.Load()
			for range 3 {
				if got, ok := v.Claim(token, claim); got != want || ok != (want != "") {
					t.Errorf("%s: %q, %v, want %q", what, got, ok, want)
				}
			}
			if got := c.asked.Load() - before; got != verified {
				t.Errorf("%s: verified %d times in three, want %d", what, got, verified)
			}
		}
		ask("first", good, "sub", "ann", 1)
		ask("again", good, "sub", "ann", 0)
		ask("another claim", good, "org", "7", 1)
		ask("a missing claim", good, "team", "", 3)
		ask("another's", bad, "sub", "", 3)
		ask("one letter more", good+"A", "sub", "", 3)
		c.keys.Store(keysOf(t, string(public(t, key))+string(public(t, other))))
		ask("with new keys", good, "sub", "ann", 1)
		ask("another's, that we know now", bad, "sub", "bob", 1)
		c.keys.Store(keysOf(t, string(public(t, other))))
		ask("without its key", good, "sub", "", 3)
		ask("the other", bad, "sub", "bob", 1)
		time.Sleep(time.Hour - time.Second)
		ask("before it expires", bad, "sub", "bob", 0)
		time.Sleep(time.Second)
		ask("expired", bad, "sub", "", 3)
	})
}

// BenchmarkClaim measures Claim with a cached token and with a new one.
func BenchmarkClaim(b *testing.B) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	token := sign(b, jwt.SigningMethodES256, key, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()})
	keys := keysOf(b, string(public(b, key)))
	b.Run("again", func(b *testing.B) {
		v := New(Config{Source: keys})
		for b.Loop() {
			v.Claim(token, "sub")
		}
	})
	b.Run("first", func(b *testing.B) {
		v := New(Config{Source: keys})
		for b.Loop() {
			v.memo = memo{}
			v.Claim(token, "sub")
		}
	})
}
