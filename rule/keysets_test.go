package rule_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/rule/rulefile"
)

// A program that reads rules itself creates the KeySets that fetches their key sets.
func ExampleKeySets() {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
http:
  rate_limits:
    - actions: [{bearer_claim: {keys: "https://login.example.com/keys", audience: api, descriptor_key: user}}]
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	keys := rulefile.NewKeySets(rulefile.KeySetOptions{Report: func(address string, err error) {
		if err != nil {
			fmt.Println("tokens of", address, "are not known yet:", err)
		}
	}})
	defer keys.Close() // stops fetching in the background
	keys.Use(table)    // call it before the table is used, now and at each reload
}

// Two device cookies with one name and different secrets are refused: each would overwrite the
// other in every answer.
func TestCookiesOfOneName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 20)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const file = "domain: d\nhttp:\n  rate_limits:\n    - actions: [{device: {cookie: {secret_file: one}}}]\n    - actions: [{path: {}}, {first_of: [{device: {cookie: {ANOTHER}}}, {method: {}}]}]\n"
	for another, want := range map[string]string{
		"secret_file: one":                  "",
		"secret_file: two, name: elsewhere": "",
		"secret_file: two":                  "d.yaml:5: the cookie stint_device has its secrets in one and in two",
		"secret_file: three":                "three: cannot read it",
	} {
		_, err := rulefile.Parse(rulefile.Source{Name: "d.yaml", Data: []byte(strings.Replace(file, "ANOTHER", another, 1)), Folder: dir})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", another, err, want)
		}
	}
}
