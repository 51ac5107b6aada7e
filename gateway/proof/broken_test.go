package proof_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"stint/internal/testkit"
)

// What a client sees of an upstream that is down, that breaks off before its answer, or in the middle
// of its body, is the same with limits and without.
func TestBrokenUpstream(t *testing.T) {
	t.Parallel()
	broken := broken(t)
	down := testkit.Address(t)
	site := fmt.Sprintf("%%s\n\treverse_proxy /down %s\n\treverse_proxy %s {\n\t\ttransport http {\n\t\t\tresponse_header_timeout 1s\n\t\t}\n\t}", down, broken)
	seen := map[string]string{}
	both(t, site, func(t *testing.T, g *gateway) {
		for _, version := range []int{1, 2} {
			for _, path := range []string{"/down", "/close", "/reset", "/half", "/half-chunked", "/silent"} {
				answer, err := g.client(t, version).Get(g.url(path))
				got := fmt.Sprint("error ", err != nil)
				if err == nil {
					body, err := io.ReadAll(answer.Body)
					answer.Body.Close()
					got = fmt.Sprintf("%d, %d bytes, error %v", answer.StatusCode, len(body), err != nil)
				}
				name := fmt.Sprint(version, path)
				if before, ok := seen[name]; ok && before != got {
					t.Errorf("HTTP/%d %s: %s, with limits %s", version, path, got, before)
				}
				seen[name] = got
			}
		}
	})
	for name, want := range map[string]string{
		"1/down": "502, 0 bytes, error false", "2/close": "502, 0 bytes, error false",
		"1/half": "200, 10 bytes, error true", "2/half-chunked": "200, 10 bytes, error true", "2/silent": "504, 0 bytes, error false",
	} {
		if seen[name] != want {
			t.Errorf("%s: %s, want %s", name, seen[name], want)
		}
	}
}

// broken starts an upstream that breaks its connections as the path says.
func broken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go breakOff(c.(*net.TCPConn))
			}
		}
	}()
	return l.Addr().String()
}

// breakOff reads one request head and breaks the connection.
func breakOff(c *net.TCPConn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 4096)
	n, err := c.Read(head)
	if err != nil {
		return
	}
	var path string
	_, _ = fmt.Sscanf(string(head[:n]), http.MethodGet+" %s", &path)
	switch path {
	case "/reset":
		_ = c.SetLinger(0)
	case "/half":
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n0123456789")
	case "/half-chunked":
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n")
	case "/silent":
		_, _ = c.Read(head) // until the gateway gives up
	}
}
