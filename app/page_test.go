package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/server/access"
)

// pageService is a service with records, and callers with a role each.
type pageService struct {
	*App
	admin   *httptest.Server
	traffic *httptest.Server
	tokens  map[string]string // by role
	access  string            // path of the file of callers
}

// startPageService starts the service; open: without tokens.
func startPageService(t *testing.T, open bool) *pageService {
	t.Helper()
	dir := t.TempDir()
	s := &pageService{tokens: map[string]string{}, access: filepath.Join(dir, "access")}
	lines := ""
	for _, role := range []string{"read", "support", "write"} {
		token, credential := access.NewToken()
		s.tokens[role] = token
		lines += role + " " + role + " " + credential + "\n"
	}
	testkit.Must(t, os.WriteFile(s.access, []byte(lines), 0o600))
	rules := filepath.Join(dir, "rules.yaml")
	testkit.Must(t, os.WriteFile(rules, []byte("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 2, per: 1h}\n"), 0o600))
	config := settings.Default()
	config.Records, config.Rules = filepath.Join(dir, "records.db"), []string{rules}
	if !open {
		config.AdminAccess = s.access
	}
	a, err := New(config)
	testkit.Must(t, err)
	t.Cleanup(func() { a.Stop(context.Background()) })
	s.App, s.admin, s.traffic = a, httptest.NewServer(a.adminHandler()), httptest.NewServer(a.trafficHandler())
	for _, server := range []*httptest.Server{s.admin, s.traffic} {
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
	}
	return s
}

