package limits_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

const operatorsSite = `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		records DIR/records.db
		admin_access DIR/access
	}
}
http://ADDRESS {
	handle_path /ops/* {
		stint_admin
	}
	handle {
		respond "the shop"
	}
}
`

// The operators' page and the admin API are on a site, for callers with a token and in sessions of it.
func TestOperatorsSite(t *testing.T) {
	access := fmt.Sprintf("ann support sha256:%x\n", sha256.Sum256([]byte("secret")))
	g := start(t, operatorsSite, map[string]string{"rules.yaml": rules, "access": access})
	call := func(method, path, body string, fields ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.address+path, strings.NewReader(body))
		testkit.Must(t, err)
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		testkit.Must(t, err)
		return answer, string(text)
	}
	page, text := call(http.MethodGet, "/ops/", "", "Accept", "text/html")
	if page.StatusCode != http.StatusOK || !strings.Contains(text, `src="page.js"`) || page.Header.Get("Content-Security-Policy") == "" {
		t.Fatalf("the page: %d %s", page.StatusCode, text)
	}
	if a, _ := call(http.MethodGet, "/ops/page.js", ""); a.StatusCode != http.StatusOK {
		t.Errorf("its script: %d", a.StatusCode)
	}
	for _, path := range []string{"/ops/v1/limits", "/ops/v1/facts", "/ops/v1/live"} {
		if a, text := call(http.MethodGet, path, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", path, a.StatusCode, text)
		}
	}
	login, text := call(http.MethodPost, "/ops/login", `{"token": "secret"}`)
	if login.StatusCode != http.StatusOK || len(login.Cookies()) != 1 {
		t.Fatalf("login: %d %s", login.StatusCode, text)
	}
	cookie := login.Cookies()[0].String()
	_, csrf, _ := strings.Cut(text, `"csrf":"`)
	csrf, _, _ = strings.Cut(csrf, `"`)
	ban := `{"address": "192.0.2.7", "until": "1h", "why": "a test"}`
	if a, text := call(http.MethodPut, "/ops/v1/bans", ban, "Cookie", cookie); a.StatusCode != http.StatusForbidden {
		t.Errorf("a write without the header: %d %s", a.StatusCode, text)
	}
	if a, text := call(http.MethodPut, "/ops/v1/bans", ban, "Cookie", cookie, "X-Stint-CSRF", csrf); a.StatusCode != http.StatusOK && a.StatusCode != http.StatusCreated {
		t.Errorf("a write: %d %s", a.StatusCode, text)
	}
	if _, text := call(http.MethodGet, "/ops/v1/audit", "", "Cookie", cookie); !strings.Contains(text, `"ann"`) {
		t.Errorf("the audit trail: %s", text)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.address+"/ops/v1/live", http.NoBody)
	testkit.Must(t, err)
	r.Header.Set("Cookie", cookie)
	live, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer live.Body.Close()
	first := make([]byte, 6)
	end := time.AfterFunc(time.Minute, func() { live.Body.Close() })
	defer end.Stop()
	if _, err := io.ReadFull(live.Body, first); err != nil || string(first) != "data: " {
		t.Errorf("the stream begins %q %v", first, err)
	}
	if a := g.get("/"); a.body != "the shop" {
		t.Errorf("beside it: %s", a.body)
	}
}

// Without tokens, or with arguments, the directive is refused.
func TestOperatorsSiteWrong(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"no tokens": {"\t\tadmin_access DIR/access\n", "", "stint_admin without tokens"},
		"arguments": {"\t\tstint_admin\n", "\t\tstint_admin yes\n", "stint_admin has no arguments"},
	} {
		g := newGateway(t, map[string]string{"rules.yaml": rules, "access": "ann read sha256:" + strings.Repeat("0", 64) + "\n"})
		g.Write("Caddyfile", strings.Replace(operatorsSite, tt.from, tt.to, 1))
		if out, err := g.Command("validate", "--config", "Caddyfile").CombinedOutput(); err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
