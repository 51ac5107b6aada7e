package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stint/gateway/gatewaytest"
	_ "stint/gateway/limits" // the directive stint
	"stint/internal/testkit"
)

// issuer signs tokens.
type issuer struct {
	t   *testing.T
	key ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	return &issuer{t, key}
}

func (i *issuer) pem() string {
	der, err := x509.MarshalPKIXPublicKey(i.key.Public())
	testkit.Must(i.t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// set returns the key set of the issuer.
func (i *issuer) set() []byte {
	public := i.key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // of an Ed25519 key
	data, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public),
	}}})
	testkit.Must(i.t, err)
	return data
}

// token returns a token for api that is valid for an hour, with further claims.
func (i *issuer) token(claims ...string) string {
	i.t.Helper()
	c := jwt.MapClaims{"iss": "us", "aud": "api", "exp": time.Now().Add(time.Hour).Unix()}
	for n := 0; n < len(claims); n += 2 {
		c[claims[n]] = claims[n+1]
	}
	return i.sign(c)
}

func (i *issuer) sign(c jwt.MapClaims) string {
	text, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(i.key)
	testkit.Must(i.t, err)
	return text
}

// A token in a header of its own is not stored in the queue, as Authorization is not.
func TestQueuedToken(t *testing.T) {
	seen := make(chan string, 100)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "" { // from the queue
			seen <- r.Header.Get("X-Token") + r.Header.Get("X-Other")
		}
	}))
	t.Cleanup(upstream.Close)
	us, g := newIssuer(t), gatewaytest.New(t)
	g.Write("keys.pem", us.pem())
	g.Write("rules.yaml", `
domain: api
descriptors: [{key: user, rate_limit: {requests: 1, per: 100ms, algorithm: token_bucket, excess: {mode: queue, methods: [GET]}}}]
http: {rate_limits: [{actions: [{identity: {}}]}]}
`)
	testkit.Must(t, g.Load(`
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		queue DIR/queue.db
	}
}
http://ADDRESS {
	stint_jwt {
		keys DIR/keys.pem
		header X-Token
	}
	stint api
	reverse_proxy `+upstream.Listener.Addr().String()+`
}`))
	token := us.token("sub", "ann")
	for n := 0; g.Get("/", "X-Token", token, "X-Other", "kept").Status != http.StatusAccepted; n++ {
		if n == 20 {
			t.Fatal("no request was queued")
		}
	}
	if got := <-seen; got != "kept" {
		t.Errorf("the upstream got %q", got)
	}
}

// A token proves its user if one of the keys has signed it for this issuer and audience; a changed key
// file counts at once, and a bad one keeps the previous keys.
func TestJWT(t *testing.T) {
	us, them := newIssuer(t), newIssuer(t)
	g := gatewaytest.New(t)
	g.Write("keys.pem", us.pem())
	testkit.Must(t, g.Load(`
{
	GLOBAL
}
http://ADDRESS {
	stint_identity
	stint_jwt shop {
		keys     DIR/keys.pem
		issuer   us
		audience api
		leeway   30s
		user     email
		plan     tier
	}
	respond "{http.auth.user.id} {http.auth.user.plan} {header.X-Stint-Identity}"
}`))
	ask := func(token string) gatewaytest.Reply { return g.Get("/", "Authorization", "Bearer "+token) }
	good := us.token("email", "ann@example.com", "tier", "pro")
	for range 2 {
		if got := ask(good); got.Status != 200 || got.Body != "ann@example.com pro ann@example.com" {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if got := ask(us.token("email", "ann")); got.Status != 200 || got.Body != "ann  ann" {
		t.Errorf("without a plan: %d %s", got.Status, got.Body)
	}
	late := func(by time.Duration) string {
		return us.sign(jwt.MapClaims{"iss": "us", "aud": "api", "email": "ann", "exp": time.Now().Add(-by).Unix()})
	}
	if got := ask(late(10 * time.Second)); got.Status != 200 {
		t.Errorf("inside the leeway: %d", got.Status)
	}
	for name, token := range map[string]string{
		"another issuer's key": them.token("email", "ann"), "no user": us.token(), "expired": late(time.Minute),
		"another issuer": us.token("email", "ann", "iss", "x"), "another audience": us.token("email", "ann", "aud", "x"), "nonsense": "x",
	} {
		if got := ask(token); got.Status != 401 || got.Header.Get("WWW-Authenticate") != `Bearer realm="shop", error="invalid_token"` {
			t.Errorf("%s: %d %v", name, got.Status, got.Header)
		}
	}
	if got := g.Get("/", "X-Stint-Identity", "ann"); got.Status != 401 || got.Header.Get("WWW-Authenticate") != `Bearer realm="shop"` {
		t.Errorf("no token: %d %v", got.Status, got.Header)
	}

	g.Write("keys.pem", "nonsense")
	testkit.Until(t, "the bad file is logged", func() bool {
		return strings.Contains(g.Log(), "token keys not reloaded: keeping the keys of") && strings.Contains(g.Log(), "keys.pem: no public key in PEM form; hint: ")
	})
	if got := ask(good); got.Status != 200 {
		t.Errorf("with the previous keys: %d", got.Status)
	}
	g.Write("keys.pem", them.pem())
	testkit.Until(t, "the new keys are in force", func() bool { return ask(them.token("email", "bob")).Status == 200 })
	if got := ask(good); got.Status != 401 {
		t.Errorf("with the old key: %d", got.Status)
	}
	if strings.Contains(g.Log(), good) {
		t.Error("the log contains a token")
	}
}

// The keys of an address are there from the first request after a reload on, and stay while the address
// is down.
func TestAddress(t *testing.T) {
	us := newIssuer(t)
	var fetched atomic.Int32
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = w.Write(us.set())
	}))
	site := "{\nGLOBAL\n}\nhttp://ADDRESS {\nstint_jwt {\nheader X-Token\nkeys http://" + keys.Listener.Addr().String() + "/keys\n}\nrespond {http.auth.user.id}\n}"
	g := gatewaytest.Start(t, site)
	token := us.token("sub", "ann")
	testkit.Until(t, "the keys are fetched", func() bool { return g.Get("/", "X-Token", token).Status == 200 })
	keys.Close()
	for range 50 {
		testkit.Must(t, g.Load(site))
		if got := g.Get("/", "X-Token", token); got.Status != 200 || got.Body != "ann" {
			t.Fatalf("after a reload: %d %s", got.Status, got.Body)
		}
	}
	if n := fetched.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