// take asks for one unit of user 42.
func (s *pageService) take(t *testing.T) (answer struct {
	Allowed   bool
	Reason    string
	Limit     int64
	Remaining int64
},
) {
	t.Helper()
	r, err := http.Post(s.traffic.URL+"/v1/check", "application/json", strings.NewReader(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`))
	testkit.Must(t, err)
	defer r.Body.Close()
	testkit.Must(t, json.NewDecoder(r.Body).Decode(&answer))
	return answer
}

// logIn logs in at the page.
func logIn(tab *programs.Tab, token string) {
	tab.Until("document.querySelector('form.login')")
	tab.Run(fmt.Sprintf("(() => { const f = document.querySelector('form.login'); f.elements.token.value = %q; f.requestSubmit(); })()", token), nil)
	tab.Until("!document.querySelector('form.login')")
}

// sendForm fills a form and sends it, and waits for the answer.
func sendForm(t *testing.T, tab *programs.Tab, form, fields string) {
	t.Helper()
	tab.Until(fmt.Sprintf("document.querySelector('form[aria-label=%q]')", form))
	tab.Run("document.getElementById('note').replaceChildren()", nil)
	tab.Run(fmt.Sprintf("(() => { const f = document.querySelector('form[aria-label=%q]'); for (const [k, v] of Object.entries(%s)) f.elements[k].value = v; f.requestSubmit(); })()", form, fields), nil)
	tab.Until("document.getElementById('note').textContent")
	kind, text := "", ""
	tab.Run("document.getElementById('note').className", &kind)
	tab.Run("document.getElementById('note').innerText", &text)
	if kind != "good" {
		t.Errorf("%s: %s", form, text)
	}
}

// Support bans, unbans, resets and overrides from the page; each is in force as soon as the page says
// so, and in the audit trail with who, why and until.
func TestPageActs(t *testing.T) {
	t.Parallel() // most of the time is the browser's
	s := startPageService(t, false)
	for range 3 {
		s.take(t)
	}
	if a := s.take(t); a.Allowed {
		t.Fatalf("%+v", a)
	}
	tab := programs.StartBrowser(t).Open(s.admin.URL + "/#/keys?domain=api&entries=user%3D42")
	logIn(tab, s.tokens["support"])
	sendForm(t, tab, "Reset", `{"why": "ticket 1"}`)
	if a := s.take(t); !a.Allowed || a.Remaining != 1 {
		t.Errorf("after the reset: %+v", a)
	}
	sendForm(t, tab, "Ban", `{"why": "ticket 2", "until": "1h"}`)
	if a := s.take(t); a.Allowed || a.Reason != "banned" {
		t.Errorf("after the ban: %+v", a)
	}
	sendForm(t, tab, "Unban", `{"why": "ticket 3"}`)
	if a := s.take(t); !a.Allowed {
		t.Errorf("after the end of the ban: %+v", a)
	}
	tab.Go(s.admin.URL + "/#/records?kind=overrides")
	sendForm(t, tab, "Override", `{"subject": "user=42", "rule": "api/user", "requests": "50", "until": "7d", "why": "ticket 4"}`)
	if a := s.take(t); !a.Allowed || a.Limit != 50 {
		t.Errorf("after the override: %+v", a)
	}
	tab.Until("document.querySelectorAll('tbody tr').length == 1")
	tab.Run("document.querySelector('tbody button').click()", nil)
	sendForm(t, tab, "End the override", `{"why": "ticket 5"}`)
	if a := s.take(t); a.Allowed || a.Limit != 2 {
		t.Errorf("after the end of the override: %+v", a)
	}
	r, err := http.NewRequest(http.MethodGet, s.admin.URL+"/v1/audit", nil)
	testkit.Must(t, err)
	r.Header.Set("Authorization", "Bearer "+s.tokens["read"])
	answer, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer answer.Body.Close()
	var trail struct {
		Entries []struct {
			Actor, Action, Kind, Why string
			Until                    time.Time
		}
	}
	testkit.Must(t, json.NewDecoder(answer.Body).Decode(&trail))
	var got []string
	for _, e := range trail.Entries {
		got = append(got, fmt.Sprint(e.Actor, " ", e.Action, " ", e.Kind, " ", e.Why, " ", !e.Until.IsZero()))
	}
	want := []string{
		"support delete override ticket 5 false", "support put override ticket 4 true", "support delete ban ticket 3 false",
		"support put ban ticket 2 true", "support reset limit ticket 1 false",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit trail has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The page shows the same.
	tab.Go(s.admin.URL + "/#/audit")
	tab.Until("document.querySelectorAll('tbody tr').length == 5 && document.querySelector('tbody').innerText.includes('ticket 4')")
}

// A session is its caller: it may do no more, needs its header for writes, and ends when the caller's
// token is taken away, when the viewer logs out, and after its time.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := startPageService(t, false)
	call := func(method, path, body string, set func(*http.Request)) (int, string, *http.Response) {
		t.Helper()
		r, err := http.NewRequest(method, s.admin.URL+path, strings.NewReader(body))
		testkit.Must(t, err)
		r.Header.Set("Content-Type", "application/json")
		if set != nil {
			set(r)
		}
		answer, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		testkit.Must(t, err)
		return answer.StatusCode, string(text), answer
	}
	if status, text, _ := call("POST", "/login", `{"token":"stint_wrong"}`, nil); status != 401 {
		t.Errorf("a wrong token: %d %s", status, text)
	}
	if status, text, _ := call("POST", "/login", `{"token":"`+s.tokens["write"]+`"}`, func(r *http.Request) {
		r.Header.Set("Origin", "http://foreign.example")
	}); status != 403 {
		t.Errorf("a login by a page of another site: %d %s", status, text)
	}
	status, text, answer := call("POST", "/login", `{"token":"`+s.tokens["support"]+`"}`, nil)
	var session struct{ Caller, Role, CSRF string }
	testkit.Must(t, json.Unmarshal([]byte(text), &session))
	if status != 200 || session.Caller != "support" || len(session.CSRF) < 20 || len(answer.Cookies()) != 1 {
		t.Fatalf("%d %s %v", status, text, answer.Cookies())
	}
	cookie := answer.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.MaxAge != 12*3600 || strings.Contains(cookie.Value, s.tokens["support"]) {
		t.Errorf("%+v", cookie)
	}
	const key = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`
	with := func(csrf string) func(*http.Request) {
		return func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
			if csrf != "" {
				r.Header.Set("X-Stint-CSRF", csrf)
			}
		}
	}
	for _, c := range []struct {
		what, method, path, body, csrf string
		want                           int
	}{
		{"a look", "GET", "/v1/limits", "", "", 200},
		{"a write without the header", "POST", "/v1/reset", key, "", 403},
		{"a write with another header", "POST", "/v1/reset", key, "x" + session.CSRF[1:], 403},
		{"a write", "POST", "/v1/reset", key, session.CSRF, 200},
		{"a write that needs another role", "PUT", "/v1/subjects", `{"subject":"user=42"}`, session.CSRF, 403},
	} {
		if status, text, _ := call(c.method, c.path, c.body, with(c.csrf)); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.what, status, text, c.want)
		}
	}
	if status, text, _ := call("GET", "/session", "", with("")); status != 200 || !strings.Contains(text, session.CSRF) {
		t.Errorf("%d %s", status, text)
	}
	if status, _, _ := call("GET", "/v1/limits", "", func(r *http.Request) { with("")(r); r.Header.Set("Authorization", "Bearer x") }); status != 401 {
		t.Errorf("a wrong token beside a session: %d", status)
	}
	lines, err := os.ReadFile(s.access)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(s.access, []byte(strings.ReplaceAll(string(lines), "support support", "support read")), 0o600))
	testkit.Must(t, s.Reload("test"))
	if status, text, _ := call("POST", "/v1/reset", key, with(session.CSRF)); status != 403 || !strings.Contains(text, "role read") {
		t.Errorf("a session whose caller has another role now: %d %s", status, text)
	}
	testkit.Must(t, os.WriteFile(s.access, lines[:strings.Index(string(lines), "support")], 0o600))
	testkit.Must(t, s.Reload("test"))
	if status, _, _ := call("GET", "/v1/limits", "", with("")); status != 401 {
		t.Errorf("a session whose caller has no token any more: %d", status)
	}
	testkit.Must(t, os.WriteFile(s.access, lines, 0o600))
	testkit.Must(t, s.Reload("test"))
	if status, _, _ := call("POST", "/logout", "", with(session.CSRF)); status != 204 {
		t.Errorf("logout: %d", status)
	}
	if status, _, _ := call("GET", "/v1/limits", "", with("")); status != 401 {
		t.Errorf("a session after its logout: %d", status)
	}
}

