package httplimit_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
)

// deviceRules allow five requests per hour for each device, and three for all other clients of an
// address.
const deviceRules = `
domain: api
descriptors:
  - key: device
    rate_limit: {requests: 5, per: 1h}
  - key: remote_address
    rate_limit: {requests: 3, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [{device: {cookie: {secret_file: secrets, secure: false}}}, {remote_address: {}}]}]
    - actions: [{remote_address: {descriptor_key: all}}, {device: {cookie: {secret_file: secrets, secure: false}, descriptor_key: of}}]
`

// loadFiles writes files to a folder and loads the rules in it.
func loadFiles(t *testing.T, files map[string]string) *rule.Table {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table, err := rulefile.Load(filepath.Join(dir, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// browser is a client that keeps cookies and counts allowed requests.
type browser struct {
	t      *testing.T
	url    string
	client *http.Client
	got    []*http.Cookie // cookies of the last answer
}

func newBrowser(t *testing.T, server *httptest.Server) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, url: server.URL, client: &http.Client{Jar: jar, Transport: server.Client().Transport}}
}

// pass sends n requests and returns how many passed.
func (b *browser) pass(n int, cookies ...string) (passed int) {
	b.t.Helper()
	for range n {
		r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url, http.NoBody)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, c := range cookies {
			r.Header.Add("Cookie", c)
		}
		answer, err := b.client.Do(r)
		if err != nil {
			b.t.Fatal(err)
		}
		answer.Body.Close()
		if b.got = answer.Cookies(); answer.StatusCode == http.StatusOK {
			passed++
		}
	}
	return passed
}

// cookie returns the value of the device cookie.
func (b *browser) cookie() string {
	b.t.Helper()
	at, err := url.Parse(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(at) {
		if c.Name == "stint_device" {
			return c.Value
		}
	}
	b.t.Fatal("no cookie of a device")
	return ""
}

// Each device of an address has its own limit from its second request on; a client that discards
// the cookie stays in the limit of the address. Replacing a secret does not change the identity of
// a device.
func TestDevices(t *testing.T) {
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	files := map[string]string{"rules.yaml": deviceRules, "secrets": first}
	var time clock
	l := limiter.New(time.store(), loadFiles(t, files), limiter.Options{})
	server := httptest.NewServer(httplimit.New(l, "api", httplimit.Options{})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "theme", Value: "dark"})
		})))
	defer server.Close()
	ann, bob, nobody := newBrowser(t, server), newBrowser(t, server), newBrowser(t, server)
	nobody.client.Jar = nil

	if got := ann.pass(1); got != 1 || len(ann.got) != 2 {
		t.Errorf("the first request: %d passed, cookies %v", got, ann.got)
	}
	if got := bob.pass(1); got != 1 {
		t.Error("another's first request does not pass")
	}
	if got := ann.pass(7); got != 5 {
		t.Errorf("%d of a device passed, want 5", got)
	}
	if got := nobody.pass(7); got != 1 { // one of three is left for the address
		t.Errorf("%d without a cookie passed, want 1", got)
	}
	if len(nobody.got) != 0 {
		t.Errorf("cookies %v with a refusal: new devices for nothing", nobody.got)
	}
	value := bob.cookie()
	for _, forged := range []string{value[:22], value[1:] + "A", strings.Repeat("x", 8<<10)} {
		if got := nobody.pass(2, "stint_device="+forged); got != 0 {
			t.Errorf("%d with the cookie %.40q passed, want 0", got, forged)
		}
	}
	if got := newBrowser(t, server).pass(3); got != 0 {
		t.Errorf("%d of a device that no request of the strangers is left for passed", got)
	}

	files["secrets"] = "# new since today\n" + second + "\n" + first + "\n"
	l.Swap(loadFiles(t, files))
	if got := bob.pass(1); got != 1 || len(bob.got) != 2 {
		t.Errorf("with a new secret: %d passed, cookies %v", got, bob.got)
	}
	files["secrets"] = second
	l.Swap(loadFiles(t, files))
	if got := bob.pass(7); got != 4 {
		t.Errorf("%d passed after the old secret went, want the 4 that were left", got)
	}
	if got := ann.pass(1); got != 0 {
		t.Error("a device whose secret is gone passes, where the strangers have no request left")
	}
}

// Only a trusted proxy can set the device ID in a header.
func TestDeviceOfProxy(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: device
    rate_limit: {requests: 5, per: 1h}
  - key: remote_address
    rate_limit: {requests: 1, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [{device: {header: x-device-id}}, {remote_address: {}}]}]
`
	options := httplimit.Options{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	var time clock
	h := byRules(t, time.store(), file, options)
	for _, tt := range []struct {
		from   string
		header []string
		want   int // how many of seven pass
	}{
		{"10.0.0.1:1", []string{"X-Device-Id", "a", "X-Forwarded-For", "192.0.2.1"}, 5},
		{"10.0.0.2:1", []string{"X-Device-Id", "a"}, 0},
		{"[::ffff:10.0.0.2]:1", []string{"X-Device-Id", "b"}, 5},
		{"10.0.0.1:1", []string{"X-Device-Id", "c", "X-Device-Id", "d", "X-Forwarded-For", "192.0.2.1"}, 1},
		{"10.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.2"}, 1},
		{"192.0.2.3:1", []string{"X-Device-Id", "e"}, 1},
		{"192.0.2.3:1", []string{"X-Device-Id", "f"}, 0},
	} {
		if got := passing(7, h, tt.from, tt.header...); got != tt.want {
			t.Errorf("%s with %q: %d passed, want %d", tt.from, tt.header, got, tt.want)
		}
	}
}
