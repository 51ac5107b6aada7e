package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"

	"stint/gateway/gatewaytest"
	"stint/gateway/service"
	"stint/internal/testkit"
	"stint/records"
	"stint/records/apikey"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, gatewaytest.Leaks()...) }

// store is the records of the running gateway.
type store struct {
	t    *testing.T
	path string
	file *records.File
}

// newRecords returns records that are filled before a gateway runs.
func newRecords(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, path: filepath.Join(t.TempDir(), "records.db")}
	var err error
	s.file, err = records.Open(s.path, records.Options{})
	testkit.Must(t, err)
	return s
}

// load runs a gateway with the records.
func (s *store) load(g *gatewaytest.Gateway, text string) {
	s.t.Helper()
	if s.file != nil {
		testkit.Must(s.t, s.file.Close())
	}
	text = strings.Replace(text, "GLOBAL", "GLOBAL\n\tstint {\n\t\trecords "+s.path+"\n\t}", 1)
	testkit.Must(s.t, g.Load(text))
	found, err := caddy.ActiveContext().App(service.Name)
	testkit.Must(s.t, err)
	running, err := found.(*service.App).Service() //nolint:forcetypeassert // the app of this name
	testkit.Must(s.t, err)
	s.file = running.Records()
}

// start runs a gateway with one site.
func (s *store) start(body string) *gatewaytest.Gateway {
	s.t.Helper()
	g := gatewaytest.New(s.t)
	s.load(g, "{\n\tGLOBAL\n}\nhttp://ADDRESS {\n"+body+"\n}")
	return g
}

func (s *store) apply(edits ...records.Edit) {
	s.t.Helper()
	_, err := s.file.Apply(s.t.Context(), records.Change{Edits: edits}, time.Now())
	testkit.Must(s.t, err)
}

// key makes a key of a subject and returns its text.
func (s *store) key(subject string) string {
	s.t.Helper()
	secret, err := apikey.New("acme")
	testkit.Must(s.t, err)
	s.apply(records.Edit{Put: records.APIKey{Hash: secret.Key().Hash(), Last: secret.Key().LastFour(), Subject: subject}})
	return secret.Reveal()
}

// revoke revokes a key.
func (s *store) revoke(text string) {
	s.t.Helper()
	key, err := apikey.Parse(text)
	testkit.Must(s.t, err)
	s.apply(records.Edit{Delete: records.APIKey{Hash: key.Hash()}.ID()})
}

