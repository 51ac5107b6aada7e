package rule_test

import (
	"slices"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// A key is shown with the values that the rules show, and with no others: not those of other entries, and no
// hash.
func TestShown(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(`
domain: shop
descriptors:
  - key: tenant
    show: true
    descriptors:
      - key: plan
        value: gold
        descriptors:
          - key: user
            rate_limit: {per: 1s, requests: 5}
`)})
	if err != nil {
		t.Fatal(err)
	}
	r := table.Rules()[0]
	entries := func(tenant string) []rule.Entry {
		return []rule.Entry{{Key: "tenant", Value: tenant}, {Key: "plan", Value: "gold"}, {Key: "user", Value: "42:7"}}
	}
	for tenant, want := range map[string]string{"a:1": "a:1", "": "", strings.Repeat("x", 300): "", "3:ab": "3:ab"} {
		key := r.AppendKey([]byte("r"), entries(tenant))
		shown := []rule.Entry{{Key: "tenant", Value: want}, {Key: "plan", Value: "gold"}, {Key: "user"}}
		if got := r.Shown(key); !slices.Equal(got, shown) {
			t.Errorf("tenant %q: %v, want %v", tenant, got, shown)
		}
	}
	whole := r.AppendKey([]byte("r"), entries("acme"))
	for n := range whole { // no part of a key is taken for a key
		for _, e := range r.Shown(whole[:n]) {
			if e.Key == "tenant" && e.Value != "" || e.Key == "user" && e.Value != "" {
				t.Errorf("%d bytes of the key: %v", n, e)
			}
		}
	}
}
