package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/server/access"
)

// The callers of admin are read again when their file changes; a file with a mistake changes nothing.
func TestAccess(t *testing.T) {
	t.Parallel()
	first, one := access.NewToken()
	second, two := access.NewToken()
	file := filepath.Join(t.TempDir(), "access")
	write(t, file, "oncall read "+one+"\n")
	s := start(t, func(c *settings.Config) { c.AdminAccess = file })
	ask := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr("admin")+"/v1/limits", http.NoBody)
		testkit.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	if a, b := ask(first), ask(second); a != 200 || b != 401 {
		t.Errorf("%d %d", a, b)
	}
	at := s.log.size()
	write(t, file, "oncall read "+two+"\n")
	at = s.log.await(t, at, "callers of admin loaded", "callers=1")
	// The first file may be read once more before, if its own change is noticed only now.
	testkit.Until(t, "the new caller is known, and the old one no more", func() bool { return ask(first) == 401 && ask(second) == 200 })
	write(t, file, "oncall boss "+one+"\n")
	s.log.await(t, at, "level=ERROR", "callers of admin refused: keeping the old ones", "access:1", "hint=")
	if a, b := ask(first), ask(second); a != 401 || b != 200 {
		t.Errorf("%d %d after a mistake", a, b)
	}
	config := settings.Default()
	config.AdminAccess = file
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), `no role "boss"`) {
		t.Errorf("%v at the start", err)
	}
}
