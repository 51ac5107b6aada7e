package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// A fleet reloads a limit node by node, down and up. Nodes with the lower numbers deny and only
// peek, and lose nothing of the use under the higher ones.
func TestRollingReload(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_log", "sliding_window"} {
		t.Run(algorithm, func(t *testing.T) {
			server := testkit.StartRedis(t)
			rules := func(requests int) string {
				return strings.Replace(rulesOf(requests), "per: 366d", "per: 366d, algorithm: "+algorithm, 1)
			}
			var nodes [2]*service
			var files [2]string
			for i := range nodes {
				files[i] = filepath.Join(t.TempDir(), "rules.yaml")
				write(t, files[i], rules(1000))
				nodes[i] = start(t, func(c *settings.Config) {
					c.Rules, c.Store, c.StoreTimeout = []string{files[i]}, server.URL(), patient
				})
			}
			ask := func(node, cost int, allowed bool, left int) {
				t.Helper()
				body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"x"}],"cost":%d}]}`, cost)
				_, _, answer := nodes[node].do(http.MethodPost, "http", "/v1/check", body)
				if want := fmt.Sprintf(`{"allowed":%v`, allowed); !strings.HasPrefix(answer, want) || !strings.Contains(answer, fmt.Sprintf(`"remaining":%d,`, left)) {
					t.Fatalf("node %d, cost %d: %s, want allowed %v and %d left", node, cost, answer, allowed, left)
				}
			}
			reload := func(node, requests int) {
				t.Helper()
				write(t, files[node], rules(requests))
				testkit.Must(t, nodes[node].Reload("test"))
			}
			ask(0, 900, true, 100)
			reload(1, 100)
			for range 3 {
				ask(1, 1, false, 0)
				ask(1, 0, true, 0)
			}
			ask(0, 60, true, 40)
			ask(0, 41, false, 40)
			ask(1, 1, false, 0)
			reload(1, 2000) // and up
			ask(1, 41, true, 999)
			ask(0, 1, false, 0)
			ask(1, 999, true, 0)
		})
	}
}
