package rulefile_test

import (
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// Defaults for a mode may stand next to `domain`, for all limits of the file, even if only some
// limits use the mode.
func TestDefaultsOfModes(t *testing.T) {
	table, err := rulefile.Parse(source(t, "../testdata/good/defaults.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*rule.Rule{}
	for _, r := range table.Rules() {
		byName[r.Name] = r
	}
	if r := byName["api/seen"]; r.Nodes != 8 || r.Terms.Keys != 1000 {
		t.Errorf("eventual: %d nodes, %d keys", r.Nodes, r.Terms.Keys)
	}
	if r := byName["api/heard"]; r.Nodes != 8 || !r.AskPeers {
		t.Errorf("gossip: %d nodes, asks: %v", r.Nodes, r.AskPeers)
	}
	if r := byName["api/lent"]; !r.KeptAfterLoss || r.Terms.Own != nil {
		t.Errorf("leased: after a loss kept: %v, own %v", r.KeptAfterLoss, r.Terms.Own)
	}
	if r := byName["api/part"]; r.Local == nil || r.Local.Capacity() != 6 {
		t.Errorf("local: %v", r.Local)
	}
	if r := byName["api/user"]; r.AskPeers || r.Local != nil || r.Coordination != rule.Strict {
		t.Errorf("strict: %+v", r)
	}
}
