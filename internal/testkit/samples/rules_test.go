package samples

import (
	"bytes"
	"testing"

	"stint/rule/catalog"
)

// A catalog accepts all rules, each rule matches the request made for it, and the same seed
// generates the same rules.
func TestRules(t *testing.T) {
	const n = 30_000
	c, again := catalog.New(catalog.Options{Domain: "api"}), catalog.New(catalog.Options{Domain: "api"})
	for _, c := range []*catalog.Catalog{c, again} {
		if err := c.Replace(Rules(n, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if c.Len() != n || c.Hash() != again.Hash() {
		t.Errorf("%d rules, hashes %s and %s", c.Len(), c.Hash(), again.Hash())
	}
	if err := again.Replace(Rules(n, 2)); err != nil || c.Hash() == again.Hash() {
		t.Errorf("another seed: error %v, hashes %s and %s", err, c.Hash(), again.Hash())
	}
	var m catalog.Matched
	for r, err := range Rules(n, 1) {
		if err != nil {
			t.Fatal(err)
		}
		m.Reset()
		c.Match(&m, "api", Asking(&r))
		found := false
		for i := range m.Len() {
			one := m.Rule(i)
			found = found || one.Name == r.ID
		}
		if !found {
			t.Fatalf("rule %+v does not apply to %v", r, Asking(&r))
		}
	}
}

func TestWriteCSV(t *testing.T) {
	var out bytes.Buffer
	if err := WriteCSV(&out, 4, 1); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 4 {
		t.Errorf("error %v:\n%s", err, &out)
	}
}
