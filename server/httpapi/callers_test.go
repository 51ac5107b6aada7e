package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/load"
	"stint/server/access"
)

// newCallers returns an admin listener with callers of each role, and their tokens.
func newCallers(t *testing.T, one string) (http.Handler, map[string]string) {
	l, _ := newLimiter(t)
	tokens, lines := map[string]string{"nobody": "", "unknown": "stint_unknown"}, "ops support cert:CN=ops,O=Example\n"
	for _, role := range []string{"read", "support", "write"} {
		token, credential := access.NewToken()
		tokens[role] = token
		lines += role + " " + role + " " + credential + "\n"
	}
	list, err := access.Parse("access", []byte(lines))
	testkit.Must(t, err)
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	return NewAdmin(l, AdminOptions{
		Token: one, Access: func() *access.List { return list }, Metrics: ok, Rules: ok, Pprof: true, OpenAPI: []byte("x"), Gauges: new(load.Gauges),
	}), tokens
}

// A certificate identifies a caller only if its chain is verified and the call has no token. The
// token of AdminOptions.Token still has every role.
func TestCallers(t *testing.T) {
	admin, tokens := newCallers(t, "secret")
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "ops", Organization: []string{"Example"}}}
	other := &x509.Certificate{Subject: pkix.Name{CommonName: "ops"}}
	verified := func(c *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	for name, test := range map[string]struct {
		authorization string
		state         *tls.ConnectionState
		path          string
		status        int
	}{
		"a certificate":                {"", verified(cert), "/v1/limits", 200},
		"one of too low a role":        {"", verified(cert), "/debug/pprof/", 403},
		"an unverified one":            {"", &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}, "/v1/limits", 401},
		"an unknown one":               {"", verified(other), "/v1/limits", 401},
		"one with a wrong token":       {"Bearer wrong", verified(cert), "/v1/limits", 401},
		"the one token":                {"Bearer secret", nil, "/debug/pprof/", 200},
		"a token of too low a role":    {"Bearer " + tokens["support"], nil, "/debug/pprof/", 403},
		"a token of the role":          {"bearer " + tokens["write"], nil, "/debug/pprof/", 200},
		"a token under another scheme": {"Basic " + tokens["write"], nil, "/v1/limits", 401},
	} {
		r := httptest.NewRequest("GET", test.path, http.NoBody)
		r.TLS = test.state
		if test.authorization != "" {
			r.Header.Set("Authorization", test.authorization)
		}
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r)
		if w.Code != test.status || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), tokens["support"]) {
			t.Errorf("%s: the answer shows the token", name)
		}
	}
}
