package app

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// A service ends soon even while its store is frozen, or down, and logs the use that it could not
// report.
func TestStopWithoutStore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		away func(*testkit.RedisServer)
	}{
		{"frozen", (*testkit.RedisServer).Freeze},
		{"gone", (*testkit.RedisServer).Stop},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server, file := testkit.StartRedis(t), filepath.Join(t.TempDir(), "rules.yaml")
			rules := busyBucket(", coordination: eventual")
			rules += "  - key: lent\n" + strings.SplitAfterN(dividedBucket("10%"), "\n", 4)[3]
			write(t, file, rules)
			s := start(t, func(c *settings.Config) {
				c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), 100*time.Millisecond
			})
			for range 300 {
				s.ask(t, "user=x")
				s.ask(t, "lent=x")
			}
			test.away(server)
			s.ask(t, "user=x")
			began := time.Now()
			s.Stop(context.Background())
			took := time.Since(began)
			t.Logf("it took %v", took)
			if took > slack*time.Second {
				t.Errorf("it took %v", took)
			}
			s.log.await(t, 0, "could not report all usage of eventual limits", "keys=1", "units=")
		})
	}
}