// echo is an upstream that answers with the headers that it got.
func echo(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := "identity"
		for name, values := range r.Header {
			folded := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
			if folded == "x-stint-identity" || folded == "stint-identity" || folded == "remote-user" || folded == "x-api-key" || folded == "authorization" {
				names += fmt.Sprintf(" %s=%s", name, strings.Join(values, "|"))
			}
		}
		fmt.Fprint(w, names)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A key proves its subject until it is revoked; nothing that a client sends besides a valid key proves
// anybody, and no answer and no log contains a key.
func TestKeys(t *testing.T) {
	s := newRecords(t)
	good, team, revoked := s.key("user=42"), s.key("team=42"), s.key("user=43")
	s.apply(records.Edit{Put: records.Subject{Name: "user=42", Kind: records.User, Plan: "pro"}})
	s.revoke(revoked)
	unknown, err := apikey.New("acme")
	testkit.Must(t, err)
	g := s.start(`
	stint_keys /api/* shop
	respond "{http.auth.user.id} {http.auth.user.subject} {http.auth.user.plan} {http.auth.user.last_four} {http.auth.user.key_id}"`)
	parsed, err := apikey.Parse(good)
	testkit.Must(t, err)
	want := "42 user=42 pro " + good[len(good)-4:] + " " + parsed.Hash().String()
	for _, field := range [][]string{
		{"X-Api-Key", good},
		{"x-api-key", good},
		{"Authorization", "Bearer " + good},
		{"Authorization", "bearer   " + good},
		{"X-Api-Key", revoked, "Authorization", "Bearer " + good},
	} {
		if got := g.Get("/api/x", field...); got.Status != 200 || got.Body != want {
			t.Errorf("%.20s: %d %s, want %s", field, got.Status, got.Body, want)
		}
	}
	for name, field := range map[string][]string{
		"nothing": nil, "revoked": {"X-Api-Key", revoked}, "another kind of subject": {"X-Api-Key", team},
		"unknown": {"X-Api-Key", unknown.Reveal()}, "mistyped": {"X-Api-Key", good[:len(good)-1] + "-"},
		"cut": {"Authorization", "Bearer " + good[:len(good)-1]}, "other scheme": {"Authorization", "Basic " + good},
		"empty": {"X-Api-Key", ""},
	} {
		got := g.Get("/api/x", field...)
		challenges := fmt.Sprint(got.Header["Www-Authenticate"])
		wantChallenges := `[ApiKey realm="shop" Bearer realm="shop"]`
		if name == "cut" {
			wantChallenges = `[ApiKey realm="shop" Bearer realm="shop", error="invalid_token"]`
		}
		if got.Status != 401 || got.Body != "" || challenges != wantChallenges {
			t.Errorf("%s: %d %q %s", name, got.Status, got.Body, challenges)
		}
	}
	if got := g.Get("/public"); got.Status != 200 {
		t.Errorf("outside of the matcher: %d", got.Status)
	}
	s.revoke(good)
	began := time.Now()
	testkit.Until(t, "the revoked key is refused", func() bool { return g.Get("/api/x", "X-Api-Key", good).Status == 401 })
	if took := time.Since(began); took > time.Second {
		t.Errorf("a revoked key was accepted for %v", took)
	}
	for _, secret := range []string{good, team, revoked, unknown.Reveal()} {
		if strings.Contains(g.Log(), secret) {
			t.Error("the log contains a key")
		}
	}
}

// Options select where the key is read, whose keys count, and hide an accepted key from the upstream.
func TestKeyOptions(t *testing.T) {
	s := newRecords(t)
	team, user := s.key("team=blue"), s.key("user=42")
	up := echo(t)
	g := s.start(`
	stint_identity
	stint_keys {
		header X-Team X-Api-Key
		subject team
		hide
	}
	reverse_proxy ` + up)
	for _, header := range []string{"X-Team", "X-Api-Key"} {
		if got := g.Get("/", header, team); got.Status != 200 || got.Body != "identity X-Stint-Identity=blue" {
			t.Errorf("%s: %d %s", header, got.Status, got.Body)
		}
	}
	if got := g.Get("/", "X-Api-Key", user); got.Status != 401 {
		t.Errorf("the key of a user: %d", got.Status)
	}
	if got := g.Get("/", "Authorization", "Bearer "+team); got.Status != 401 || fmt.Sprint(got.Header["Www-Authenticate"]) != `[ApiKey realm="restricted"]` {
		t.Errorf("a bearer token that is not read: %d %v", got.Status, got.Header)
	}
	testkit.Must(t, caddy.Stop())
	s.file = nil
	g = s.start(`
	stint_keys {
		bearer
		subject team
	}
	reverse_proxy ` + up)
	if got := g.Get("/", "Authorization", "Bearer "+team); got.Status != 200 || got.Body != "identity Authorization=Bearer "+team {
		t.Errorf("without hide: %d %s", got.Status, got.Body)
	}
	if got := g.Get("/", "X-Api-Key", team); got.Status != 401 {
		t.Errorf("a header that is not read: %d", got.Status)
	}
}

// The upstream gets the proven identity and never one that a client sent: under any spelling, whether
// authentication succeeds, fails or is not asked, in error pages and in what forward_auth sends.
func TestIdentity(t *testing.T) {
	s := newRecords(t)
	key := s.key("user=42")
	up := echo(t)
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Stint-Identity") != "" || r.Header.Get("Remote-User") != "" {
			t.Error("the authentication service gets an identity of the client")
		}
		if user := r.Header.Get("X-Session"); user != "" {
			w.Header().Set("Remote-User", user)
		}
	}))
	defer portal.Close()
	hash, err := bcrypt.GenerateFromPassword([]byte("sesame"), bcrypt.MinCost)
	testkit.Must(t, err)
	g := gatewaytest.New(t)
	s.load(g, `
{
	GLOBAL
	servers {
		expected_underscore_headers x_stint_identity remote_user
		expected_dot_headers x.stint.identity
	}
}
http://ADDRESS {
	stint_identity {
		forward_auth Remote-User
	}
	stint_keys /api/*
	basic_auth /admin* {
		bob `+string(hash)+`
	}
	forward_auth /portal* `+portal.Listener.Addr().String()+` {
		uri /check
		copy_headers Remote-User
	}
	stint_user
	reverse_proxy `+up+`
	handle_errors {
		reverse_proxy `+up+`
	}
}`)
	forged := []string{
		"X-Stint-Identity", "mallory", "x-stint-identity", "mallory", "X-STINT-IDENTITY", "mallory",
		"X_Stint_Identity", "mallory", "x.stint.identity", "mallory", "X-Stint_Identity", "mallory",
		"Remote-User", "mallory", "remote_user", "mallory", "Stint-Identity", "mallory",
	}
	for name, tt := range map[string]struct {
		path   string
		fields []string
		want   string
	}{
		"a key":            {"/api/x", []string{"X-Api-Key", key}, "identity X-Api-Key=" + key + " X-Stint-Identity=42"},
		"no key":           {"/api/x", nil, "identity"},
		"not asked":        {"/", nil, "identity"},
		"a password":       {"/admin", []string{"Authorization", "Basic Ym9iOnNlc2FtZQ=="}, "identity Authorization=Basic Ym9iOnNlc2FtZQ== X-Stint-Identity=bob"},
		"a wrong password": {"/admin", []string{"Authorization", "Basic Ym9iOnNlc2FtZXg="}, "identity Authorization=Basic Ym9iOnNlc2FtZXg="},
		"forward_auth":     {"/portal", []string{"X-Session", "ann"}, "identity Remote-User=ann X-Stint-Identity=ann"},
		"no session":       {"/portal", nil, "identity"},
		"odd names":        {"/portal", []string{"X-Session", "a%b c"}, "identity Remote-User=a%b c X-Stint-Identity=a%25b%20c"},
	} {
		for _, fields := range [][]string{tt.fields, append(append([]string{}, forged...), tt.fields...)} {
			got := g.Get(tt.path, fields...)
			if sortedWords(got.Body) != sortedWords(tt.want) {
				t.Errorf("%s: %d %s, want %s", name, got.Status, got.Body, tt.want)
			}
		}
	}
}

