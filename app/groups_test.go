package app

import (
	"testing"

	"stint/app/settings"
)

// TestGroups: every setting is in one group.
func TestGroups(t *testing.T) {
	config := settings.Default()
	seen := map[string]string{}
	for _, g := range config.Groups() {
		if len(g.Names) == 0 {
			t.Errorf("nothing stands under %q", g.Title)
		}
		for _, name := range g.Names {
			if other, twice := seen[name]; twice {
				t.Errorf("%s stands under %q and %q", name, other, g.Title)
			}
			seen[name] = g.Title
		}
	}
	for _, s := range config.Settings() {
		if seen[s.Name] == "" {
			t.Errorf("%s stands under nothing", s.Name)
		}
	}
	for name, want := range map[string]string{"grpc": "Listeners", "grpc-max-age": "gRPC", "rls-quota": "gRPC", "metrics": "Metrics and log", "gossip": "How nodes agree"} {
		if seen[name] != want {
			t.Errorf("%s stands under %q, want %q", name, seen[name], want)
		}
	}
}