// A client certificate that Caddy has verified proves its name.
func TestMTLS(t *testing.T) {
	ca, stranger := testkit.NewAuthority(t), testkit.NewAuthority(t)
	g := gatewaytest.New(t)
	cert, key := ca.Sign(t, time.Hour, "localhost")
	g.Write("cert.pem", string(cert))
	g.Write("key.pem", string(key))
	g.Write("ca.pem", string(ca.PEM()))
	site := func(mode, name string) string {
		return fmt.Sprintf(`
{
	GLOBAL
	auto_https disable_redirects
}
https://ADDRESS, https://localhost:%s {
	tls DIR/cert.pem DIR/key.pem {
		client_auth {
			mode %s
			trust_pool file DIR/ca.pem
		}
	}
	stint_mtls {
		%s
	}
	respond {http.auth.user.id}
}`, g.Address[strings.LastIndexByte(g.Address, ':')+1:], mode, name)
	}
	testkit.Must(t, g.Load(site("verify_if_given", "")))
	url := "https://localhost" + g.Address[strings.LastIndexByte(g.Address, ':'):]
	get := func(certs ...tls.Certificate) (gatewaytest.Reply, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: certs}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		testkit.Must(t, err)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return gatewaytest.Reply{}, err
		}
		return gatewaytest.ReplyOf(t, resp), nil
	}
	ann := ca.Pair(t, "ann", "ann.example.com")
	if got, err := get(ann); err != nil || got.Status != 200 || got.Body != "ann" {
		t.Errorf("%v %d %s", err, got.Status, got.Body)
	}
	if got, err := get(); err != nil || got.Status != 401 {
		t.Errorf("no certificate: %v %d", err, got.Status)
	}
	if got, err := get(stranger.Pair(t, "ann")); err == nil {
		t.Errorf("a stranger's certificate: %d %s", got.Status, got.Body)
	}
	testkit.Must(t, g.Load(site("verify_if_given", "name san_dns")))
	if got, err := get(ca.Pair(t, "x")); err != nil || got.Body != "x" {
		t.Errorf("%v %d %s", err, got.Status, got.Body)
	}
	testkit.Must(t, g.Load(site("verify_if_given", "name san_uri")))
	if got, err := get(ann); err != nil || got.Status != 401 {
		t.Errorf("without the name: %v %d", err, got.Status)
	}
	testkit.Must(t, g.Load(site("request", ""))) // Caddy asks for a certificate and verifies none
	if got, err := get(stranger.Pair(t, "ann")); err != nil || got.Status != 401 {
		t.Errorf("not verified: %v %d %s", err, got.Status, got.Body)
	}
}
