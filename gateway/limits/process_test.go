package limits_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

var long = flag.Bool("limits.long", false, "1,000 reloads under load")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(program.Main(m))
}

// A gateway is stint-gateway with an address for its site, and one for Caddy's admin API.
type gateway struct {
	*program.Gateway
	address, admin string
}

// newGateway returns a gateway that does not run, with files in its folder.
func newGateway(t testing.TB, files map[string]string) *gateway {
	t.Helper()
	g := &gateway{address: testkit.Address(t), admin: testkit.Address(t)}
	g.Gateway = program.New(t, "ADDRESS", g.address,
		"GLOBAL", fmt.Sprintf("admin %s\n\tpersist_config off\n\tskip_install_trust\n\tauto_https off\n\tgrace_period 5s\n\tstorage file_system DIR/storage", g.admin))
	for name, content := range files {
		g.Write(name, content)
	}
	return g
}

// start returns a running gateway with a Caddyfile. GLOBAL, ADDRESS and DIR in it stand for what this test
// needs.
func start(t testing.TB, caddyfile string, files map[string]string) *gateway {
	t.Helper()
	g := newGateway(t, files)
	g.Write("Caddyfile", caddyfile)
	g.Run()
	return g
}

// reload loads the Caddyfile into the running process.
func (g *gateway) reload() (output string, err error) {
	cmd := g.Command("reload", "--config", "Caddyfile", "--address", g.admin)
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Cancel() })
	defer stuck.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	body   string
}

// get sends a request to a path of the site. fields are pairs of header names and values; the name :user
// is for a name and a password of basic authentication, joined by a colon.
func (g *gateway) get(path string, fields ...string) reply {
	g.T.Helper()
	r, err := http.NewRequestWithContext(g.T.Context(), http.MethodGet, "http://"+g.address+path, http.NoBody)
	testkit.Must(g.T, err)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == ":user" {
			name, password, _ := strings.Cut(fields[i+1], ":")
			r.SetBasicAuth(name, password)
			continue
		}
		r.Header.Add(fields[i], fields[i+1])
	}
	return g.do(r)
}

// client keeps no connection open.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	Timeout:       20 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (g *gateway) do(r *http.Request) reply {
	g.T.Helper()
	return g.send(client, r)
}

// doFrom sends a request from an address of this machine.
func (g *gateway) doFrom(from string, r *http.Request) reply {
	g.T.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return g.send(&http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: client.Timeout}, r)
}

func (g *gateway) send(c *http.Client, r *http.Request) reply {
	g.T.Helper()
	resp, err := c.Do(r)
	testkit.Must(g.T, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(g.T, err)
	return reply{resp.StatusCode, resp.Header, string(body)}
}

// ask calls Caddy's admin API.
func (g *gateway) ask(method, path, body string, fields ...string) reply {
	g.T.Helper()
	r, err := http.NewRequestWithContext(g.T.Context(), method, "http://"+g.admin+path, strings.NewReader(body))
	testkit.Must(g.T, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return g.do(r)
}

// used returns how many units of a rule the entries of a key have used.
func (g *gateway) used(rule, entries string) (n int64) {
	g.T.Helper()
	a := g.ask(http.MethodPost, "/stint/v1/inspect", `{"domain": "api", "descriptors": [{"entries": [`+entries+`]}]}`)
	_, rest, found := strings.Cut(a.body, `"rule":"`+rule+`"`)
	_, rest, _ = strings.Cut(rest, `"used":`)
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil || !found {
		g.T.Fatalf("no use of %s in %s", rule, a.body)
	}
	return n
}
