// Package gatewaytest runs Caddy with a Caddyfile inside a test.
package gatewaytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the modules that Caddyfiles name

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

// Gateway is Caddy in this process. There is one at a time.
type Gateway struct {
	// Address is a free address of this machine, which ADDRESS in a Caddyfile stands for.
	Address string

	// Dir is a folder of the test. DIR in a Caddyfile stands for it.
	Dir string

	t testing.TB
}

// New returns a gateway that does not run yet.
func New(t testing.TB) *Gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // Caddy may still write into its storage
		testkit.Until(t, "the folder of the test is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return &Gateway{Address: testkit.Address(t), Dir: dir, t: t}
}

// Start runs Caddy with a Caddyfile until the test ends. GLOBAL in it stands for global options that
// tests need: no admin endpoint, and a log of JSON lines in a file.
func Start(t testing.TB, text string) *Gateway {
	t.Helper()
	g := New(t)
	if err := g.Load(text); err != nil {
		t.Fatal(err)
	}
	return g
}

// Load runs Caddy with a Caddyfile, or changes the one that runs, until the test ends.
func (g *Gateway) Load(text string) error {
	g.t.Helper()
	adapted, err := g.Adapt(text)
	if err != nil {
		return err
	}
	return g.LoadJSON(adapted)
}

// LoadJSON is Load with the JSON form of a Caddyfile.
func (g *Gateway) LoadJSON(adapted []byte) error {
	g.t.Helper()
	if err := caddy.Load(adapted, true); err != nil {
		return err
	}
	g.t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			g.t.Errorf("stopping Caddy: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return nil
}

// Adapt returns the JSON form of a Caddyfile.
func (g *Gateway) Adapt(text string) ([]byte, error) {
	global := fmt.Sprintf("admin off\n\tpersist_config off\n\tgrace_period 5s\n\tskip_install_trust\n\tstorage file_system %s\n\tlog {\n\t\toutput file %s\n\t\tformat json\n\t}",
		filepath.Join(g.Dir, "storage"), g.logFile())
	text = strings.NewReplacer("GLOBAL", global, "ADDRESS", g.Address, "DIR", g.Dir).Replace(text)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(strings.TrimSpace(text)+"\n"), map[string]any{"filename": "Caddyfile"})
	return adapted, err
}

func (g *Gateway) logFile() string { return filepath.Join(g.Dir, "caddy.log") }

// Log returns what Caddy has logged.
func (g *Gateway) Log() string {
	data, err := os.ReadFile(g.logFile())
	if err != nil && !os.IsNotExist(err) {
		g.t.Error(err)
	}
	return string(data)
}

// Write writes a file in the folder of the test, all at once.
func (g *Gateway) Write(name, text string) string {
	g.t.Helper()
	path := filepath.Join(g.Dir, name)
	program.Write(g.t, path, text)
	return path
}

// Reply is the answer to a request.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Get sends a request to a path of the gateway. fields are pairs of header names and values.
func (g *Gateway) Get(path string, fields ...string) Reply {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.Address+path, http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header[fields[i]] = append(r.Header[fields[i]], fields[i+1]) // with this spelling
	}
	return g.Do(http.DefaultClient, r)
}

// Do sends a request without a body. It tries again if the connection breaks, because Caddy may reset
// a connection that it has not accepted before a reload.
func (g *Gateway) Do(client *http.Client, r *http.Request) Reply {
	g.t.Helper()
	var failure error
	for range 5 {
		resp, err := client.Do(r)
		if err == nil {
			return ReplyOf(g.t, resp)
		}
		failure = err
	}
	g.t.Fatal(failure)
	return Reply{}
}

// ReplyOf reads the answer to a request.
func ReplyOf(t testing.TB, resp *http.Response) Reply {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Reply{resp.StatusCode, resp.Header, string(body)}
}

// Check loads a Caddyfile as `validate` does, and stops before anything runs.
func (g *Gateway) Check(text string) error {
	g.t.Helper()
	adapted, err := g.Adapt(text)
	if err != nil {
		return err
	}
	var cfg caddy.Config
	if err := caddy.StrictUnmarshalJSON(adapted, &cfg); err != nil {
		return err
	}
	return caddy.Validate(&cfg)
}

// Indent returns the JSON form of a Caddyfile for people.
func Indent(adapted []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, adapted, "", "\t"); err != nil {
		return err.Error()
	}
	return b.String() + "\n"
}
