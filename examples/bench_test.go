package examples

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit/programs"
)

// silent has for each proxy the text to replace in its file so that it does not ask Stint.
var silent = map[string][2]string{
	"nginx":   {"auth_request /_stint;", "auth_request off;"},
	"caddy":   {"reverse_proxy 127.0.0.1:8080 {", "reverse_proxy /never 127.0.0.1:8080 {"},
	"haproxy": {`http-request lua.stint "/v1/auth?domain=web&wait=60ms"`, "http-request set-var(txn.stint) str(passes)"},
	"traefik": {"middlewares: [strip, ask]", "middlewares: [strip]"},

	"envoy":         {"- name: envoy.filters.http.ext_authz", "- disabled: true\n                    name: envoy.filters.http.ext_authz"},
	"envoy by gRPC": {"- name: envoy.filters.http.ratelimit", "- disabled: true\n                    name: envoy.filters.http.ratelimit"},
}

const benchRules = `
domain: bench
descriptors:
  - key: remote_address
    rate_limit: {requests: 1000000, per: 1s, algorithm: token_bucket}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

// BenchmarkAsk compares the requests per second of a proxy with and without asking Stint. It
// alternates between both, because the client, the proxies, the backend and Stint share the
// machine.
func BenchmarkAsk(b *testing.B) {
	rules := filepath.Join(b.TempDir(), "bench.yaml")
	if err := os.WriteFile(rules, []byte(benchRules), 0o600); err != nil {
		b.Fatal(err)
	}
	stint := programs.Stint(b, "--rules", rules, "--trusted-proxies", "127.0.0.1")
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok") //nolint:errcheck // the client notices an error
	}))
	defer backend.Close()
	for _, a := range askers {
		if silent[a.name] == [2]string{} {
			continue
		}
		b.Run(a.name, func(b *testing.B) {
			behind := backend.Listener.Addr().String()
			silent := newClients(b, a.run(b, "open", stint, behind, silent[a.name]))
			domain := [2]string{"domain=web", "domain=bench"}
			if a.rls {
				domain = [2]string{"domain: web", "domain: bench"}
			}
			asking := newClients(b, a.run(b, "open", stint, behind, domain))
			var without, with time.Duration
			for b.Loop() {
				without += silent.send(b)
				with += asking.send(b)
			}
			sent := float64(b.N * connections * each)
			b.ReportMetric(sent/without.Seconds(), "silent/s")
			b.ReportMetric(sent/with.Seconds(), "asking/s")
			b.ReportMetric(without.Seconds()/with.Seconds(), "ratio")
		})
	}
}

// clients send requests over their connections at the same time.
type clients []client

const connections, each = 8, 50

func newClients(b *testing.B, address string) clients {
	c := make(clients, connections)
	for i := range c {
		c[i].address = address
		b.Cleanup(c[i].close)
	}
	return c
}

// send returns the time that the requests took.
func (c clients) send(b *testing.B) time.Duration {
	var group sync.WaitGroup
	began := time.Now()
	for i := range c {
		group.Go(func() {
			for range each {
				if err := c[i].insist(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// client is one connection to a proxy.
type client struct {
	address string
	conn    net.Conn // nil: none so far
	answers *bufio.Reader
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// insist sends a request, and sends it again over a new connection after an error: a proxy closes a
// connection after about a thousand requests.
func (c *client) insist() error {
	if c.ask() == nil {
		return nil
	}
	c.close()
	return c.ask()
}

// ask sends a request and reads the answer.
func (c *client) ask() error {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return err
		}
		c.conn, c.answers = conn, bufio.NewReader(conn)
	}
	if _, err := io.WriteString(c.conn, "GET /orders/7?full=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"); err != nil {
		return err
	}
	length := 0
	for n := 0; ; n++ {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n == 0 && !strings.Contains(string(line), " 200 ") {
			return fmt.Errorf("answer %q", line)
		}
		if len(line) <= 2 {
			break
		}
		if name, value, _ := strings.Cut(string(line), ":"); strings.EqualFold(name, "Content-Length") {
			if _, err := fmt.Sscan(value, &length); err != nil {
				return err
			}
		}
	}
	_, err := c.answers.Discard(length)
	return err
}
