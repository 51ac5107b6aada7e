package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"stint/gateway/gatewaytest"
	"stint/internal/testkit"
)

// A key that cannot be looked up is answered with 503 and without a challenge. What is no key still gets 401,
// and whoever has another way to authenticate is served.
func TestRecordsAway(t *testing.T) {
	s, us, g := newRecords(t), newIssuer(t), gatewaytest.New(t)
	g.Write("keys.pem", us.pem())
	s.load(g, `
{
	GLOBAL
}
http://ADDRESS {
	stint_keys /keys
	stint_auth /any* {
		stint_keys {
			header X-Api-Key
		}
		stint_jwt {
			keys DIR/keys.pem
		}
	}
	error /any/later 401
	respond hello
}`)
	known, key := []string{"X-Api-Key", s.key("user=41")}, []string{"X-Api-Key", s.key("user=42")}
	both := append([]string{"Authorization", "Bearer " + us.token("sub", "ann")}, key...)
	for _, path := range []string{"/keys", "/any"} {
		if got := g.Get(path, known...); got.Status != http.StatusOK {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
	testkit.Must(t, s.file.Close())
	for _, path := range []string{"/keys", "/any"} {
		if got := g.Get(path, key...); got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" || got.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s without records: %d %v", path, got.Status, got.Header)
		}
		if got := g.Get(path, "X-Api-Key", "invented"); got.Status != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s, no key, without records: %d %v", path, got.Status, got.Header)
		}
	}
	if got := g.Get("/any", both...); got.Status != http.StatusOK {
		t.Errorf("a token, without records: %d", got.Status)
	}
	for range 50 { // Caddy asks the providers in any order
		if got := g.Get("/any/later", both...); got.Status != http.StatusUnauthorized {
			t.Fatalf("a token, and 401 of a later handler: %d", got.Status)
		}
	}
}

// A token is answered with 503 before the keys of its issuer are fetched, and a request without one with 401.
func TestKeysAway(t *testing.T) {
	keys := httptest.NewServer(http.NotFoundHandler())
	defer keys.Close()
	g := gatewaytest.Start(t, "{\nGLOBAL\n}\nhttp://ADDRESS {\nstint_jwt {\nkeys "+keys.URL+"/keys\n}\nrespond hello\n}")
	if got := g.Get("/", "Authorization", "Bearer "+newIssuer(t).token("sub", "ann")); got.Status != http.StatusServiceUnavailable || got.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("a token: %d %v", got.Status, got.Header)
	}
	if got := g.Get("/"); got.Status != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("no token: %d %v", got.Status, got.Header)
	}
}
