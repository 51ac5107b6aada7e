package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/notify"
	"stint/server/access"
)

// Every operation that docs/openapi.yaml lists for admin names its role, and answers exactly the
// callers who have it.
func TestRoles(t *testing.T) {
	text, err := os.ReadFile("../docs/openapi.yaml")
	testkit.Must(t, err)
	dir := t.TempDir()
	tokens, lines := map[string]string{"nobody": "", "unknown": "stint_unknown"}, ""
	for _, role := range []string{"read", "support", "write"} {
		token, credential := access.NewToken()
		tokens[role] = token
		lines += role + " " + role + " " + credential + "\n"
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "access"), []byte(lines), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte("domain: api\n"), 0o600))
	config := settings.Default()
	config.Records, config.AdminAccess, config.Rules = filepath.Join(dir, "records.db"), filepath.Join(dir, "access"), []string{filepath.Join(dir, "rules.yaml")}
	config.Webhooks = []notify.Receiver{{Name: "shop", File: filepath.Join(dir, "events.jsonl")}}
	a, err := New(config)
	testkit.Must(t, err)
	defer a.Stop(t.Context())
	admin := a.adminHandler()
	for until, want := range map[string]int{"31d": http.StatusCreated, "32d": http.StatusForbidden} { // --support-for
		r := httptest.NewRequest(http.MethodPut, "/v1/overrides", strings.NewReader(`{"subject":"user=`+until+`","rule":"r","requests":1,"until":"`+until+`"}`))
		r.Header.Set("Authorization", "Bearer "+tokens["support"])
		w := httptest.NewRecorder()
		if admin.ServeHTTP(w, r); w.Code != want {
			t.Errorf("an override by support for %s: %d %s", until, w.Code, w.Body)
		}
	}
	paths := regexp.MustCompile(`(?m)^  (/\S*):\n((?:(?:    .*)?\n)+)`).FindAllStringSubmatch(string(text), -1)
	walked := 0
	for _, path := range paths {
		for _, op := range regexp.MustCompile(`(?m)^    (get|put|post|delete):\n((?:(?:      .*)?\n)+)`).FindAllStringSubmatch(path[2], -1) {
			if !strings.Contains(op[2], "security: [{}, {token: []}]") {
				continue
			}
			word := regexp.MustCompile(`(?m)^      x-role: (\w+)$`).FindStringSubmatch(op[2])
			if word == nil {
				t.Errorf("%s %s names no role", op[1], path[1])
				continue
			}
			needs, err := access.ParseRole(word[1])
			testkit.Must(t, err)
			walked++
			body := "{}"
			if strings.Contains(path[1], "overrides") {
				body = `{"until":"1h"}` // without an end it needs another role
			}
			for name, token := range tokens {
				r := httptest.NewRequest(strings.ToUpper(op[1]), strings.NewReplacer("{id}", "7", "{name}", "cpu", "{record}", "user=42", "{subject}", "user=42", "{rule}", "r", "{hash}", "0123456789").Replace(path[1]), strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				if path[1] == "/v1/live" { // a stream, which the client ends
					gone, leave := context.WithCancel(r.Context())
					leave()
					r = r.WithContext(gone)
				}
				w := httptest.NewRecorder()
				admin.ServeHTTP(w, r)
				has, err := access.ParseRole(name)
				switch refused := w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden; {
				case err != nil && w.Code != http.StatusUnauthorized:
					t.Errorf("%s %s: %s got %d", op[1], path[1], name, w.Code)
				case err == nil && has < needs && w.Code != http.StatusForbidden:
					t.Errorf("%s %s: %s got %d", op[1], path[1], name, w.Code)
				case err == nil && has >= needs && refused:
					t.Errorf("%s %s: %s got %d %s", op[1], path[1], name, w.Code, w.Body)
				}
			}
		}
	}
	if walked < 47 {
		t.Errorf("%d operations", walked)
	}
}
