package proxies

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"stint/internal/proxytest"
	"stint/internal/urlpath"
	"stint/internal/urlpath/respell"
)

// However a client spells a path, what comes to the backend as that path counts as it:
// as net/http's router has it, and as routers have it that match what is decoded.
func TestRespelledPaths(t *testing.T) {
	all := append([]asker(nil), askers...)
	for _, a := range askers {
		if a.name == "nginx" { // with a path in proxy_pass it passes on what it has decoded
			a.name, a.words = "nginx that decodes", map[string]string{"http://backend;": "http://backend/;"}
			all = append(all, a)
		}
	}
	each := 170
	if testing.Short() {
		each = 40
	}
	var spellings []string
	for _, o := range []urlpath.Options{{}, {EscapedSlash: true}, urlpath.All} {
		spellings = append(spellings, respell.Paths("/reports", each, o)...)
	}
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, a, "open", "--rules", "testdata/paths.yaml")
			s.exhaust(proxytest.Client(t, "127.0.0.7"))
			refused := 0
			for _, spelling := range spellings {
				status, body := s.raw(spelling)
				if isReports(strings.TrimPrefix(body, "GET ")) && status == 200 {
					t.Errorf("%q came to the backend as %q", spelling, body)
				}
				if status == 429 {
					refused++
				}
			}
			if refused < each/2 { // so many are the same path for all proxies
				t.Errorf("only %d were refused", refused)
			}
		})
	}
}

// isReports says whether a router of the backend may take a path for that of reports;
// to these routers one with a slash at its end is another, as it is to the rules.
func isReports(escaped string) bool {
	decoded, err := url.PathUnescape(escaped)
	return err == nil && path.Clean(decoded) == "/reports" && !strings.HasSuffix(decoded, "/")
}

// raw sends a request with a target that no client would send, and returns what the
// answer says; 0 for none.
func (s *setup) raw(target string) (status int, body string) {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}, Timeout: 10 * deadline}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * deadline)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", target); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
