package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// While durable takes cannot be saved their rules follow on_store_failure, other rules decide as ever, and
// a call that failed charged nothing. When the disk works again so do they.
func TestDurableWithoutDisk(t *testing.T) {
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "counts")
	write(t, rules, `
domain: api
descriptors:
  - {key: denied, rate_limit: {requests: 2, per: 300d, durable: true, on_store_failure: deny}}
  - {key: allowed, rate_limit: {requests: 2, per: 300d, durable: true, on_store_failure: allow}}
  - {key: local, rate_limit: {requests: 2, per: 300d, durable: true, on_store_failure: local, local_share: 50%, nodes: 1}}
  - {key: other, rate_limit: {requests: 2, per: 300d}}
`)
	s := start(t, func(c *settings.Config) { c.Rules, c.State, c.StateInterval = []string{rules}, state, time.Hour })
	block := state + ".journal-00000000000000000001" // a link that leads nowhere: no file of the journal can begin
	testkit.Must(t, os.Symlink(filepath.Join(dir, "nowhere", "file"), block))
	for _, tt := range []struct {
		key      string
		allowed  bool
		degraded bool
	}{
		{"denied", false, true},
		{"allowed", true, true},
		{"local", true, true},
		{"local", false, true},
		{"other", true, false},
	} {
		body := s.check(tt.key)
		if strings.Contains(body, `"allowed":true`) != tt.allowed || strings.Contains(body, `"degraded":true`) != tt.degraded {
			t.Errorf("%s: %s", tt.key, body)
		}
	}
	testkit.Must(t, os.Remove(block))
	testkit.Until(t, "durable takes are saved again", func() bool { return !strings.Contains(s.check("allowed"), `"degraded":true`) })
	for _, allowed := range []bool{true, true, false} {
		if body := s.check("denied"); strings.Contains(body, `"allowed":true`) != allowed || strings.Contains(body, `"degraded":true`) {
			t.Errorf("after that, denied: %s", body)
		}
	}
}
