package permission

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"

	"stint/gateway/gatewaytest"
	"stint/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, gatewaytest.Leaks()...) }

// provisioned returns a permission with its own counts and an empty storage.
func provisioned(t *testing.T, p *Permission) *Permission {
	t.Helper()
	p.counts, p.stored = newCounts(), &stored{storage: &certmagic.FileStorage{Path: t.TempDir()}}
	for _, suffix := range p.Suffixes {
		p.suffixes = append(p.suffixes, "."+suffix)
	}
	var err error
	p.total, err = p.Total.limit("x", "total", Rate{300, caddy.Duration(3 * time.Hour)})
	testkit.Must(t, err)
	p.perDomain, err = p.PerDomain.limit("x", "per_domain", Rate{50, caddy.Duration(7 * day)})
	testkit.Must(t, err)
	return p
}

// 100,000 unknown names get the set number of permissions in any period, in total and of a domain.
func TestUnknownNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provisioned(t, &Permission{Total: Rate{20, caddy.Duration(time.Hour)}, PerDomain: Rate{3, caddy.Duration(day)}})
		ask := func(format string, n int) (allowed int) {
			for i := range n {
				err := p.CertificateAllowed(t.Context(), fmt.Sprintf(format, i))
				if err == nil {
					allowed++
				} else if !errors.Is(err, caddytls.ErrPermissionDenied) {
					t.Fatal(err)
				}
			}
			return allowed
		}
		if n := ask("host%d.example.co.uk", 50_000); n != 3 {
			t.Errorf("%d permissions of one domain, want 3", n)
		}
		if n := ask("domain%d.example", 50_000); n != 17 {
			t.Errorf("%d permissions of many domains, want 17", n)
		}
		time.Sleep(time.Hour + time.Millisecond)
		if n := ask("host%d.example.co.uk", 10); n != 0 {
			t.Errorf("%d permissions of the first domain in its day", n)
		}
		if n := ask("other%d.example", 50_000); n != 20 {
			t.Errorf("%d permissions in the second hour, want 20", n)
		}
		time.Sleep(day)
		if n := ask("host%d.example.co.uk", 10); n != 3 {
			t.Errorf("%d permissions on the second day, want 3", n)
		}
	})
}

// Gateways with one Redis allow the set number together. While it is away, each counts alone.
func TestShared(t *testing.T) {
	server := testkit.StartRedis(t)
	var gateways []*Permission
	for range 2 {
		p := provisioned(t, &Permission{Total: Rate{6, caddy.Duration(time.Hour)}, PerDomain: Rate{4, caddy.Duration(day)}})
		p.shared = newShared(server.URL(), "test")
		p.shared.timeout = 20 * time.Second
		t.Cleanup(func() { testkit.Must(t, p.shared.Destruct()) })
		gateways = append(gateways, p)
	}
	ask := func(format string) (allowed [2]int) {
		for i := range 20 {
			for g, p := range gateways {
				if p.CertificateAllowed(t.Context(), fmt.Sprintf(format, i, g)) == nil {
					allowed[g]++
				}
			}
		}
		return allowed
	}
	if n := ask("host%d-%d.example.org"); n[0]+n[1] != 4 {
		t.Errorf("%v permissions of a domain, want 4 together", n)
	}
	if n := ask("domain%d-%d.example"); n[0]+n[1] != 2 {
		t.Errorf("%v more of all names, want 2 together", n)
	}
	server.Stop()
	if n := ask("other%d-%d.example"); n != [2]int{3, 3} {
		t.Errorf("%v permissions while Redis is away, want 3 each besides its own 3", n)
	}
}

