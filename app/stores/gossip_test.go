package stores

import (
	"log/slog"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/rule/rulefile"
)

// A node without --gossip warns of rules that need it, also if only one plan does.
func TestWarnOfGossip(t *testing.T) {
	config := settings.Default()
	for pro, want := range map[string]bool{"": false, ", coordination: gossip": true} {
		table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
plans: {free: {calls: {requests: 5, per: 1h}}, pro: {calls: {requests: 50, per: 1h` + pro + `}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: calls}}]
`)})
		testkit.Must(t, err)
		var said strings.Builder
		(&Stores{config: &config, log: slog.New(slog.NewTextHandler(&said, nil))}).warnOfGossip(table)
		if strings.Contains(said.String(), "this node counts alone") != want {
			t.Errorf("with %q: %s", pro, said.String())
		}
	}
}
