package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// A pool that its own requests have used up lends nothing, in every store: the example and the rule
// of docs/rules.md, with windows that do not end during the test.
func TestFullPoolLendsNothing(t *testing.T) {
	example, err := os.ReadFile("../examples/rules/give.yaml")
	testkit.Must(t, err)
	page, err := os.ReadFile("../docs/rules.md")
	testkit.Must(t, err)
	_, documented, _ := strings.Cut(string(page), "domain: search\n")
	documented, _, _ = strings.Cut("domain: search\n"+documented, "```")
	for name, test := range map[string]struct{ rules, domain, key, value string }{
		"the example":   {string(example), "give", "all", "users"},
		"the documents": {documented, "search", "any", "all"},
		"a leased pool": {strings.Replace(documented, "name: everyone", "name: everyone, coordination: leased", 1), "search", "any", "all"},
	} {
		for _, store := range []string{"memory", "redis"} {
			t.Run(name+" in "+store, func(t *testing.T) {
				address := store
				if store == "redis" {
					address = testkit.StartRedis(t).URL()
				}
				file := filepath.Join(t.TempDir(), "rules.yaml")
				write(t, file, strings.ReplaceAll(test.rules, "per: 1m", "per: 366d"))
				s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, address, patient })
				ask := func(key, value string, cost int) string {
					_, _, body := s.do(http.MethodPost, "http", "/v1/check", fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}], "cost": %d}]}`, test.domain, key, value, cost))
					return body
				}
				passes := func(want bool, key, value string, cost int) {
					t.Helper()
					if body := ask(key, value, cost); strings.Contains(body, `"allowed":true`) != want {
						t.Errorf("%s=%s at %d: %s, want allowed %t", key, value, cost, body, want)
					}
				}
				passes(true, "user", "ann", 100)
				passes(true, "user", "ann", 50) // lent
				for range 17 {
					passes(true, test.key, test.value, 50)
				}
				passes(false, test.key, test.value, 1)
				passes(false, "user", "ann", 1)
				passes(true, "user", "bob", 100) // the own limit is never lent away
				passes(false, "user", "bob", 1)
			})
		}
	}
}
