package rule_test

import (
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// Keys with the same `shard_by` values have the same place, whatever else is in them. Other keys
// do not.
func TestAppendPlace(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5, shard_by: user}
    descriptors:
      - key: path
        rate_limit:
          - {unit: minute, requests_per_unit: 5, shard_by: user}
          - {unit: hour, requests_per_unit: 5, shard_by: [user, path]}
          - {unit: day, requests_per_unit: 5}
`)})
	if err != nil {
		t.Fatal(err)
	}
	place := func(r int, user, path string) string {
		return string(table.Rules()[r].AppendPlace(nil, []rule.Entry{{Key: "user", Value: user}, {Key: "path", Value: path}}))
	}
	alice := place(0, "alice", "")
	if alice == "" || alice != place(1, "alice", "/a") || alice != place(1, "alice", "/b") {
		t.Errorf("alice is placed at %q and %q", alice, place(1, "alice", "/a"))
	}
	for _, other := range []string{place(0, "bob", ""), place(2, "alice", "/a"), place(2, "alice", "/b"), place(3, "alice", "/a")} {
		if other == alice {
			t.Errorf("somebody else is placed at %q", other)
		}
	}
	if place(2, "a", "b/c") == place(2, "a/b", "c") || place(3, "a", "b") != "" {
		t.Errorf("places are %q and %q", place(2, "a", "b/c"), place(3, "a", "b"))
	}
	if text := table.String(); !strings.Contains(text, "placed by user and path") {
		t.Error(text)
	}
}
