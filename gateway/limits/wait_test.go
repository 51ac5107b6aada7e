package limits_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// waitRules let requests of one client wait, for 2 s each.
const waitRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: slow, requests: 1, per: 2s, algorithm: token_bucket, burst: 1, excess: {mode: wait, max_wait: 1m, places: 10}}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

const waitSite = `
{
	GLOBAL
	metrics
	stint {
		rules DIR/rules.yaml
	}
}
SCHEME://ADDRESS {
	TLS
	stint_early api
	header X-Load 1
	respond ok
}
`

// startWaiting returns a gateway whose limit is used up, and the dialer of its site.
func startWaiting(t *testing.T, scheme, rules string) (g *gateway, dial func(request string) net.Conn) {
	t.Helper()
	cert, key := testkit.NewAuthority(t).Sign(t, time.Hour, "127.0.0.1")
	words := map[string]string{"http": "", "https": "tls DIR/cert DIR/key"}
	g = start(t, strings.NewReplacer("SCHEME", scheme, "TLS", words[scheme]).Replace(waitSite),
		map[string]string{"rules.yaml": rules, "cert": string(cert), "key": string(key)})
	dial = func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", g.address)
		testkit.Must(t, err)
		if scheme == "https" {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // of this machine
		}
		t.Cleanup(func() { conn.Close() })
		testkit.Must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = conn.Write([]byte(strings.Replace(request, "ADDRESS", g.address, 1)))
		testkit.Must(t, err)
		return conn
	}
	if status, _ := answerOn(t, dial(waitGet)); status != http.StatusOK {
		t.Fatalf("the first request: %d", status)
	}
	return g, dial
}

const (
	waitGet  = "GET / HTTP/1.1\r\nHost: ADDRESS\r\n\r\n"
	waitPost = "POST / HTTP/1.1\r\nHost: ADDRESS\r\nContent-Length: 100\r\n\r\nabc"
)

// answerOn reads the answer on a connection.
func answerOn(t *testing.T, conn net.Conn) (status int, header http.Header) {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(t, err)
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}

// waiting returns how many requests wait, by the metrics.
func (g *gateway) waiting() (n int) {
	g.T.Helper()
	_, rest, found := strings.Cut(g.ask(http.MethodGet, "/metrics", "").body, `stint_excess_waiting{domain="api",rule="slow"} `)
	if _, err := fmt.Sscan(rest, &n); found && err != nil {
		g.T.Fatal(err)
	}
	return n
}

// A client that disconnects frees its place within 100 ms, also if its body was not read.
func TestWaitHangUp(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for name, request := range map[string]string{"get": waitGet, "unread body": waitPost} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				g, dial := startWaiting(t, scheme, strings.Replace(waitRules, "per: 2s", "per: 30s", 1))
				const most = 100 * time.Millisecond
				least := time.Hour
				for try := 0; least > most && try < 5; try++ { // a busy machine may be late
					conn := dial(request)
					testkit.Until(t, "the request waits", func() bool { return g.waiting() == 1 })
					began := time.Now()
					conn.Close()
					testkit.Until(t, "its place is free", func() bool { return g.waiting() == 0 })
					least = min(least, time.Since(began))
				}
				if least > most {
					t.Errorf("a client that disconnected had its place for %v more, want at most %v", least, most)
				}
			})
		}
	}
}

// Who waits keeps its place over a reload, and gets 503 when the process ends.
func TestWaitReloaded(t *testing.T) {
	g, dial := startWaiting(t, "http", waitRules)
	conn := dial(waitGet)
	testkit.Until(t, "the request waits", func() bool { return g.waiting() == 1 })
	g.load(strings.Replace(g.Read("Caddyfile"), "X-Load 1", "X-Load 2", 1))
	if status, header := answerOn(t, conn); status != http.StatusOK || header.Get("X-Load") != "1" {
		t.Errorf("over a reload: %d %v", status, header)
	}
	conns := []net.Conn{dial(waitGet), dial(waitGet), dial(waitPost)}
	testkit.Until(t, "requests wait", func() bool { return g.waiting() == len(conns) })
	began := time.Now()
	testkit.Must(t, g.Process.Signal(syscall.SIGTERM))
	for i, conn := range conns {
		status, header := answerOn(t, conn)
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("request %d at the end of the process: %d %v", i, status, header)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("they waited for %v more", took)
	}
}
