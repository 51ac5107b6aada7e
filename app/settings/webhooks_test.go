package settings

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/notify"
)

// Receivers stand in the config file; paths are relative to it.
func TestWebhooks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stint.yaml")
	const content = `records: records.db
webhooks:
  - name: shop
    url: https://hooks.example.com/stint
    secret_file: secret
    rules: [api/user, export/*]
    thresholds: [80%, 100]
    allow_private: [10.3.0.0/16, 127.0.0.1]
  - {name: queue, type: lines, file: events.jsonl}
  - {name: console, type: lines, file: "-"}
`
	testkit.Must(t, os.WriteFile(file, []byte(content), 0o600))
	c, err := Configure([]Given{{"config", file, "--config"}}, nil)
	testkit.Must(t, err)
	testkit.Must(t, c.Check())
	want := []notify.Receiver{
		{
			Name: "shop", URL: "https://hooks.example.com/stint", SecretFile: filepath.Join(dir, "secret"), Rules: []string{"api/user", "export/*"}, Thresholds: []int{80, 100},
			Allow: []netip.Prefix{netip.MustParsePrefix("10.3.0.0/16"), netip.MustParsePrefix("127.0.0.1/32")},
		},
		{Name: "queue", File: filepath.Join(dir, "events.jsonl")},
		{Name: "console", File: "-"},
	}
	if !reflect.DeepEqual(c.Webhooks, want) {
		t.Errorf("receivers are\n%+v, want\n%+v", c.Webhooks, want)
	}
}

// Without a place for events that wait, receivers are refused.
func TestWebhooksNeedPlace(t *testing.T) {
	for set, want := range map[string]string{
		"":                                  "there is no place",
		"state=/var/lib/stint/counts":       "",
		"records=/var/lib/stint/records.db": "",
		"store=redis://127.0.0.1:6379":      "",
		"records=redis://127.0.0.1:6379":    "records in Redis need a file",
		"node=a":                            "there is no place",
	} {
		c := Default()
		c.Webhooks = []notify.Receiver{{Name: "console", File: "-"}}
		if name, value, given := strings.Cut(set, "="); given {
			testkit.Must(t, c.apply([]Given{{name, value, "--" + name}}))
		}
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
	for _, test := range []struct{ state, records, want string }{
		{"/a/counts", "/b/records.db", "/a/counts.webhooks"}, {"", "/b/records.db", "/b/records.db.webhooks"}, {"", "", ""},
	} {
		c := Config{Records: test.records}
		if got := c.WebhooksFile(test.state); got != test.want {
			t.Errorf("the file is %q, want %q", got, test.want)
		}
	}
}