// Names without an allowed suffix cost nothing, and a name cannot look like one.
func TestSuffixes(t *testing.T) {
	p := provisioned(t, &Permission{Suffixes: []string{"example.com", "xn--bcher-kva.example"}, Total: Rate{5, caddy.Duration(time.Hour)}})
	for range 10 {
		for _, name := range []string{"example.org", "badexample.com", "example.com.evil.net", "192.0.2.1", "com", ""} {
			if err := p.CertificateAllowed(t.Context(), name); !errors.Is(err, caddytls.ErrPermissionDenied) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	for _, name := range []string{"example.com", "WWW.Example.com.", "a.b.example.com", "xn--bcher-kva.example", "www.xn--bcher-kva.example"} {
		if err := p.CertificateAllowed(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	err := p.CertificateAllowed(t.Context(), "www.example.com")
	if err == nil || !strings.HasPrefix(err.Error(), "www.example.com: certificate not allowed by permission module: all domains together have reached the limit of certificates; again in ") {
		t.Error(err)
	}
}

// A name whose certificate is in the storage is allowed when the limit is used up, so a flood of
// invented names stops neither a restart nor a renewal.
func TestStored(t *testing.T) {
	p := provisioned(t, &Permission{Total: Rate{1, caddy.Duration(time.Hour)}})
	testkit.Must(t, p.CertificateAllowed(t.Context(), "invented.example"))
	for name, subject := range map[string]string{"known.example": "known.example", "any.wild.example": "*.wild.example"} {
		if err := p.CertificateAllowed(t.Context(), name); err == nil {
			t.Errorf("%s is allowed before it is stored", name)
		}
		testkit.Must(t, p.stored.storage.Store(t.Context(), certmagic.StorageKeys.SiteCert("local", subject), []byte("certificate")))
		p.stored.until = time.Time{}
		if err := p.CertificateAllowed(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if err := p.CertificateAllowed(t.Context(), "b.any.wild.example"); err == nil {
		t.Error("a wildcard covers two labels")
	}
}

const site = `
{
	GLOBAL
	auto_https disable_redirects
	on_demand_tls {
		permission stint {
			suffixes localhost.example
			total 3 1h
		}
	}
}
https://:PORT {
	tls internal {
		on_demand
	}
	respond "served"
}
`

// Handshakes with invented names make Caddy's own authority issue the set number of certificates, over
// reloads too; names that have one are served on.
func TestHandshakes(t *testing.T) {
	g := gatewaytest.New(t)
	text := strings.Replace(site, "PORT", g.Address[strings.LastIndexByte(g.Address, ':')+1:], 1)
	testkit.Must(t, g.Load(text))
	var served atomic.Int32
	shake := func(name string) error {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} //nolint:gosec // the certificate is not of interest
		c, err := dialer.DialContext(t.Context(), "tcp", g.Address)
		if err == nil {
			served.Add(1)
			_ = c.Close()
		}
		return err
	}
	for i := range 200 {
		_ = shake(fmt.Sprintf("n%d.localhost.example", i)) // most fail
		_ = shake(fmt.Sprintf("n%d.elsewhere.example", i))
		if i%40 == 39 {
			testkit.Must(t, g.Load(text))
		}
	}
	if n := served.Load(); n != 3 {
		t.Errorf("%d names were served, want 3", n)
	}
	certificates := 0
	testkit.Must(t, filepath.WalkDir(filepath.Join(g.Dir, "storage", "certificates"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".crt") {
			certificates++
		}
		return err
	}))
	if certificates != 3 {
		t.Errorf("%d certificates issued, want 3", certificates)
	}
	if err := shake("n0.localhost.example"); err != nil {
		t.Errorf("a name with a certificate: %v", err)
	}
}

// The store of the app has the counts if it is a Redis.
func TestSharedByApp(t *testing.T) {
	server := testkit.StartRedis(t)
	g := gatewaytest.New(t)
	g.Write("rules.yaml", "domain: api\ndescriptors: [{key: user, rate_limit: {requests: 1, per: 1h}}]\n")
	text := strings.Replace(site, "PORT", g.Address[strings.LastIndexByte(g.Address, ':')+1:], 1)
	text = strings.Replace(text, "GLOBAL", "GLOBAL\n\tstint {\n\t\trules DIR/rules.yaml\n\t\tstore "+server.URL()+"\n\t}", 1)
	testkit.Must(t, g.Load(text))
	names := 0
	testkit.Until(t, "Redis has the counts", func() bool { // on a busy machine the first may be counted here alone
		names++
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{ServerName: fmt.Sprintf("n%d.localhost.example", names), InsecureSkipVerify: true}} //nolint:gosec // the certificate is not of interest
		if c, err := dialer.DialContext(t.Context(), "tcp", g.Address); err == nil {
			_ = c.Close()
		}
		return strings.Contains(server.Do("KEYS", "*"), "certificates:total")
	})
}

// Each fault is one line with its place and a hint.
func TestFaults(t *testing.T) {
	g := gatewaytest.New(t)
	for block, want := range map[string]string{
		"{\ncolour red\n}":       "permission stint has no option colour; hint: it has suffixes, total, per_domain",
		"x":                      "permission stint has no argument x; hint: write suffixes x in its block",
		"{\nsuffixes\n}":         "suffixes without a domain; hint: write suffixes example.com",
		"{\ntotal many 1h\n}":    "total needs a number from 1 and a period from 1s; hint: write total 100 1h",
		"{\nper_domain 5\n}":     "per_domain needs a number from 1 and a period from 1s; hint: write per_domain 100 1h",
		"{\ntotal 5 10000d\n}":   "total: ",
		"{\nsuffixes \"a b\"\n}": `the suffix "a b" is no domain; hint: write it such as example.com`,
	} {
		err := g.Check("{\nGLOBAL\non_demand_tls {\npermission stint " + block + "\n}\n}\nhttps://:8443 {\ntls internal {\non_demand\n}\n}")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", block, err, want)
		}
	}
}

// The JSON form has the words of the Caddyfile.
func TestAdapt(t *testing.T) {
	g := gatewaytest.New(t)
	adapted, err := g.Adapt("{\non_demand_tls {\npermission stint {\nsuffixes example.com example.org\ntotal 100 1h\nper_domain 5 1d\n}\n}\n}\n")
	testkit.Must(t, err)
	var got struct {
		Apps struct {
			TLS struct {
				Automation struct {
					OnDemand struct{ Permission json.RawMessage } `json:"on_demand"`
				}
			}
		}
	}
	testkit.Must(t, json.Unmarshal(adapted, &got))
	want := `{"module":"stint","per_domain":{"certificates":5,"per":86400000000000},"place":"Caddyfile:3","suffixes":["example.com","example.org"],"total":{"certificates":100,"per":3600000000000}}`
	if is := string(got.Apps.TLS.Automation.OnDemand.Permission); is != want {
		t.Errorf("%s\nwant %s", is, want)
	}
}
