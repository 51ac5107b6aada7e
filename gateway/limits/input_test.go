package limits_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the modules that Caddyfiles name
	"go.uber.org/goleak"

	_ "stint/gateway"
	"stint/internal/testkit"
	"stint/server/access"
)

// bad are Caddyfiles that are refused: APP is in the block of stint, SITE in that of the site, and
// GLOBALS beside stint. Each error is one line.
var bad = []struct{ name, app, site, globals, want string }{
	{"an unknown setting", "rules DIR/rules.yaml\n\t\tstroe memory", "stint api", "", `Caddyfile:10: unknown setting "stroe" of stint; hint: is store meant?`},
	{"a setting without value", "rules", "stint api", "", "Caddyfile:9: rules has no value; hint: write it behind the name"},
	{"two values", "rules DIR/rules.yaml\n\t\tstore memory redis://127.0.0.1", "stint api", "", "Caddyfile:10: store takes one value; hint:"},
	{"a setting twice", "rules DIR/rules.yaml\n\t\tstore memory\n\t\tstore memory", "stint api", "", "Caddyfile:11: store is given twice; hint: the first is at Caddyfile:10"},
	{"a bad value", "rules DIR/rules.yaml\n\t\tmemory lots", "stint api", "", `Caddyfile:10: "lots" is not a size; hint: write bytes`},
	{"an unknown store", "rules DIR/rules.yaml\n\t\tstore etcd://x", "stint api", "", `Caddyfile:10: unknown store "etcd"; hint: use memory`},
	{"settings that do not fit", "rules DIR/rules.yaml\n\t\trecords_copy DIR/copy", "stint api", "", "Caddyfile:10: records are not in Redis; hint: leave it out"},
	{"a missing rule file", "rules DIR/none.yaml", "stint api", "", "Caddyfile:9: DIR/none.yaml: "},
	{"a fault in the rules", "rules DIR/bad.yaml", "stint api", "", `DIR/bad.yaml:2: unknown word "kye" in a descriptor; hint: did you mean "key"?`},
	{"an unknown domain", "rules DIR/rules.yaml", "stint apii", "", `Caddyfile:13: no rules for domain "apii"; hint: is api meant?`},
	{"no domain", "rules DIR/rules.yaml", "stint", "", "Caddyfile:13: stint takes one argument, the domain of its rules; hint: write stint DOMAIN"},
	{"a domain without http", "rules DIR/plain.yaml", "stint_early plain", "", `Caddyfile:13: domain "plain" does not say how an HTTP request becomes descriptors; hint: give DIR/plain.yaml an http section`},
	{"an unknown word", "rules DIR/rules.yaml", "stint api {\n\t\theader ietf\n\t}", "", `Caddyfile:14: unknown word "header"; hint: is headers meant?`},
	{"an unknown preset", "rules DIR/rules.yaml", "stint api {\n\t\theaders iet\n\t}", "", `Caddyfile:13: headers: unknown word "iet"; hint: use ietf, legacy, draft03, none`},
	{"a status that is none", "rules DIR/rules.yaml", "stint api {\n\t\tstatus 200\n\t}", "", "Caddyfile:13: status: 200 is no denial; hint: use 400 to 599"},
	{"a missing address list", "rules DIR/rules.yaml", "stint_only DIR/none.txt", "", "Caddyfile:13: DIR/none.txt: cannot read it: no such file or directory; hint: "},
	{"a bad address list", "rules DIR/rules.yaml", "respond hi\n\tstint_deny DIR/rules.yaml", "", "Caddyfile:14: DIR/rules.yaml:2: "},
	{"missing keys of tokens", "rules DIR/rules.yaml", "stint_jwt {\n\t\tissuer x\n\t\tkeys DIR/none.json\n\t}", "", "Caddyfile:15: DIR/none.json: cannot read it: no such file or directory; hint: "},
	{"bad keys of tokens", "rules DIR/rules.yaml", "stint_jwt {\n\t\tkeys DIR/jwks.json\n\t}", "", "Caddyfile:14: DIR/jwks.json: "},
	{"a missing key of the queue", "rules DIR/rules.yaml\n\t\tqueue_key_file DIR/none\n\t\tqueue DIR/queue", "stint api", "", "Caddyfile:10: queue_key_file: stat DIR/none: no such file or directory; hint: "},
	{"a bad key of identities", "rules DIR/rules.yaml\n\t\tqueue DIR/queue\n\t\tqueue_identity_key_file DIR/short", "stint api", "", "Caddyfile:11: queue_identity_key_file DIR/short: "},
	{"a missing list of operators", "rules DIR/rules.yaml\n\t\tadmin_access DIR/none", "stint api", "", "Caddyfile:10: cannot read the callers of admin: no such file or directory; hint: "},
	{"a directive twice", "rules DIR/rules.yaml", "stint api\n\tstint api", "", "Caddyfile:14: stint api comes behind stint api of Caddyfile:13, so it would decide nothing; hint: remove one of the two"},
	{"a directive twice, deep", "rules DIR/rules.yaml", "handle /a* {\n\t\troute {\n\t\t\tstint_early api\n\t\t}\n\t}\n\tstint_early api", "", "Caddyfile:15: stint_early api comes behind stint_early api of Caddyfile:18"},
	{"the early directive behind the other", "rules DIR/rules.yaml", "route {\n\t\tstint api\n\t\tstint_early api\n\t}", "", "Caddyfile:15: stint_early api comes behind stint api of Caddyfile:14"},
	{"twice with one matcher", "rules DIR/rules.yaml", "@a path /a*\n\tstint @a api\n\tstint @a api", "", "Caddyfile:15: stint api comes behind stint api of Caddyfile:14"},
	{"an identity in a block", "rules DIR/rules.yaml", "handle {\n\t\tstint_identity\n\t}", "", "Caddyfile:14: stint_identity protects every request of the site, so it cannot stand in handle, route or another block; hint: write it into the site itself"},
	{"an identity in an error route", "rules DIR/rules.yaml", "handle_errors {\n\t\tstint_identity\n\t}", "", "Caddyfile:14: stint_identity protects"},
	{
		"proxies without strict", "rules DIR/rules.yaml", "stint api", "servers {\n\t\ttrusted_proxies static 10.0.0.0/8\n\t}",
		"Caddyfile:16: the server has trusted_proxies without trusted_proxies_strict: clients can write any address into the forwarded header; hint: add trusted_proxies_strict to the block of servers",
	},
}