func sortedWords(text string) string {
	words := strings.Split(text, " ")
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A site without stint_identity sends no header, because nothing removes that of the client.
func TestNoIdentity(t *testing.T) {
	s := newRecords(t)
	key := s.key("user=42")
	g := s.start("stint_keys {\nhide\n}\nreverse_proxy " + echo(t))
	if got := g.Get("/", "X-Api-Key", key); got.Body != "identity" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// One of several providers is enough.
func TestAny(t *testing.T) {
	s := newRecords(t)
	key := s.key("user=42")
	g := gatewaytest.New(t)
	issuer := newIssuer(t)
	g.Write("keys.pem", issuer.pem())
	s.load(g, `
{
	GLOBAL
}
http://ADDRESS {
	stint_auth {
		stint_keys
		stint_jwt {
			keys DIR/keys.pem
		}
	}
	respond {http.auth.user.id}
}`)
	for field, want := range map[string]string{key: "42", issuer.token("sub", "ann"): "ann"} {
		if got := g.Get("/", "Authorization", "Bearer "+field); got.Status != 200 || got.Body != want {
			t.Errorf("%d %s, want %s", got.Status, got.Body, want)
		}
	}
	if got := g.Get("/", "Authorization", "Bearer x"); got.Status != 401 || got.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%d %v", got.Status, got.Header)
	}
}

// Each fault is one line with its place and a hint.
func TestFaults(t *testing.T) {
	g := gatewaytest.New(t)
	g.Write("bad.pem", "nonsense")
	for body, want := range map[string]string{
		"stint_keys {\ncolour red\n}":                               "stint_keys has no option colour; hint: it has header, subject, bearer, hide",
		"stint_keys a b":                                            "stint_keys has one argument, the realm; hint: write b in a block, or the realm in quotes",
		"stint_keys {\nsubject\n}":                                  "subject needs one value; hint: write subject VALUE",
		"stint_keys {\nhide yes\n}":                                 "hide has no value; hint: write hide alone on its line",
		"stint_keys":                                                "stint_keys needs the records of API keys; hint: add records FILE to the global option stint",
		"stint_jwt":                                                 "stint_jwt without keys; hint: add keys FILE, or keys https://ISSUER/...",
		"stint_jwt {\nkeys DIR/absent.pem\n}":                       "absent.pem: cannot read it: no such file or directory; hint: name a file of public keys",
		"stint_jwt {\nkeys DIR/bad.pem\n}":                          "bad.pem: no public key in PEM form; hint: write public keys in PEM form there",
		"stint_jwt {\nkeys http://u:secret@example.com/k\n}":        "keys http://example.com/k: it contains a user or a password; hint: write an https:// address",
		"stint_jwt {\nkeys http://example.com/k\n}":                 "keys http://example.com/k: the keys would be sent without TLS; hint: ",
		"stint_jwt {\nleeway soon\n}":                               `leeway soon: time: invalid duration "soon"; hint: write it such as 30s`,
		"stint_jwt {\nkeys x\nleeway 1h\n}":                         "a leeway of 1h0m0s; hint: write a time up to 10m0s",
		"stint_mtls {\nname colour\n}":                              `a certificate has no colour; hint: write one of common_name, fingerprint, san_dns, san_email, san_uri`,
		"stint_mtls x":                                              "stint_mtls has no argument x; hint: write name x in its block",
		"stint_auth":                                                "stint_auth without a provider, so it would refuse everybody; hint: ",
		"stint_auth {\nbasic_auth\n}":                               "stint_auth has no provider basic_auth; hint: write one of stint_jwt, stint_keys, stint_mtls",
		"stint_auth {\nstint_mtls\nstint_mtls\n}":                   "stint_mtls twice in stint_auth; hint: keep one of them",
		"stint_identity /api/*":                                     "stint_identity has no matcher such as /api/*; hint: it protects every request of the site",
		"stint_identity X A":                                        "a second header A; hint: stint_identity sets one header",
		"stint_identity X?Y":                                        `"x?y" is no name of a header; hint: `,
		"stint_identity Remote-User {\nforward_auth remote-user\n}": "Remote-User is the header of forward_auth and that for the upstream; hint: ",
		"stint_user x":                                              "stint_user has no option x; hint: stint_identity names the headers",
	} {
		err := g.Check("{\nGLOBAL\n}\nhttp://ADDRESS {\n" + body + "\n}")
		if err == nil || !strings.Contains(err.Error(), want) || !place.MatchString(err.Error()) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v\nwant %s", body, err, want)
		}
	}
}

