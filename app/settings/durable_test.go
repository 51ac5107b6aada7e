package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// A store that cannot keep what a rule asks for is refused at the start, with the rule's line.
func TestStoreOfRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	const durable, usage = "durable: true", "usage: 3, notify: 80%"
	for _, tt := range []struct{ words, store, state, want string }{
		{durable, "memory", "", "rules.yaml:3: durable, and the store in memory has no state file"},
		{durable, "memory", "counts", ""},
		{durable, "memcached://localhost", "", "rules.yaml:3: durable, and the store is memcached, which keeps nothing on disk"},
		{durable, "redis://localhost", "", ""},
		{usage, "memory", "", ""},
		{usage, "memcached://localhost", "", "rules.yaml:3: usage or notify, and the store is memcached, which cannot write a history in the same step as a count"},
	} {
		testkit.Must(t, os.WriteFile(file, []byte("domain: api\ndescriptors:\n  - {key: user, rate_limit: {requests: 5, per: 1h, "+tt.words+"}}\n"), 0o600))
		c := &Config{Rules: []string{file}, RulesFiles: FilesYAML, Store: tt.store, State: tt.state}
		_, err := c.LoadRules()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s with %s and state %q: %v, want %q", tt.words, tt.store, tt.state, err, tt.want)
		}
	}
}