func badFile(app, site, globals string) string {
	if globals != "" {
		globals = "\t" + globals + "\n"
	}
	return "{\n\tGLOBAL\n\tstint {\n\t\t" + app + "\n\t}\n" + globals + "}\nhttp://ADDRESS {\n\t" + site + "\n\trespond ok\n}\n"
}

var badRules = map[string]string{
	"rules.yaml": rules,
	"bad.yaml":   "domain: api\ndescriptors: [{kye: user}]\n",
	"jwks.json":  `{"keys": [{}]}`,
	"short":      "abc\n",
	"plain.yaml": "domain: plain\ndescriptors: [{key: user, rate_limit: {requests: 1, per: 1h}}]\n",
}

// TestBadInput checks that each fault is one line with its place, a hint, and what stays in force, for
// validate and for a reload, and that the running configuration stays in force.
func TestBadInput(t *testing.T) {
	g := start(t, badFile("rules DIR/rules.yaml", "stint api", ""), badRules)
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			g.T = t
			g.Write("Caddyfile", badFile(tt.app, tt.site, tt.globals))
			want := strings.ReplaceAll(tt.want, "DIR", g.Dir)
			out, err := g.Command("validate", "--config", "Caddyfile").CombinedOutput()
			if line := lastLine(string(out)); err == nil || !strings.Contains(line, want) || !strings.Contains(line, "; hint: ") || !strings.Contains(line, "nothing is in force") {
				t.Errorf("validate: %v, want %s\n%s", err, want, out)
			}
			a := g.ask(http.MethodPost, "/load", g.Read("Caddyfile"), "Content-Type", "text/caddyfile")
			if a.status != http.StatusBadRequest || !strings.Contains(a.body, "the running configuration stays in force") {
				t.Errorf("load: %+v", a)
			}
		})
	}
	g.T = t
	if a := g.get("/"); a.status != http.StatusOK || a.header.Get("X-Ratelimit-Limit") == "" {
		t.Errorf("afterwards: %+v", a)
	}
	if a := g.ask(http.MethodGet, "/metrics", ""); a.status != http.StatusOK || !strings.Contains(a.body, "\nstint_build_info{") {
		t.Errorf("metrics afterwards: %+v", a)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.ReplaceAll(lines[len(lines)-1], `\"`, `"`) // in a log of JSON
}

// TestRepeated checks that a request is decided once by the directives of a domain that it comes to, and that
// those are accepted which share only some requests.
func TestRepeated(t *testing.T) {
	site := "stint_identity\n\thandle /one {\n\t\tstint api\n\t\trespond one\n\t}\n\thandle /two {\n\t\tstint api\n\t\tstint /two* api\n\t\terror 404\n\t}\n\t" +
		"handle_errors {\n\t\tstint api\n\t\trespond sorry\n\t}\n\tstint_early /two* api\n\tstint_early /t* api"
	g := start(t, badFile("rules DIR/rules.yaml", site, ""), badRules)
	for i, path := range []string{"/one", "/two", "/three"} {
		a := g.get(path)
		if used := g.used("address", home); a.header.Get("X-Ratelimit-Limit") == "" || used != int64(i+1) {
			t.Errorf("%s: %+v, %d used", path, a, used)
		}
	}
}

