package proof_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

var long = flag.Bool("proof.long", false, "streams of a minute, an upload of 2 GiB")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(program.Main(m))
}

// A gateway is stint-gateway, or bare Caddy, with a site at two addresses.
type gateway struct {
	*program.Gateway
	http, https string         // addresses
	root        *x509.CertPool // of its internal authority
}

// both runs a test through the gateway with limits and through bare Caddy. site is the text of a site
// block; %[1]s is the place of our directives.
func both(t *testing.T, site string, test func(t *testing.T, g *gateway)) {
	t.Helper()
	t.Run("stint", func(t *testing.T) { test(t, start(t, site, true)) })
	t.Run("bare", func(t *testing.T) { test(t, start(t, site, false)) })
}

// ample never denies. The header x-deny has a limit that denies its second request.
const ample = `
domain: proof
descriptors:
  - key: remote_address
    rate_limit: {requests: 1000000, per: 1s, algorithm: token_bucket}
  - key: deny
    rate_limit: {requests: 1, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{request_headers: {header_name: x-deny, descriptor_key: deny}}]
`

// start starts the gateway with one site at two addresses: http and https with a certificate of the
// internal authority. Without limits it is bare Caddy: our directives and our option are left out.
func start(t testing.TB, site string, limits bool) *gateway {
	t.Helper()
	s := setup{site: site, store: "memory", rules: ample}
	if limits {
		s.directives = "stint_early proof\n\tstint proof"
	}
	return s.start(t)
}

// A setup is how a gateway is started.
type setup struct {
	site       string // the text of its site block; %[1]s is the place of directives
	directives string // "": bare Caddy, which has neither store nor rules
	store      string
	rules      string // of the domain proof
}

func (s setup) start(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{Gateway: program.New(t), http: testkit.Address(t), https: testkit.Address(t)}
	option := ""
	if s.directives != "" {
		option = "stint {\n\t\trules DIR/rules.yaml\n\t\tstore " + s.store + "\n\t}"
	}
	g.Write("rules.yaml", s.rules)
	g.Write("Caddyfile", fmt.Sprintf(`{
	admin off
	persist_config off
	skip_install_trust
	storage file_system DIR/storage
	http_port %[1]s
	https_port %[2]s
	auto_https disable_redirects
	%[3]s
}

http://localhost:%[1]s, https://localhost:%[2]s {
	tls internal
	%[4]s
}
`, port(g.http), port(g.https), option, fmt.Sprintf(s.site, s.directives)))
	g.Run()
	g.ready(t)
	return g
}

// ready waits until both addresses answer, at most 20 s.
func (g *gateway) ready(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		root, err := os.ReadFile(g.rootFile())
		if err == nil {
			g.root = x509.NewCertPool()
			g.root.AppendCertsFromPEM(root)
			var c *tls.Conn
			if c, err = tls.Dial("tcp", g.https, g.tls()); err == nil {
				c.Close()
				var plain net.Conn
				if plain, err = net.Dial("tcp", g.http); err == nil {
					plain.Close()
					return
				}
			}
		}
		select {
		case <-g.Ended:
			t.Fatal("the gateway ended")
		case <-time.After(20 * time.Millisecond): // polls another process
		}
		if time.Now().After(end) {
			t.Fatalf("the gateway does not answer: %v", err)
		}
	}
}

// rootFile is the certificate of its internal authority.
func (g *gateway) rootFile() string {
	return filepath.Join(g.Dir, "storage/pki/authorities/local/root.crt")
}

// tls returns the client's side: it trusts the internal authority alone.
func (g *gateway) tls() *tls.Config { return &tls.Config{RootCAs: g.root, ServerName: "localhost"} }

// url returns the https address of a path.
func (g *gateway) url(path string) string { return "https://localhost:" + port(g.https) + path }

// client returns a client of HTTP/1.1 or 2 over TLS.
func (g *gateway) client(t testing.TB, version int) *http.Client {
	transport := &http.Transport{TLSClientConfig: g.tls(), ForceAttemptHTTP2: version == 2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 5 * time.Minute}
}

// rss returns the resident memory of the process in bytes.
func (g *gateway) rss(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Process.Pid))
	testkit.Must(t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			testkit.Must(t, err)
			return n << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}

// exchange writes raw bytes to a connection and returns everything that comes back until the other
// side closes it or says nothing for a second.
func exchange(t testing.TB, address, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	testkit.Must(t, err)
	defer c.Close()
	testkit.Must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, _ = io.WriteString(c, raw) // the server may close early
	var all bytes.Buffer
	r := bufio.NewReader(c)
	for {
		testkit.Must(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		b, err := r.ReadByte()
		if err != nil {
			return all.String()
		}
		all.WriteByte(b)
	}
}
