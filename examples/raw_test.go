package examples

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"stint/internal/testkit/programs"
)

// However a request is written on the wire, it counts against the same used up limit.
func TestOddRequests(t *testing.T) {
	const host = "\r\nHost: example.com\r\nConnection: close\r\n"
	requests := map[string]string{
		"plain":               "GET /reports HTTP/1.1" + host + "\r\n",
		"HTTP/1.0":            "GET /reports HTTP/1.0\r\n\r\n",
		"whole URL":           "GET http://example.com/reports HTTP/1.1" + host + "\r\n",
		"whole URL, other":    "GET http://other.example/reports?a=http://b/c HTTP/1.1" + host + "\r\n",
		"HEAD":                "HEAD /reports HTTP/1.1" + host + "\r\n",
		"OPTIONS":             "OPTIONS /reports HTTP/1.1" + host + "\r\n",
		"PATCH":               "PATCH /reports HTTP/1.1" + host + "Content-Length: 4\r\n\r\nbody",
		"a method of no sort": "REPORT /reports HTTP/1.1" + host + "\r\n",
		"chunked":             "POST /reports HTTP/1.1" + host + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"GET with a body":     "GET /reports HTTP/1.1" + host + "Content-Length: 4\r\n\r\nbody",
		"GET, chunked":        "GET /reports HTTP/1.1" + host + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"trailers":            "POST /reports HTTP/1.1" + host + "TE: trailers\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-A: b\r\n\r\n",
		"Expect":              "POST /reports HTTP/1.1" + host + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
		"Expect, other":       "POST /reports HTTP/1.1" + host + "Expect: miracle\r\nContent-Length: 4\r\n\r\nbody",
		"Upgrade":             "GET /reports HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		"Connection":          "GET /reports HTTP/1.1\r\nHost: example.com\r\nConnection: close, X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For, X-Original-URI, X-Original-Method\r\n\r\n",
		"Range":               "GET /reports HTTP/1.1" + host + "Range: bytes=0-1\r\nIf-None-Match: *\r\nIf-Match: x\r\n\r\n",
		"bytes above ASCII":   "GET /reports HTTP/1.1" + host + "X-A: \xff\xfe\r\n\r\n",
		"a control character": "GET /reports HTTP/1.1" + host + "X-A: a\x01b\r\n\r\n",
		"a space in a name":   "GET /reports HTTP/1.1" + host + "X A: b\r\n\r\n",
		"a folded line":       "GET /reports HTTP/1.1" + host + "X-A: b\r\n c\r\n\r\n",
		"two hosts":           "GET /reports HTTP/1.1" + host + "Host: other\r\n\r\n",
		"an odd host":         "GET /reports HTTP/1.1\r\nHost: a,b\r\nConnection: close\r\n\r\n",
		"no host":             "GET /reports HTTP/1.1\r\nConnection: close\r\n\r\n",
		"two lengths":         "POST /reports HTTP/1.1" + host + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
		"Accept":              "GET /reports HTTP/1.1" + host + "Accept: application/problem+json\r\nAccept-Encoding: gzip, br\r\n\r\n",
	}
	eachProxy(t, func(t *testing.T, s *setup) {
		s.exhaust(programs.Client(t, "127.0.0.1"))
		s.backend.Seen()
		for name, text := range requests {
			resp, err := s.exchange(text)
			switch {
			case err != nil: // closed without a response: nothing passed, which the backend's record confirms below
			case resp.StatusCode < 400:
				t.Errorf("%s: %d", name, resp.StatusCode)
			case resp.StatusCode == 429 && resp.Header.Get("Retry-After") == "":
				t.Errorf("%s: %v", name, resp.Header)
			}
			for _, r := range s.backend.Seen() {
				t.Errorf("%s: passed as %s %v", name, r.Method, r.URL)
			}
		}
		if resp, err := s.exchange(requests["plain"]); err != nil || resp.StatusCode != 429 {
			t.Errorf("after all that: %v, %v", resp, err)
		}
	})
}

// exchange sends a request unchanged and reads the response.
func (s *setup) exchange(text string) (*http.Response, error) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, err
	}
	method, _, _ := strings.Cut(text, " ")
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, &http.Request{Method: method})
	if err == nil && resp.StatusCode == http.StatusContinue {
		return http.ReadResponse(answers, &http.Request{Method: method})
	}
	return resp, err
}