// TestSeveral checks that an answer shows the limits of all domains of a route.
func TestSeveral(t *testing.T) {
	other := "domain: other\ndescriptors: [{key: remote_address, rate_limit: {name: more, requests: 50, per: 1h}}]\nhttp: {rate_limits: [{actions: [{remote_address: {}}]}]}\n"
	g := start(t, badFile("rules DIR/rules.yaml\n\t\trules DIR/other.yaml", "stint api\n\tstint other", ""), map[string]string{"rules.yaml": rules, "other.yaml": other})
	a := g.get("/")
	policies := a.header.Get("RateLimit-Policy")
	if !strings.Contains(policies, `"more";q=50`) || !strings.Contains(policies, `"address";q=10`) || a.header.Get("X-Ratelimit-Limit") == "50" {
		t.Errorf("%+v", a.header)
	}
}

// TestBadJSON checks that a fault of a configuration in JSON, which has no lines, names the module.
func TestBadJSON(t *testing.T) {
	g := newGateway(t, badRules)
	for _, tt := range []struct{ app, handler, want string }{
		{`"settings": {"rules": ["rules.yaml"], "stroe": ["memory"]}`, `"handler": "stint", "domain": "api"`, "apps.stint.settings.stroe: unknown setting"},
		{`"settings": {"rules": ["none.yaml"]}`, `"handler": "stint", "domain": "api"`, "apps.stint.settings.rules: none.yaml: "},
		{`"settings": {"rules": ["rules.yaml"]}, "queue": {"storage": "queue", "key_file": "none"}`, `"handler": "stint", "domain": "api"`, "apps.stint.queue.key_file: queue_key_file: stat none: "},
		{`"settings": {"rules": ["rules.yaml"]}`, `"handler": "stint_early", "domain": "other"`, `http.handlers.stint_early: no rules for domain "other"`},
		{`"settings": {"rules": ["rules.yaml"]}`, `"handler": "stint_only", "files": ["none.txt"]`, "http.handlers.stint_only: none.txt: "},
		{`"settings": {"rules": ["rules.yaml"]}`, `"handler": "authentication", "providers": {"stint_jwt": {"keys": "none.pem"}}`, "http.authentication.providers.stint_jwt: none.pem: "},
	} {
		g.Write("caddy.json", `{"apps": {"stint": {`+tt.app+`}, "http": {"servers": {"one": {"listen": ["ADDRESS"], "routes": [{"handle": [{`+tt.handler+`}]}]}}}}}`)
		out, err := g.Command("validate", "--config", "caddy.json").CombinedOutput()
		if err == nil || !strings.Contains(lastLine(string(out)), tt.want) {
			t.Errorf("%v, want %s in\n%s", err, tt.want, out)
		}
	}
}

// TestNoApp checks the error of a directive without the global option.
func TestNoApp(t *testing.T) {
	g := newGateway(t, nil)
	g.Write("Caddyfile", "{\n\tGLOBAL\n}\nhttp://ADDRESS {\n\tstint api\n\trespond ok\n}\n")
	out, err := g.Command("validate", "--config", "Caddyfile").CombinedOutput()
	if err == nil || !strings.Contains(lastLine(string(out)), "the app stint is not configured; hint: add the global option") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestValidate is A-1: validating a configuration opens no socket and no file of counts, starts no
// goroutine, and contacts no store.
func TestValidate(t *testing.T) {
	store, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	calls := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := store.Accept()
			if err != nil {
				close(calls)
				return
			}
			calls <- c
		}
	}()
	g := newGateway(t, map[string]string{"rules.yaml": rules})
	redis := "redis://" + store.Addr().String()
	g.Write("Caddyfile", badFile(fmt.Sprintf("rules DIR/rules.yaml\n\t\tstore %s\n\t\trecords %s\n\t\tstate DIR/state/counts\n\t\tgossip %s", redis, redis, store.Addr()), "stint_early api\n\tstint api", ""))
	testkit.Must(t, os.Mkdir(filepath.Join(g.Dir, "state"), 0o700))
	out, err := g.Command("validate", "--config", "Caddyfile").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(g.Read("Caddyfile")), map[string]any{"filename": "Caddyfile"})
	testkit.Must(t, err)
	var config caddy.Config
	testkit.Must(t, caddy.StrictUnmarshalJSON(adapted, &config))
	before := goleak.IgnoreCurrent()
	testkit.Must(t, caddy.Validate(&config))
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	store.Close()
	for c := range calls {
		t.Error("the store was called by", c.RemoteAddr())
		c.Close()
	}
	if files, err := os.ReadDir(filepath.Join(g.Dir, "state")); err != nil || len(files) > 0 {
		t.Errorf("files of counts: %v, %v", files, err)
	}
}

