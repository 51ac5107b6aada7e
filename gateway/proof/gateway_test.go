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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/gateway/gatewaytest/binary"
	"stint/internal/testkit"
	"stint/internal/text"
)

var long = flag.Bool("proof.long", false, "streams of a minute, an upload of 2 GiB")

// program is the path of stint-gateway, built once for all tests.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(binary.Main(m, &program))
}

// A gateway is a running process of stint-gateway.
type gateway struct {
	http, https string // addresses
	process     *os.Process
	ended       chan struct{} // closed when the process ended
	log         *text.OutputBuffer
	root        *x509.CertPool // of its internal authority
	rootFile    string
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
	dir := t.TempDir()
	g := &gateway{http: testkit.Address(t), https: testkit.Address(t), log: new(text.OutputBuffer)}
	option := ""
	if s.directives != "" {
		option = fmt.Sprintf("stint {\n\t\trules %s/rules.yaml\n\t\tstore %s\n\t}", dir, s.store)
	}
	httpPort, httpsPort := port(g.http), port(g.https)
	file := fmt.Sprintf(`{
	admin off
	persist_config off
	skip_install_trust
	storage file_system %[1]s/storage
	http_port %[2]s
	https_port %[3]s
	auto_https disable_redirects
	%[4]s
}

http://localhost:%[2]s, https://localhost:%[3]s {
	tls internal
	%[5]s
}
`, dir, httpPort, httpsPort, option, fmt.Sprintf(s.site, s.directives))
	path := filepath.Join(dir, "Caddyfile")
	testkit.Must(t, os.WriteFile(path, []byte(file), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(s.rules), 0o600))
	cmd := exec.Command(program, "run", "--config", path)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	cmd.Stdout, cmd.Stderr = g.log, g.log
	testkit.Must(t, cmd.Start())
	g.process = cmd.Process
	g.ended = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(func() {
		stop(cmd.Process, g.ended)
		if t.Failed() {
			t.Logf("%s\n%s", file, g.log)
		}
	})
	g.rootFile = filepath.Join(dir, "storage/pki/authorities/local/root.crt")
	g.ready(t)
	return g
}

// stop ends a process, after 20 s by force.
func stop(p *os.Process, ended <-chan struct{}) {
	_ = p.Signal(syscall.SIGTERM)
	stuck := time.AfterFunc(20*time.Second, func() { _ = p.Kill() })
	<-ended
	stuck.Stop()
}

// ready waits until both addresses answer, at most 20 s.
func (g *gateway) ready(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		root, err := os.ReadFile(g.rootFile)
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
		case <-g.ended:
			t.Fatal("the gateway ended")
		case <-time.After(20 * time.Millisecond): // polls another process
		}
		if time.Now().After(end) {
			t.Fatalf("the gateway does not answer: %v", err)
		}
	}
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
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.process.Pid))
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