// otherSite is a page of another site, or of a name that was rebound to this machine. It tries to read
// and to change, as a browser with a session of the page lets it.
const otherSite = `<!doctype html><title>waiting</title><iframe name=sink></iframe><iframe id=inside src="%[1]s/"></iframe>
<form id=form target=sink method=post enctype=text/plain action="%[1]s/v1/reset"><input name='%[2]s' value=''></form>
<form id=out target=sink method=post action="%[1]s/logout"></form>
<script>
const log = [];
async function send(name, url, options) {
  try { const r = await fetch(url, options); log.push(name + " " + (r.type == "opaque" ? "opaque" : r.status)); }
  catch (e) { log.push(name + " failed"); }
}
async function run() {
  const json = {"Content-Type": "application/json", "X-Stint-CSRF": "x"};
  await send("read", "%[1]s/v1/limits", {credentials: "include"});
  await send("session", "%[1]s/session", {credentials: "include"});
  await send("text", "%[1]s/v1/rule-text", {credentials: "include"});
  await send("write", "%[1]s/v1/reset", {method: "POST", credentials: "include", headers: json, body: '%[2]s'});
  await send("simple", "%[1]s/v1/reset", {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": "text/plain"}, body: '%[2]s'});
  await send("login", "%[1]s/login", {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": "text/plain"}, body: '{"token":"x"}'});
  log.push("stream " + await new Promise(done => { const s = new EventSource("%[1]s/v1/live", {withCredentials: true}); s.onmessage = () => done("read"); s.onerror = () => { s.close(); done("failed"); }; }));
  await send("rebound read", "/v1/limits");
  await send("rebound session", "/session");
  await send("rebound write", "/v1/reset", {method: "POST", headers: json, body: '%[2]s'});
  for (const id of ["form", "out"]) {
    const loaded = new Promise(r => document.querySelector("iframe").addEventListener("load", r, {once: true}));
    document.getElementById(id).submit();
    await Promise.race([loaded, new Promise(r => setTimeout(r, 1000))]);
  }
  let inside = "";
  try { inside = document.getElementById("inside").contentDocument.title; } catch (e) { inside = "refused"; }
  log.push("inside " + inside);
  return log.join("; ");
}
</script>`

// A foreign origin, a form of another site and a rebound host read nothing and change nothing, in the
// browser in which somebody is logged in, and where no token is asked for.
func TestPageForeign(t *testing.T) {
	t.Parallel()
	const key = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`
	for _, open := range []bool{false, true} {
		s := startPageService(t, open)
		s.take(t)
		target, err := url.Parse(s.admin.URL)
		testkit.Must(t, err)
		text := fmt.Sprintf(otherSite, s.admin.URL, key)
		rebound := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // keep the name that the browser uses; only its address was rebound
		}}
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" && strings.HasPrefix(r.Host, "rebound") {
				rebound.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(site.Close)
		_, port, _ := strings.Cut(strings.TrimPrefix(site.URL, "http://"), ":")
		tab := programs.StartBrowser(t, "--host-resolver-rules=MAP rebound.example 127.0.0.1").Open(s.admin.URL + "/")
		if !open {
			logIn(tab, s.tokens["write"])
		}
		tab.Until("document.getElementById('nav').children.length > 0")
		for _, host := range []string{"rebound.example:" + port, "127.0.0.1:" + port} { // the second is the same site, on another port
			tab.Go("http://" + host + "/")
			tab.Until("document.readyState == 'complete' && typeof run == 'function'")
			said := ""
			tab.Run("run()", &said)
			for _, want := range []string{"read failed; session failed; text failed; write failed; simple opaque; login opaque; stream failed", "inside refused"} {
				if !strings.Contains(said, want) {
					t.Errorf("open %v, %s: %s\nwant %s", open, host, said, want)
				}
			}
			// Under the rebound name no cookie is sent: 401, or 403 where no token is asked for.
			if want := map[bool]string{true: "rebound read 403; rebound session 403; rebound write 403", false: "rebound read 401; rebound session 200; rebound write 401"}[open]; strings.HasPrefix(host, "rebound") && !strings.Contains(said, want) {
				t.Errorf("open %v, %s: %s\nwant %s", open, host, said, want)
			}
		}
		tab.Go(s.admin.URL + "/")
		tab.Until("document.body.dataset.view") // still logged in
		if a := s.take(t); a.Remaining != 0 {
			t.Errorf("open %v: a page of another site reset the key: %+v", open, a)
		}
	}
}
