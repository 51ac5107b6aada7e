package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// A batch of a thousand checks takes Redis a few calls: they are decided together.
func TestBatchTrips(t *testing.T) {
	server := testkit.StartRedis(t)
	s := start(t, func(c *settings.Config) { c.Store, c.StoreTimeout, c.RememberRefusals = server.URL(), patient, false })
	checks := make([]string, 1000)
	for i := range checks {
		checks[i] = fmt.Sprintf(`{"key": "k%d", "limit": {"requests": 1, "per": "1h"}}`, i)
	}
	before := scripts(server)
	for round, want := range []string{`"allowed":true`, `"allowed":false`} {
		status, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"checks": [`+strings.Join(checks, ",")+`]}`)
		if n := strings.Count(body, want); status != http.StatusOK || n != 2*len(checks) { // twice in each: for its descriptor too
			t.Fatalf("round %d: %d, %d of %d are %s: %.300s", round, status, n, 2*len(checks), want, body)
		}
	}
	n := scripts(server) - before
	t.Logf("%d calls of scripts", n)
	if n < 2 || n > 200 { // about 25; on a slow machine groups leave before all checks of a batch are there
		t.Errorf("%d calls of scripts for two batches of %d", n, len(checks))
	}
}
