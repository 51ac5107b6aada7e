package app

import "testing"

// TestGroups shows every setting that is built in one group, and no other.
func TestGroups(t *testing.T) {
	config := DefaultConfig()
	seen := map[string]string{}
	for _, g := range config.Groups() {
		if len(g.Settings) == 0 {
			t.Errorf("nothing stands under %q", g.Title)
		}
		for _, s := range g.Settings {
			if other, twice := seen[s.Name]; twice || s.Hidden() {
				t.Errorf("%s stands under %q and %q, hidden: %v", s.Name, other, g.Title, s.Hidden())
			}
			seen[s.Name] = g.Title
		}
	}
	for _, s := range config.Settings() {
		if seen[s.Name] == "" && !s.Hidden() {
			t.Errorf("%s stands in no group", s.Name)
		}
	}
	for name, want := range map[string]string{"grpc": "Listeners", "grpc-max-age": "gRPC", "rls-quota": "gRPC", "metrics": "Metrics and log", "gossip": "How nodes agree"} {
		if seen[name] != want {
			t.Errorf("%s stands under %q, want %q", name, seen[name], want)
		}
	}
}
