package limits_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/gateway/gatewaytest/binary"
	"stint/internal/testkit"
	"stint/internal/text"
)

var long = flag.Bool("limits.long", false, "1,000 reloads under load")

// program is the path of stint-gateway, built once for all tests.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(binary.Main(m, &program))
}

// A gateway is a process of stint-gateway with a folder of its own.
type gateway struct {
	t       testing.TB
	dir     string
	address string // of the site
	admin   string // of Caddy's admin API
	log     *text.OutputBuffer
	process *os.Process
	ended   chan struct{} // closed when the process has ended
}

// newGateway returns a gateway that does not run, with files in its folder.
func newGateway(t testing.TB, files map[string]string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), address: testkit.Address(t), admin: testkit.Address(t), log: new(text.OutputBuffer)}
	for name, content := range files {
		g.write(name, content)
	}
	return g
}

// start returns a running gateway with a Caddyfile, see fill.
func start(t testing.TB, caddyfile string, files map[string]string) *gateway {
	t.Helper()
	g := newGateway(t, files)
	g.write("Caddyfile", caddyfile)
	g.run()
	return g
}

// write writes a file, all at once. In a Caddyfile GLOBAL, ADDRESS and DIR stand for what this test
// needs.
func (g *gateway) write(name, content string) {
	g.t.Helper()
	global := fmt.Sprintf("admin %s\n\tpersist_config off\n\tskip_install_trust\n\tauto_https off\n\tgrace_period 5s\n\tstorage file_system %s/storage", g.admin, g.dir)
	content = strings.NewReplacer("GLOBAL", global, "ADDRESS", g.address, "DIR", g.dir).Replace(content)
	path := filepath.Join(g.dir, name)
	testkit.Must(g.t, os.WriteFile(path+".new", []byte(content), 0o600))
	testkit.Must(g.t, os.Rename(path+".new", path))
}

// command returns a command of the binary in the folder of the gateway.
func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.t.Context(), program, args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "HOME="+g.dir, "XDG_DATA_HOME="+g.dir, "XDG_CONFIG_HOME="+g.dir)
	return cmd
}

// run starts the process, and waits until it answers.
func (g *gateway) run() {
	g.t.Helper()
	cmd := g.command("run", "--config", "Caddyfile")
	cmd.Cancel = func() error { return nil } // the cleanup below ends it
	g.log = new(text.OutputBuffer)
	cmd.Stdout, cmd.Stderr = g.log, g.log
	testkit.Must(g.t, cmd.Start())
	ended := make(chan struct{})
	g.process, g.ended = cmd.Process, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	g.t.Cleanup(func() {
		g.stop()
		if g.t.Failed() {
			g.t.Logf("the log:\n%s", g.log)
		}
	})
	g.await("serving initial configuration")
}

// stop ends the process, after 20 s by force.
func (g *gateway) stop() {
	_ = g.process.Signal(syscall.SIGTERM) // it may have ended
	stuck := time.AfterFunc(20*time.Second, func() { _ = g.process.Kill() })
	<-g.ended
	stuck.Stop()
}

// await waits at most 20 s for a text in the log.
func (g *gateway) await(want string) {
	g.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		log, more := g.log.Follow()
		if strings.Contains(log, want) {
			return
		}
		select {
		case <-more:
		case <-g.ended:
			g.t.Fatalf("the gateway ended without %q:\n%s", want, g.log)
		case <-deadline:
			g.t.Fatalf("no %q in the log:\n%s", want, g.log)
		}
	}
}

// reload loads the Caddyfile into the running process.
func (g *gateway) reload() (output string, err error) {
	cmd := g.command("reload", "--config", "Caddyfile", "--address", g.admin)
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
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.address+path, http.NoBody)
	testkit.Must(g.t, err)
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
	g.t.Helper()
	return g.send(client, r)
}

// doFrom sends a request from an address of this machine.
func (g *gateway) doFrom(from string, r *http.Request) reply {
	g.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return g.send(&http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: client.Timeout}, r)
}

func (g *gateway) send(c *http.Client, r *http.Request) reply {
	g.t.Helper()
	resp, err := c.Do(r)
	testkit.Must(g.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(g.t, err)
	return reply{resp.StatusCode, resp.Header, string(body)}
}

// ask calls Caddy's admin API.
func (g *gateway) ask(method, path, body string, fields ...string) reply {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.admin+path, strings.NewReader(body))
	testkit.Must(g.t, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return g.do(r)
}

// used returns how many units of a rule the entries of a key have used.
func (g *gateway) used(rule, entries string) (n int64) {
	g.t.Helper()
	a := g.ask(http.MethodPost, "/stint/v1/inspect", `{"domain": "api", "descriptors": [{"entries": [`+entries+`]}]}`)
	_, rest, found := strings.Cut(a.body, `"rule":"`+rule+`"`)
	_, rest, _ = strings.Cut(rest, `"used":`)
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil || !found {
		g.t.Fatalf("no use of %s in %s", rule, a.body)
	}
	return n
}

// read returns the content of a file in the folder of the gateway.
func (g *gateway) read(name string) string {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, name))
	testkit.Must(g.t, err)
	return string(data)
}
