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

// Without after_loss, a leased key is kept after a loss if it takes more than a minute to be full
// again.
func TestDefaultAfterLoss(t *testing.T) {
	for _, test := range []struct {
		limit string
		kept  bool
	}{
		{"{unit: second, requests_per_unit: 64}", false},
		{"{unit: minute, requests_per_unit: 64}", false},
		{"{unit: second, requests_per_unit: 63}", true}, // too small to be lent
		{"{per: 61s, requests: 50}", true},
		{"{unit: hour, requests_per_unit: 50}", true},
		{"{unit: month, requests_per_unit: 50}", true},
		{"{unit: minute, requests_per_unit: 70, algorithm: token_bucket, burst: 70}", false},
		{"{unit: hour, requests_per_unit: 6000, algorithm: token_bucket, burst: 100}", false},
		{"{unit: minute, requests_per_unit: 70, algorithm: token_bucket, burst: 71}", true},
		{"{unit: hour, requests_per_unit: 50, after_loss: used_up}", false},
		{"{unit: second, requests_per_unit: 50, after_loss: used_up}", false},
		{"{unit: second, requests_per_unit: 50, after_loss: kept}", true},
	} {
		text := "domain: api\ndescriptors:\n  - key: user\n    rate_limit: " + test.limit[:len(test.limit)-1] + ", coordination: leased}\n"
		table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		if r := table.Rules()[0]; r.KeptAfterLoss != test.kept || r.Terms.KeptAfterLoss != test.kept {
			t.Errorf("%s: kept %v, want %v", test.limit, r.KeptAfterLoss, test.kept)
		}
	}
}
