package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// Tokens are checked with keys from an address, from the first fetch on, over reloads and while the
// address is down.
func TestKeySets(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	var down atomic.Bool
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, encode(public))
	}))
	defer issuer.Close()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	rules := func(path string) string {
		return strings.Replace(demoRules, "{remote_address: {}}]",
			fmt.Sprintf("{bearer_claim: {keys: %q, descriptor_key: remote_address}}]", issuer.URL+path), 1)
	}
	write(t, file, rules("/keys"))
	s := start(t, func(c *settings.Config) { c.Rules, c.Demo = []string{file}, "demo" })
	at := s.log.await(t, 0, "key set fetched", issuer.URL+"/keys")

	said := encode([]byte(`{"alg":"EdDSA","kid":"1"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":"ann","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	signature := encode(ed25519.Sign(key, []byte(said)))
	ask := func(what, signature, remaining string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr("http")+"/demo", http.NoBody)
		testkit.Must(t, err)
		req.Header.Set("Authorization", "Bearer "+said+"."+signature)
		resp, err := client.Do(req)
		testkit.Must(t, err)
		defer resp.Body.Close()
		if got := resp.Header.Get("X-RateLimit-Remaining"); got != remaining {
			t.Errorf("%s: %q remain, want %q", what, got, remaining)
		}
	}
	ask("a signed token", signature, "1")
	ask("another's signature", encode(ed25519.Sign(key, []byte("x"))), "")

	down.Store(true)
	write(t, file, rules("/keys")+"# the same\n")
	at = s.log.await(t, at, "rules loaded", "files changed")
	ask("after a reload", signature, "0")
	write(t, file, rules("/others"))
	s.log.await(t, at, "level=WARN", "key set not fetched", issuer.URL+"/others", "status 503")
	s.log.await(t, at, "rules loaded", "files changed") // the address may be called before the rules are in use
	ask("an address that is down", signature, "")
}
