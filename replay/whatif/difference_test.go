package whatif

import (
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// denialsOf returns the denials of a rule of a table: of each key whether it was denied.
func denialsOf(t *testing.T, limit string, keys map[string]bool) *Denials {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {" + limit + "}}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDenials(table)
	for key, denied := range keys {
		d.Take(table.Rules()[0], key, []rule.Entry{{Key: "user", Value: key}}, !denied)
	}
	return d
}

// TestDifferences has keys that ask on one side only.
func TestDifferences(t *testing.T) {
	before := denialsOf(t, "requests: 2, per: 1m", map[string]bool{"a": true, "b": true, "c": false, "gone": true, "quiet": false})
	after := denialsOf(t, "requests: 3, per: 1m", map[string]bool{"a": true, "b": false, "c": true, "new": true})
	all := Differences(before, after)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	c := all[0]
	if c.Keys != 6 || c.KeysBefore != 3 || c.KeysAfter != 3 || c.NewlyDenied != 2 || c.Freed != 2 || c.DeniedBefore != 3 || c.DeniedAfter != 3 ||
		len(c.Examples) != 2 || c.Examples[0] != (Example{"c", 1}) || c.Examples[1] != (Example{"new", 1}) {
		t.Errorf("%+v", c)
	}
}

// The examples are those with most denied takes, five at most.
func TestExamples(t *testing.T) {
	before := denialsOf(t, "requests: 2, per: 1m", nil)
	after := denialsOf(t, "requests: 2, per: 1m", nil)
	r := after.rules[0].rule
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		for range i + 1 {
			after.Take(r, key, []rule.Entry{{Key: "user", Value: key}}, false)
		}
	}
	c := Differences(before, after)[0]
	if c.What != "same" || len(c.Examples) != 5 || c.Examples[0] != (Example{"g", 7}) || c.Examples[4] != (Example{"c", 3}) {
		t.Errorf("%+v", c)
	}
}