// TestStoreAway checks that the gateway starts while its store is away: one line says so, and each rule
// follows its on_store_failure.
func TestStoreAway(t *testing.T) {
	away := testkit.Address(t)
	file := strings.ReplaceAll(rules, "requests: 3, per: 2h", "requests: 3, per: 2h, on_store_failure: deny")
	g := start(t, badFile("rules DIR/rules.yaml\n\t\tstore redis://"+away, "stint api {\n\t\tdegraded_header X-Degraded\n\t}", ""), map[string]string{"rules.yaml": file})
	if a := g.get("/"); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "limit_unavailable") || a.header.Get("X-Degraded") != "true" {
		t.Errorf("deny: %+v", a)
	}
	g.Write("rules.yaml", strings.ReplaceAll(file, "on_store_failure: deny", "on_store_failure: allow"))
	g.Await("files changed")
	if a := g.get("/"); a.status != http.StatusOK || a.header.Get("X-Degraded") != "true" {
		t.Errorf("allow: %+v", a)
	}
	found := ""
	for line := range strings.Lines(g.Log.String()) {
		if strings.Contains(line, "the store cannot be used") {
			found = line
		}
	}
	for _, want := range []string{"each rule follows its on_store_failure", `"hint":"`, `"place":"Caddyfile:10"`, away} {
		if !strings.Contains(found, want) {
			t.Errorf("no %s in the log line %q", want, found)
		}
	}
}

// TestAdmin checks that the admin interface of the service is below /stint/ of Caddy's, with its roles.
func TestAdmin(t *testing.T) {
	reader, readerHash := access.NewToken()
	writer, writerHash := access.NewToken()
	g := start(t, badFile("rules DIR/rules.yaml\n\t\tadmin_access DIR/access", "stint api", ""), map[string]string{
		"rules.yaml": rules,
		"access":     fmt.Sprintf("ann read %s\nbob write %s\n", readerHash, writerHash),
	})
	g.get("/")
	key := `{"domain": "api", "descriptors": [{"entries": [` + home + `]}]}`
	for _, tt := range []struct {
		name, method, path, token, host string
		status                          int
	}{
		{"no token", http.MethodPost, "/stint/v1/inspect", "", "", 401},
		{"a reader reads", http.MethodPost, "/stint/v1/inspect", reader, "", 200},
		{"a reader writes", http.MethodPost, "/stint/v1/reset", reader, "", 403},
		{"a writer writes", http.MethodPost, "/stint/v1/reset", writer, "", 200},
		{"limits", http.MethodGet, "/stint/v1/limits", reader, "", 200},
		{"metrics", http.MethodGet, "/stint/metrics", reader, "", 200},
		{"health", http.MethodGet, "/stint/readyz", "", "", 200},
		{"another host", http.MethodGet, "/stint/v1/limits", reader, "evil.example", 403},
		{"an unknown path", http.MethodGet, "/stint/v1/none", reader, "", 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+g.admin+tt.path, strings.NewReader(key))
		testkit.Must(t, err)
		r.Host = tt.host
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		if a := g.do(r); a.status != tt.status {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
}

// TestRecords checks that a ban by Caddy's admin API is in force in both directives, and that it lasts
// over a reload.
func TestRecords(t *testing.T) {
	site := "basic_auth /private* {\n\t\tann " + hash + "\n\t}\n\tstint_early api\n\tstint api"
	g := start(t, badFile("rules DIR/rules.yaml\n\t\trecords DIR/records.db", site, ""), map[string]string{"rules.yaml": rules})
	ban := func(body string) {
		t.Helper()
		if a := g.ask(http.MethodPut, "/stint/v1/bans", body, "Content-Type", "application/json"); a.status/100 != 2 {
			t.Fatalf("%+v", a)
		}
	}
	banned := func(a reply) bool {
		return a.status == http.StatusForbidden && strings.Contains(a.body, `"code":"banned"`)
	}
	ban(`{"subject": "user=ann", "until": "1h", "why": "test"}`)
	if a := g.get("/private", ":user", "ann:secret"); !banned(a) {
		t.Errorf("a user: %+v", a)
	}
	if a := g.get("/"); a.status != http.StatusOK || g.used("address", home) != 1 {
		t.Errorf("another: %+v, %d used", a, g.used("address", home)) // the request of the banned user is undone
	}
	g.load(badFile("rules DIR/rules.yaml\n\t\trecords DIR/records.db", site+"\n\theader X-Load 2", ""))
	ban(`{"address": "127.0.0.1", "until": "1h", "why": "test", "force": true}`)
	if a := g.get("/"); !banned(a) || a.header.Get("Retry-After") == "" {
		t.Errorf("an address: %+v", a)
	}
	if a := g.get("/private", ":user", "ann:secret"); !banned(a) {
		t.Errorf("a user after a reload: %+v", a)
	}
}