// place is the place of a fault, and at its end what stays in force.
var place = regexp.MustCompile(`(Caddyfile:\d+|\.pem): .*; nothing is in force$`)

// The directives stand in the right order, however they are written.
func TestAdapt(t *testing.T) {
	g := gatewaytest.New(t)
	adapted, err := g.Adapt(`
http://example.com {
	reverse_proxy 127.0.0.1:1
	stint_user
	forward_auth 127.0.0.1:2 {
		uri /
	}
	stint_auth {
		stint_jwt {
			keys     https://issuer.example/keys
			issuer   https://issuer.example
			audience api
			leeway   30s
			user     email
			plan     tier
			header   X-Token
			allow_http
		}
		stint_mtls {
			name san_uri
		}
	}
	stint_keys @api shop {
		header X-Key
		bearer
		subject team
		hide
	}
	basic_auth {
		bob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
	}
	tracing
	stint_identity X-Who {
		forward_auth Remote-User
	}
	@api path /api/*
}`)
	testkit.Must(t, err)
	testkit.CheckGolden(t, "testdata/adapt.json", gatewaytest.Indent(adapted))
}

// Validation starts no goroutine and opens no connection.
func TestValidate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	asked := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			close(asked)
			_ = c.Close()
		}
	}()
	g := gatewaytest.New(t)
	before := goleak.IgnoreCurrent()
	if err := g.Check("{\nGLOBAL\n}\nhttp://ADDRESS {\nstint_jwt {\nkeys http://" + l.Addr().String() + "/keys\n}\n}"); err != nil {
		t.Error(err)
	}
	if err := goleak.Find(append(gatewaytest.Leaks(), before)...); err != nil {
		t.Error(err)
	}
	select {
	case <-asked:
		t.Error("validation fetches keys")
	case <-time.After(50 * time.Millisecond):
	}
}
