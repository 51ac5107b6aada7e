package rulefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/rule/rulefile"
)

// Keys that verify nothing are refused, and no message shows the password of their address.
func TestBadKeys(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "set.json"), []byte("no keys"), 0o600); err != nil {
		t.Fatal(err)
	}
	for claim, want := range map[string]string{
		`{keys: "http://login.example.com/k"}`:                  "keys: http://login.example.com/k: the keys would be sent without TLS",
		`{keys: "https://ann:pw@login.example.com/k"}`:          "keys: https://login.example.com/k: it contains a user or a password",
		`{keys: "ftp://login.example.com/k", allow_http: true}`: "the keys would be sent without TLS",
		`{keys: set.json}`:   "keys: set.json: no public key",
		`{keys: other.json}`: "cannot read it",
		`{keys: "https://"}`: "it has no host",
		`{keys: "https://login.example.com/%zz", issuer: i}`: "it is not a valid URL",
	} {
		text := "domain: api\nhttp: {rate_limits: [{actions: [{bearer_claim: " + claim + "}]}]}\n"
		_, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(text), Folder: dir})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v, want %s", claim, err, want)
		}
	}
}
